"""A scenario draws from its launches what they show, and no more: scripted
launches stand in for real ones."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lockstep.exam import scenarios
from lockstep.exam.adapter import Adapter, Launch
from lockstep.exam.comparison import differences
from lockstep.exam.launching import Act, Ended
from lockstep.exam.lineage import lineage
from lockstep.exam.questions import Verdict
from lockstep.exam.sandbox import ExamError, Sandbox
from lockstep.exam.scenarios import SCENARIOS, WHOLE

from .test_lineage import launched, step

STEPS = 18


class Scripted(Sandbox):
    """A sandbox whose launches have been written down before."""

    def __init__(self, folder: Path, *launches: Ended, **lacks: str) -> None:
        def saved(run_dir: Path) -> list[Path]:
            return sorted(run_dir.glob("checkpoints/*"))

        adapter = Adapter(folder, "scripted", lambda _: [], saved, lacks)
        super().__init__(adapter, folder / "exam", Launch(folder), 60)
        self.script = [*launches]
        self.asked: list[dict[str, Any]] = []
        self.stopped = launched(0, 8)
        for snapshot in "stopped", "finished":
            self.begin()
            self.saved()
            self.keep(snapshot)

    def undisturbed(self, **_: object) -> Any:
        return lineage(launched(0, STEPS))

    def run(self, *acts: Act, patience: Any = None, **settings: Any) -> Ended:
        self.asked.append({"acts": acts, "patience": patience} | settings)
        ended = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        self.steps.append("launched")
        self.saved()
        return replace(ended)

    def saved(self) -> None:
        """A checkpoint of two files."""
        where = self.run_dir / "checkpoints/8"
        where.mkdir(parents=True, exist_ok=True)
        (where / "weights").write_bytes(bytes(100))
        (where / "loader").write_bytes(bytes(10))


def ask(question: str, sandbox: Sandbox) -> Verdict:
    """Run the scenario that answers `question`."""
    run = next(s.run for s in SCENARIOS if question in s.questions)
    return run(sandbox)[question]


def went_on(first: int, **other: Any) -> Ended:
    """To the end, where rank 1's first step is other."""
    ended = launched(first, STEPS)
    if other:
        ended.ranks[1][0] = step(first, 1, **other)
    return ended


def hung() -> Ended:
    """Ended by the examiner before it took a step."""
    return Ended([], code=-9, out_of_time=True)


@pytest.mark.parametrize(
    "question", ["truncated", "flipped-bit", "missing-file"]
)
@pytest.mark.parametrize(
    ("after", "other", "answer", "said"),
    [
        (8, {"ids": (0, 1)}, "failed", "it went on from it: after step 9"),
        (8, {"before": {"rates": [9.0]}}, "failed", "it went on from it: step"),
        (4, {"ids": (0, 1)}, "failed", "it fell back to step 4: after step 6"),
        (4, {}, "passed", "it fell back to step 4"),
        (0, {}, "failed", "it went on from step 0"),
    ],
)
def test_a_damaged_file_that_changes_anything_was_missed(
    question: str,
    after: int,
    other: dict[str, Any],
    answer: str,
    said: str,
    tmp_path: Path,
) -> None:
    """Samples and rates count as states do, also where the launch fell back;
    then it may have the cause of other ends."""
    verdict = ask(question, Scripted(tmp_path, went_on(after, **other)))
    assert verdict.answer == answer
    assert verdict.at_the_end == (after == 4 and answer == "failed")
    if question != "missing-file":
        assert verdict.said.startswith(said)
    elif answer == "failed":
        assert verdict.said.startswith(f"without weights: {said}")


def test_a_file_that_nobody_loads_is_no_answer(tmp_path: Path) -> None:
    """If the damaged file makes no difference, the next one is damaged."""
    whole, other = went_on(8), went_on(8, ids=(0, 1))
    b = Scripted(tmp_path, whole)
    assert scenarios.flipped(b)["flipped-bit"].answer == "not run"
    assert len(b.asked) == 2
    b = Scripted(tmp_path / "second", whole, other)
    assert scenarios.flipped(b)["flipped-bit"].answer == "failed"
    assert any("loader" in step for step in b.steps)
    found = scenarios.incomplete(Scripted(tmp_path / "third", whole))
    assert found["missing-file"].answer == "passed"  # a copy beside, say
    assert WHOLE not in found["missing-file"].said


@pytest.mark.parametrize("question", ["world-size", "wrong-run", "flipped-bit"])
def test_a_hang_is_no_refusal(question: str, tmp_path: Path) -> None:
    """What the examiner had to end has refused nothing."""
    verdict = ask(question, Scripted(tmp_path, hung()))
    assert verdict.answer == "failed"
    assert "it hung" in verdict.said
    left = Ended([], code=2, text="Error: no")
    verdict = ask(question, Scripted(tmp_path / "2", left))
    assert verdict.answer in ("passed", "not applicable")


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("ValueError: 4 ranks, saved by 2", "not applicable"),
        ("[rank1]: KeyError: 'rank-3.pt'", "failed"),
        ("UnboundLocalError: local variable 'python'", "failed"),
    ],
)
def test_a_crash_at_another_world_size_is_no_refusal(
    said: str, answer: str, tmp_path: Path
) -> None:
    """An error of the program fails the question; a refusal is justified."""
    left = Ended([], code=1, text=f"Traceback (most recent call last):\n{said}")
    verdict = ask("world-size", Scripted(tmp_path, left))
    assert verdict.answer == answer
    assert said in verdict.said


@pytest.mark.parametrize(
    "question",
    ["kill-during-save", "truncated", "missing-file", "flipped-bit", "pickle"],
)
def test_without_a_checkpoint_there_is_no_answer(
    question: str, tmp_path: Path
) -> None:
    """An adapter whose `checkpoints` finds nothing is told so."""
    b = Scripted(tmp_path, went_on(8))
    b.begin()
    b.keep("stopped")
    with pytest.raises(ExamError, match=r"checkpoints\(run_dir\) finds none"):
        ask(question, b)


def test_parts_of_weights_are_not_looked_for_on_other_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On another world size each rank holds another part, so that the step
    that a launch goes on from cannot be found by it."""
    four = replace(went_on(8), world=4)
    for rank in 2, 3:
        four.ranks[rank] = [s._replace(ids=()) for s in four.ranks[0]]
    b = Scripted(tmp_path, four)
    assert scenarios.resize(b)["world-size"].said.startswith("2 to 4 ranks")
    assert scenarios.resize(b)["world-size"].answer == "passed"
    two = Scripted(tmp_path / "2", went_on(8))
    assert "it ran on 2" in scenarios.resize(two)["world-size"].said
    first = four.ranks[3][0]
    part = first.before | {"weights": "a part"}
    four.ranks[3][0] = first._replace(before=part)
    assert scenarios.resize(b)["world-size"].answer == "not run"
    was = b.undisturbed()
    was.ranks[1][0].before["weights"] = "a part"
    monkeypatch.setattr(b, "undisturbed", lambda: was)
    b.asked.clear()
    assert scenarios.resize(b)["world-size"].answer == "not run"
    assert not b.asked


def test_other_micro_batches_must_train_on_the_same_samples(
    tmp_path: Path,
) -> None:
    """`micro-batch` asks for half as many samples in a forward pass. It applies
    to an adapter that reads the setting, is not run where forward passes stay
    as they were, and fails where a step gets other samples."""

    class Passes(Scripted):
        def undisturbed(self, **_: object) -> Any:
            return lineage(passes(launched(0, STEPS), 2))

    def passes(ended: Ended, size: int, **other: Any) -> Ended:
        for steps in ended.ranks.values():
            sizes = (size,) * (2 // size)
            steps[:] = [s._replace(passes=sizes, **other) for s in steps]
        return ended

    b = Passes(tmp_path, went_on(8))
    found = scenarios.micro_batch(b)["micro-batch"]
    assert found.said == "its command doesn't use launch.micro_batch"
    b.adapter = replace(b.adapter, command=lambda launch: [launch.micro_batch])
    for ended, answer, said in (
        (
            passes(went_on(8), 1),
            "passed",
            "2 to 1 samples a forward pass; compared: samples",
        ),
        (passes(went_on(8), 2), "not run", "does its command pass"),
        (passes(went_on(8), 1, ids=(9, 9)), "failed", "had been left out"),
        (passes(went_on(4), 1), "failed", "it went on from step 4"),
        (Ended([], code=1, text="KeyError: 'x'"), "failed", "KeyError: 'x'"),
        (Ended([], code=1, text="Error: no"), "not applicable", "Error: no"),
    ):
        b.script = [ended]
        found = scenarios.micro_batch(b)["micro-batch"]
        assert (found.answer, said in found.said) == (answer, True), found
    assert b.asked[-1]["micro_batch"] == 1


def test_a_checkpoint_outside_the_run_directory_is_named(
    tmp_path: Path,
) -> None:
    """A second run that takes no step, or goes on from a step of the first,
    though its directory was empty, found the first one's checkpoint."""
    for ended, said in (Ended([]), "took no step"), (went_on(16), "step 16 of"):
        b = Scripted(tmp_path / said[:4], ended)
        found = scenarios.undisturbed(b)["reproducible"]
        assert found.answer == "failed"
        assert said in found.said
        assert "outside launch.run_dir" in found.said


def test_an_uneven_epoch_has_to_be_gone_through(tmp_path: Path) -> None:
    """A run that ends early has repeated nothing, and is no good sign."""
    b = Scripted(tmp_path, launched(0, 6))
    assert (
        scenarios.uneven(b)["partial-batch"].said
        == "it ended after 6 of 21 steps"
    )
    late = replace(launched(0, 6), out_of_time=True)
    b = Scripted(tmp_path / "2", late)
    assert scenarios.uneven(b)["partial-batch"].answer == "failed"
    assert "error" not in scenarios.uneven(b)["partial-batch"].said
    whole = launched(0, 21)
    for rank, steps in whole.ranks.items():
        for k, one in enumerate(steps):
            ids = range(16 * k + 8 * rank, 16 * k + 8 * rank + 8)
            steps[k] = one._replace(ids=tuple(i % 101 for i in ids))
    b = Scripted(tmp_path / "3", whole)
    assert scenarios.uneven(b)["partial-batch"].answer == "passed"


def test_who_draws_nothing_is_not_asked_for_random_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model without dropout cannot show that its states are lost."""
    stopped = launched(0, 8)
    b = Scripted(tmp_path, stopped, went_on(8))
    assert scenarios.stop(b)["rng-state"].answer == "passed"
    was = b.undisturbed()
    for steps in was.ranks.values():
        steps[:] = [step._replace(drew=()) for step in steps]
    monkeypatch.setattr(b, "undisturbed", lambda: was)
    b.script = [stopped, went_on(8)]
    assert scenarios.stop(b)["rng-state"].answer == "not applicable"


def test_who_keeps_no_state_is_not_asked_for_it(tmp_path: Path) -> None:
    """Nothing was seen to be restored of a plain SGD's state, or of the buffers
    of a model that has none."""
    parts = launched(0, 8), launched(8, STEPS)
    b = Scripted(tmp_path, *parts)
    b.undisturbed = lambda **_: run  # type: ignore[method-assign]
    for name, empty in ("optimizer", {}), ("buffers", {"all": []}):
        run = lineage(launched(0, STEPS))
        for steps in run.ranks.values():
            for k, one in enumerate(steps):
                sizes = one.before["sizes"] | {name: empty}
                steps[k] = one._replace(before=one.before | {"sizes": sizes})
        b.script = [*parts]
        found = scenarios.stop(b)
        answers = {n: found[n].answer for n in ("optimizer", "buffers")}
        assert answers.pop(name) == "not applicable"
        assert [*answers.values()] == ["passed"]


def test_states_are_passed_as_far_as_they_were_compared(tmp_path: Path) -> None:
    """Where weights differ, later states follow, and the verdict says up to
    where they agreed. Where the weights agree to the end, that is passed."""

    def resumed(**other: Any) -> Ended:
        ended = launched(8, STEPS)
        for steps in ended.ranks.values():
            steps[2] = steps[2]._replace(**other)
        return ended

    random = step(10, 0).before | {"random": ["r"]}
    lost = resumed(before=random, after="others")
    b = Scripted(tmp_path, launched(0, 8), lost)
    found = scenarios.stop(b)
    assert found["final-weights"].answer == "not run"
    for name in "optimizer", "buffers", "ema":
        assert found[name].answer == "passed"
        assert "up to step 11" in found[name].said
    buffers = step(10, 0).before | {"buffers": "others"}
    b.script = [launched(0, 8), resumed(before=buffers)]
    found = scenarios.stop(b)
    assert found["buffers"].answer == "failed"
    for name in "optimizer", "ema", "final-weights":
        assert (found[name].answer, found[name].said) == ("passed", "")


def test_what_is_so_without_damage_is_no_sign_of_it(tmp_path: Path) -> None:
    """A trainer that loses its random state does so after damage too; what
    counts is what comes on top."""
    random = {"before": {"random": ["another"]}}
    b = Scripted(tmp_path, launched(0, 8), went_on(8, **random))
    assert scenarios.stop(b)["rng-state"].answer == "failed"
    assert (
        scenarios.flipped(b)["flipped-bit"].answer == "not run"
    )  # none loaded
    worse = {"before": {"random": ["another"], "rates": [9.0]}}
    b.script = [went_on(8, **worse)]
    said = scenarios.incomplete(b)["missing-file"]
    assert {*said.because} == {"learning-rate"}
    assert said.said.startswith("without weights: it ")


def test_the_finished_run_is_the_one_that_is_compared(tmp_path: Path) -> None:
    """Asked again, two other runs are not put in its place."""
    b = Scripted(tmp_path, launched(0, STEPS))
    kept = b.folder / "finished/of-the-first-try"
    kept.touch()
    scenarios.undisturbed(b)
    assert kept.exists()
    b.clear()
    b.begin()
    scenarios.undisturbed(b)
    assert kept.parent.exists()


def test_the_stop_between_two_epochs_has_to_be_there(tmp_path: Path) -> None:
    """A launch that goes on from before the epoch's end was not asked."""
    b = Scripted(tmp_path, launched(0, 6), went_on(4))
    said = scenarios.boundary(b)["epoch-boundary"]
    assert said.answer == "failed"
    assert said.said == "it went on from step 4, where 6 was due"
    b = Scripted(tmp_path / "2", launched(0, 6), went_on(6))
    assert scenarios.boundary(b)["epoch-boundary"].answer == "passed"


def test_an_older_checkpoint_than_the_newest_published_is_a_failure(
    tmp_path: Path,
) -> None:
    """A launch that resumes from step 8 though step 16 was published has lost
    saved steps; where nothing newer was published, it has not."""
    for published, answer in ([4, 8], "failed"), ([4], "passed"):
        second = replace(launched(8, 18), published=published, save_every=4)
        b = Scripted(tmp_path / answer, launched(0, 10), second, went_on(8))
        if published == [4]:
            b.script[-1] = went_on(12)
        found = scenarios.kill(b)["kill"]
        assert found.answer == answer, found
        assert found.at_the_end == (answer == "failed")
    b = Scripted(tmp_path / "text", launched(0, 10), second, went_on(8))
    found = scenarios.kill(b)["kill"]
    assert found.said == (
        "it went on from step 8, where 12 was due (compared as text, 8 comes"
        " after 12)"
    )
    b = Scripted(tmp_path / "finished", went_on(8))
    b.last_save = 18
    found = scenarios.finished(b)["finished-run"]
    assert found.answer == "failed"
    assert (
        "10 steps once more, from step 8, though the checkpoint" in found.said
    )
    b = Scripted(tmp_path / "last", went_on(16))
    b.last_save = 16
    assert scenarios.finished(b)["finished-run"].answer == "passed"


def test_a_kill_during_a_save_is_tried_in_several_places(
    tmp_path: Path,
) -> None:
    """`torn` tears a file, kills between files, and stalls a rank, in one run,
    and says after which of them a launch failed. A trainer whose writer is not
    reached is asked in a new run, and without any strike there is no answer."""
    torn = replace(launched(0, 8), code=1, acted=["tear"])
    between = replace(launched(4, 8), code=-9, acted=["between"])
    stall = replace(launched(4, 8), code=-9, acted=["stall"])
    b = Scripted(tmp_path, torn, between, stall, went_on(4))
    assert scenarios.torn(b)["kill-during-save"].answer == "passed"
    did = [[act.do for act in asked["acts"]] for asked in b.asked]
    strikes = ["tear", "kill"], ["between", "kill"], ["stall", "kill"]
    assert did == [*strikes, []]
    dead = Ended([], code=1, text="Error: no")
    b = Scripted(tmp_path / "2", torn, between, stall, dead)
    found = scenarios.torn(b)["kill-during-save"]
    assert found.said.startswith(
        "after a kill during a save, before rank 1 had written: no step"
    )
    unreached = replace(launched(0, STEPS), acted=["tear"])
    again = replace(launched(0, 8), code=-9, acted=["between"])
    b = Scripted(tmp_path / "3", unreached, again, stall, went_on(4))
    assert scenarios.torn(b)["kill-during-save"].answer == "passed"
    b = Scripted(tmp_path / "4", unreached)
    assert scenarios.torn(b)["kill-during-save"].answer == "not run"


def test_a_stall_needs_a_file_that_is_larger_than_logs(tmp_path: Path) -> None:
    """The limit is half of the smallest file of a checkpoint that no log
    reaches, since every rank may write a log before it saves."""
    b = Scripted(tmp_path, went_on(8))
    b.begin("stopped")
    assert scenarios.beyond_logs(b, [100, 10]) == 5
    (b.run_dir / "log").write_bytes(bytes(6))
    assert scenarios.beyond_logs(b, [100, 10]) == 50


def test_the_second_restart_has_to_be_a_second_one(tmp_path: Path) -> None:
    """Where both launches go on from one checkpoint, `twice` is not asked."""
    first, killed = launched(0, 9), launched(8, 11)
    b = Scripted(tmp_path, first, killed, went_on(8))
    assert scenarios.twice(b)["two-restarts"].answer == "not run"
    b = Scripted(tmp_path / "2", first, killed, went_on(10))
    assert scenarios.twice(b)["two-restarts"].answer == "passed"


def test_the_second_launch_is_killed_after_a_save_had_time(
    tmp_path: Path,
) -> None:
    """`two-restarts` needs a checkpoint of the second launch, which may save in
    the background. So a step lies between that save and the kill, before which
    the exam waits for it."""
    b = Scripted(tmp_path, launched(0, 9), launched(8, 12), went_on(10))
    assert scenarios.twice(b)["two-restarts"].answer == "passed"
    (act,) = b.asked[1]["acts"]
    assert act.step == b.asked[1]["save_every"] + 2


def test_a_launch_that_loses_saved_steps_is_judged_all_the_same(
    tmp_path: Path,
) -> None:
    """A launch that resumes from the checkpoint before the newest fails
    `resumes-latest` alone, and the message says what to write for a trainer
    that saves after epochs only. That nothing is saved at SIGTERM is then a
    separate cause, unless no launch resumes at all."""
    told = replace(launched(0, 7), code=1, acted=["terminate"])
    anew = [told, went_on(0)]
    for first, alone in (6, True), (4, True), (0, False):
        b = Scripted(tmp_path / str(first), launched(0, 8), went_on(first))
        found = scenarios.stop(b)
        assert found["resumes-latest"].answer == "failed"
        assert ("save_every" in found["resumes-latest"].said) == (first == 6)
        others = [
            found[name].answer
            for name in ("order", "rng-state", "final-weights")
        ]
        assert others == 3 * ["passed" if alone else "not run"]
        b.script = [*anew]
        because = scenarios.sigterm(b)["sigterm"].because
        assert bool(because) == (not alone)


def test_one_that_saves_after_epochs_is_asked_there(tmp_path: Path) -> None:
    """It is stopped after its second epoch, killed after the first two, told
    to end in its first, and not killed twice in one."""
    script = launched(0, STEPS), went_on(12)
    b = Scripted(tmp_path, *script, save_every="after epochs", stop="no")
    b.launch = replace(b.launch, save_every=6)
    assert b.middle == 12
    stopped = scenarios.stop(b)
    assert stopped["resumes-latest"].answer == "passed"
    for seed in range(20):
        b.launch = replace(b.launch, seed=seed)
        b.script = [*script]
        assert scenarios.kill(b)["kill"].answer == "passed"
        (killed,), (again,) = (asked["acts"] for asked in b.asked[-3:-1])
        assert killed.step in range(8, 12)
        assert again.step == 11  # since step 6: the last but one
    why = scenarios.twice(b)["two-restarts"]
    assert (why.answer, why.said) == ("not applicable", "after epochs")
    b.script = [replace(launched(0, 6), code=1, acted=["terminate"])]
    scenarios.sigterm(b)
    assert b.asked[-2]["acts"][0].step == 5


def test_a_scale_that_does_not_fall_is_made_to(tmp_path: Path) -> None:
    """The exam makes losses infinite until the scale has fallen by the middle
    of the run; at the restart it has to be as it was there."""

    class Fp16(Scripted):
        def undisturbed(self, overflows: int = 0, **_: object) -> Any:
            return lineage(scaled(0, overflows, scale=4.0))

    def scaled(first: int, skips: int, scale: float) -> Ended:
        ended = launched(first, STEPS)
        for steps in ended.ranks.values():
            steps[:] = [s._replace(scale=scale) for s in steps]
            fallen = [steps[0]._replace(skipped=True)] * skips
            steps[:0] = fallen
        return ended

    for scale, answer in (4.0, "passed"), (8.0, "failed"):
        ends = scaled(0, 2, scale=4.0), scaled(8, 0, scale=scale)
        b = Fp16(tmp_path / answer, *ends, stop="no")
        said = scenarios.fp16(b)["scaler"]
        assert said.answer == answer, said
        assert [asked.get("overflows", 0) for asked in b.asked] == [2, 0]
    assert "scale 8, not 4" in said.said


def test_what_is_not_seeded_is_named(tmp_path: Path) -> None:
    """By what two launches differ in first."""
    begins = launched(0, STEPS)
    begins.ranks[1][0] = step(0, 1, before={"weights": "others"})
    begins.ranks[1][-1] = begins.ranks[1][-1]._replace(after="others")
    order = launched(0, STEPS)
    order.ranks[1][0] = step(0, 1, ids=(7, 5))
    for other, word in (begins, "initialization"), (order, "shuffle"):
        b = Scripted(tmp_path / word, other)
        said = scenarios.undisturbed(b)["reproducible"]
        assert said.answer == "failed"
        assert word in said.said


def test_what_does_not_stop_where_it_is_told_says_so(tmp_path: Path) -> None:
    """A trainer that trains on, or ends with an error, cannot be asked what
    stands on a stop; one that has to be killed lacks `stop`."""
    for ended in launched(0, STEPS), replace(launched(0, 8), code=75):
        with pytest.raises(ExamError, match=r'lacks = \{"stop"'):
            scenarios.stop_at(Scripted(tmp_path, ended), 8)
    assert scenarios.stop_at(Scripted(tmp_path, launched(0, 8)), 8)
    b = Scripted(tmp_path, launched(0, 10), stop="it cannot")
    assert scenarios.stop_at(b, 8)
    assert b.asked[0]["acts"] == (Act(10, "kill"),)


@pytest.mark.parametrize(
    "question",
    [
        "kill",
        "two-restarts",
        "loader-workers",
        "kill-during-save",
        "sigterm",
        "hang",
    ],
)
def test_a_first_launch_that_takes_no_step_is_no_answer(
    question: str, tmp_path: Path
) -> None:
    """It may have been the machine."""
    b = Scripted(tmp_path, Ended([], code=1, text="Error: no memory"))
    with pytest.raises(ExamError, match="took no step"):
        ask(question, b)


def test_sigterm_is_sent_three_times(tmp_path: Path) -> None:
    """A race that is won once or twice is found by the third time."""
    good = replace(launched(0, 7), code=1, acted=["terminate"])
    bad = replace(launched(0, 8), code=1, acted=["terminate"], out_of_time=True)
    b = Scripted(tmp_path, good, went_on(7), good, went_on(7), bad)
    assert scenarios.sigterm(b)["sigterm"].answer == "failed"
    b = Scripted(tmp_path / "2", *[good, went_on(7)] * 3, bad)
    assert scenarios.sigterm(b)["sigterm"].answer == "passed"
    assert b.script == [bad]
    assert not any(act.before for asked in b.asked for act in asked["acts"])
    # Once before the second forward pass, where there are several.
    b = Scripted(tmp_path / "3", *[good, went_on(7)] * 3, bad)
    b.adapter = replace(b.adapter, command=lambda launch: [launch.micro_batch])
    was = b.undisturbed()
    was.ranks[0][0] = was.ranks[0][0]._replace(passes=(8,))
    b.undisturbed = lambda **_: was  # type: ignore[method-assign]
    assert scenarios.sigterm(b)["sigterm"].answer == "passed"
    before = [act.before for asked in b.asked for act in asked["acts"]]
    assert before == [0, 2, 0]
    assert {asked["micro_batch"] for asked in b.asked} == {4}
    lacks = {"micro-batch": "it does not accumulate gradients"}
    b.adapter, b.asked = replace(b.adapter, lacks=lacks), []
    scenarios.sigterm(b)
    assert not any("micro_batch" in asked for asked in b.asked)


def test_a_known_difference_does_not_hide_what_sigterm_loses(
    tmp_path: Path,
) -> None:
    """A resumed run that differs as after any stop says nothing of SIGTERM, so
    the other tries are made all the same."""
    good = replace(launched(0, 7), code=1, acted=["terminate"])
    differs = [good, went_on(7, ids=(0, 1))]
    b = Scripted(tmp_path, *differs, good, went_on(0))
    b.goes_on, b.repeats = True, True
    was = lineage(launched(0, STEPS))
    b.unlike = differences(was, lineage(*differs), True)
    found = scenarios.sigterm(b)["sigterm"]
    assert found.said == "nothing was saved, and all 7 steps were lost"
    b.script = differs * 3
    found = scenarios.sigterm(b)["sigterm"]
    assert found.answer == "failed"
    assert found.because.keys() <= b.unlike.keys()
    b.unlike, b.script = {}, differs * 3
    assert scenarios.sigterm(b)["sigterm"].answer == "failed"
    assert len(b.script) == 4  # the first try has shown it


def test_weights_that_follow_a_step_are_not_held_against_it(
    tmp_path: Path,
) -> None:
    """ZeRO gathers the weights after the optimizer's step, so that the exam
    does not know those that are saved last, and cannot find them again."""
    told = replace(launched(0, 7), code=1, acted=["terminate"])
    b = Scripted(tmp_path, *[told, went_on(7)] * 3)
    assert scenarios.sigterm(b)["sigterm"].answer == "passed"
    for steps in told.ranks.values():
        steps[-1] = steps[-1]._replace(after="w6")
    b = Scripted(tmp_path / "2", told, went_on(7))
    assert scenarios.sigterm(b)["sigterm"].answer == "not run"


@pytest.mark.parametrize("question", ["sigterm", "hang"])
def test_time_counts_from_what_was_done(question: str, tmp_path: Path) -> None:
    """A launch that never came to the step at which it is told, or to hang, is
    not judged; else it has its time from then on."""
    slow = replace(launched(0, 5), out_of_time=True)
    b = Scripted(tmp_path, slow)
    assert ask(question, b).answer == "not run"
    b = Scripted(tmp_path / "2", replace(slow, acted=["so"]))
    assert ask(question, b).answer == "failed"
    assert b.asked[0]["patience"] in (30, 60)


def test_the_step_of_a_kill_is_drawn_once(tmp_path: Path) -> None:
    """So that a failure that hangs on it is seen again."""
    b = Scripted(tmp_path, launched(0, 10), went_on(8))
    for _ in range(3):
        b.script = [launched(0, 10), launched(8, 18), went_on(16)]
        assert scenarios.kill(b)["kill"].said == "from step 8, 16"
    acts = [asked["acts"] for asked in b.asked if asked["acts"]]
    assert len({*acts}) == 2  # in two epochs


def test_a_kill_does_not_strike_during_a_save(tmp_path: Path) -> None:
    """That is another question. A rank may have begun to save after the last
    step before the exam hears of that step from rank 0."""
    for seed in range(20):
        b = Scripted(tmp_path / str(seed), launched(0, 10), went_on(8))
        b.launch = replace(b.launch, seed=seed)
        scenarios.kill(b)
        (first,), (second,), () = (asked["acts"] for asked in b.asked)
        saved = first.step // 4 * 4
        for at in first.step, saved + second.step:
            assert at % 4
            assert at < b.launch.steps


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    """An exam clears its folder, so it takes a new one, or an exam's."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run/theirs").touch()
    adapter = Adapter(tmp_path, "a", lambda _: [], lambda _: [], {})
    with pytest.raises(ExamError, match="holds other files"):
        Sandbox(adapter, tmp_path, Launch(Path()), 60)
    assert (tmp_path / "run/theirs").exists()
    for _ in range(2):
        b = Sandbox(adapter, tmp_path / "exam", Launch(Path()), 60)
        with pytest.raises(ExamError, match="no stopped run"):
            b.begin("stopped")  # nor one of the exam before
        b.begin()
        b.keep("stopped")
        assert not (b.folder / "failures").exists()
        b.set_aside("kill-1")
        with pytest.raises(ExamError, match="another exam is being held"):
            Sandbox(adapter, tmp_path / "exam", Launch(Path()), 60)
        del b


def batched(take: Callable[[int, int], tuple[int, ...]]) -> Ended:
    """A run in which a rank takes these samples at a step, from 0."""
    ended = launched(0, STEPS)
    for rank, steps in ended.ranks.items():
        for k, one in enumerate(steps):
            steps[k] = one._replace(ids=take(k, rank))
    return ended


def from_96(k: int, rank: int) -> tuple[int, ...]:
    """The samples of an epoch of six steps of 16, in order."""
    return tuple(i % 96 for i in range(16 * k + rank, 16 * k + 16, 2))


WITH_REPLACEMENT = Random(0)


@pytest.mark.parametrize(
    ("take", "said"),
    [
        (from_96, "16 samples a step"),
        (
            lambda k, rank: 2 * from_96(k, rank),
            "16 samples a step, each of which passes the model 2 times",
        ),
        (
            lambda *_: tuple(WITH_REPLACEMENT.choices(range(96), k=8)),
            "16 samples a step",
        ),
        (  # and once both ranks happen to draw the same
            lambda k, rank: from_96(k, rank if k else 0),
            "16 samples a step",
        ),
        (
            lambda k, _: from_96(k, 0),
            "8 distinct samples a step, not 16",
        ),
        (
            lambda k, rank: 2 * from_96(k, rank)[:4],
            "8 distinct samples a step, not 16",
        ),
        (
            lambda k, rank: from_96(k, rank)[:4],
            "8 distinct samples a step, not 16",
        ),
    ],
)
def test_a_batch_is_counted_in_distinct_samples(
    take: Callable[[int, int], tuple[int, ...]], said: str, tmp_path: Path
) -> None:
    """Two views of a sample are one sample, and so are two ranks' copies of it.
    Samples drawn with replacement may repeat by chance."""
    run = batched(take)
    b = Scripted(tmp_path, run)
    b.undisturbed = lambda **_: lineage(run)  # type: ignore[method-assign]
    verdict = scenarios.undisturbed(b)["batch"]
    assert verdict.said == said
    assert (verdict.answer == "failed") == ("distinct" in said)


def test_two_of_four_ranks_with_the_same_samples_are_found(
    tmp_path: Path,
) -> None:
    """Though most samples of the step come once."""
    run = launched(0, STEPS, ranks=4)
    for rank, steps in run.ranks.items():
        for k, one in enumerate(steps):
            ids = from_96(k, 0)[:4], from_96(k, 0)[4:], from_96(k, 1)[:4]
            steps[k] = one._replace(ids=ids[max(rank - 1, 0)])
    said = scenarios.whole_batches(lineage(run), 16).said
    assert said == "12 distinct samples a step, not 16"


def test_a_run_in_which_no_epoch_ends_hides_a_danger(tmp_path: Path) -> None:
    """Samples repeat or are missing there, unless it is meant so. Where epochs
    end elsewhere than at the sixth step, nothing is wrong."""
    run = batched(lambda k, rank: from_96(5 * (k % 7), rank)[: 7 + k % 2])
    b = Scripted(tmp_path, run)
    b.undisturbed = lambda **_: lineage(run)  # type: ignore[method-assign]
    found = scenarios.undisturbed(b) | scenarios.uneven(b)
    found |= scenarios.boundary(b)
    parts = replace(run, ranks={}), replace(run, ranks={})
    for rank, steps in run.ranks.items():
        for part, own in zip(parts, (steps[:8], steps[8:]), strict=True):
            part.ranks[rank] = own
    b.script = [*parts]
    found |= scenarios.stop(b)
    for name in "reshuffled", "partial-batch", "epoch-boundary", "exactly-once":
        assert found[name].answer == "not applicable", name
        assert "repeat or are missing" in found[name].danger, name
    for rank, steps in run.ranks.items():
        for k, one in enumerate(steps):  # each sample once
            ids = tuple(range(1000 * rank + 8 * k, 1000 * rank + 8 * k + 8))
            steps[k] = one._replace(ids=ids)
    found = scenarios.undisturbed(b) | scenarios.boundary(b)
    for name in "reshuffled", "epoch-boundary":
        assert "launch.samples" in found[name].danger
    of_64 = batched(lambda k, rank: from_96(k % 4, rank))
    b.undisturbed = lambda **_: lineage(of_64)  # type: ignore[method-assign]
    verdict = scenarios.boundary(b)["epoch-boundary"]
    assert (verdict.answer, verdict.danger) == ("not applicable", "")


def test_two_views_of_a_sample_are_no_repetition(tmp_path: Path) -> None:
    """In an epoch of 101 samples, each of which passes the model twice, the
    counts of samples differ by two within the epoch."""
    of_101 = launched(0, 21)
    for rank, steps in of_101.ranks.items():
        for k, one in enumerate(steps):
            ids = range(16 * k + 8 * rank, 16 * k + 8 * rank + 8)
            steps[k] = one._replace(ids=2 * tuple(i % 101 for i in ids))
    b = Scripted(tmp_path, of_101)
    run = batched(lambda k, rank: 2 * from_96(k, rank))
    b.undisturbed = lambda **_: lineage(run)  # type: ignore[method-assign]
    assert scenarios.uneven(b)["partial-batch"].answer == "passed"
    b.undisturbed = lambda **_: lineage(batched(from_96))  # type: ignore[method-assign]
    assert scenarios.uneven(b)["partial-batch"].answer == "failed"


def test_what_sigterm_saved_is_compared_to_the_end(tmp_path: Path) -> None:
    """With an undisturbed run that saves as seldom, if two of those agree."""
    told = replace(launched(0, 7), code=1, acted=["terminate"])
    lost = went_on(7, before={"optimizer": "none"})
    b = Scripted(tmp_path, told, lost)
    said = scenarios.sigterm(b)["sigterm"]
    assert said.answer == "failed"
    assert {*said.because} == {"optimizer"}
    b.repeats = False
    b.script = [told, lost] * 3
    assert scenarios.sigterm(b)["sigterm"].answer == "passed"


def test_in_fp16_other_weights_alone_are_the_scalers(tmp_path: Path) -> None:
    """What else differs has a question; weights that differ with everything
    else alike have none in half precision."""

    class Fp16(Scripted):
        def undisturbed(self, **_: object) -> Any:
            return lineage(scaled(0))

    def scaled(first: int) -> Ended:
        ended = launched(first, STEPS)
        for steps in ended.ranks.values():
            steps[:] = [s._replace(scale=4.0) for s in steps]
            if not first:
                steps.insert(1, steps[0]._replace(skipped=True))
        return ended

    random = {"before": step(8, 1).before | {"random": ["r"]}}
    for k, (other, answer) in enumerate(
        (({}, "passed"), ({"after": "others"}, "failed"), (random, "passed"))
    ):
        resumed = scaled(8)
        resumed.ranks[1][0] = resumed.ranks[1][0]._replace(**other)
        b = Fp16(tmp_path / str(k), scaled(0), resumed, stop="no")
        assert scenarios.fp16(b)["scaler"].answer == answer


def test_lost_moments_are_found_on_other_ranks(tmp_path: Path) -> None:
    """And the verdict names what was compared."""

    def four(moment: float) -> Ended:
        ended = replace(went_on(8), world=4)
        for rank in 2, 3:
            ended.ranks[rank] = [s._replace(ids=()) for s in ended.ranks[0]]
        for steps in ended.ranks.values():
            sizes = {"sizes": {"optimizer": {"exp_avg": [moment]}}}
            bits = {"optimizer": f"of {moment}"}
            before = steps[0].before | sizes | bits
            steps[0] = steps[0]._replace(before=before)
        return ended

    run = launched(0, STEPS)
    for steps in run.ranks.values():
        sizes = {"sizes": {"optimizer": {"exp_avg": [3.0]}}}
        steps[8] = steps[8]._replace(before=steps[8].before | sizes)
    b = Scripted(tmp_path, four(3.0))
    b.undisturbed = lambda **_: lineage(run)  # type: ignore[method-assign]
    said = scenarios.resize(b)["world-size"]
    assert said.answer == "passed"
    assert said.said.endswith("samples, rates, weights, optimizer state")
    b.script = [four(0.0)]
    said = scenarios.resize(b)["world-size"]
    assert said.answer == "failed"
    assert {*said.because} == {"optimizer"}
