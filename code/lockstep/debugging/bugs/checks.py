"""The seventeen defects of the page of silent failures, as checks of a trainer.

`CHECKS` has, for each defect, the properties of a trainer without it. They look
at runs of a trainer's file, which has the interview cut's functions and may
look different inside. The checks of a file share its runs, each made once and
in about a second.

A reader's fix is graded by these checks. Our tests apply them to the broken
trainers, to the sound ones, to the interview cut and to Lockstep's trainer.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from lockstep import interview
from lockstep.grading.criteria import load
from lockstep.instruments.late_listing import list_late

from . import probes
from .rig import (
    KERNELS,
    Run,
    RunFailed,
    die_mid_write,
    joined,
    launch,
    on_ranks,
    step_on_a_gpu,
)

N = 4000  # samples of the toy set
BATCH = 2400  # so that five steps are three epochs
SHORT: dict[str, Any] = {
    "global_batch_size": BATCH,
    "micro_batch_size": BATCH // 4,
    "max_steps": 5,
    "checkpoint_every_steps": 3,
    "log_every_steps": 4,
}
ALONE = SHORT | {"micro_batch_size": BATCH}
CHANGES: dict[str, Any] = {
    "seed": 1,
    "learning_rate": 1e-2,
    "global_batch_size": BATCH // 2,
    "max_steps": 6,
    "precision": "bf16",
    "dropout": 0.2,
}
PHASES = "load", "h2d", "forward", "backward", "sync", "optimizer", "checkpoint"


def watched(module: ModuleType) -> dict[str, Any]:
    """Probes that a whole run goes through."""
    return {
        "samples": probes.count_samples_per_step(),
        "dtypes": probes.see_output_dtypes(),
        "masks": probes.see_dropout_masks(),
        "reads": probes.count_host_reads_per_step(),
    }


def on_sound_data(module: ModuleType) -> None:
    """So that losses can be compared, whatever the labels were."""
    module.toy = interview.toy  # type: ignore[attr-defined]


class Trainer:
    """A trainer's file and its runs in `folder`, next to a sound trainer's."""

    def __init__(self, file: Path, sound: Path, folder: Path) -> None:
        self.file, self.sound, self.folder = file, sound, folder

    def run(self, name: str, **asked: Any) -> Run:
        """Launch the trainer into a folder of that name."""
        return launch(self.file, self.folder / name, **asked)

    @cached_property
    def whole(self) -> Run:
        """Uninterrupted, on two ranks, watched."""
        return self.run("whole", watch=watched, **SHORT)

    @cached_property
    def stopped(self) -> Run:
        """The same with a loader worker, and stopped after three steps."""
        fewer = {"stop_at_step": 3, "num_workers": 1}
        return self.run("stopped", watch=watched, **SHORT | fewer)

    @cached_property
    def resumed(self) -> Run:
        """The same run, resumed and finished."""
        assert self.stopped
        return self.run("stopped", watch=watched, **SHORT)

    def logged(self, file: Path, name: str) -> Run:
        """Without dropout, on the same data, with every step logged."""
        often = {"max_steps": 3, "log_every_steps": 1, "dropout": 0.0}
        asked: dict[str, Any] = SHORT | often
        return launch(file, self.folder / name, watch=on_sound_data, **asked)

    @cached_property
    def plain(self) -> Run:
        """The trainer's run with every step logged."""
        return self.logged(self.file, "plain")

    @cached_property
    def truth(self) -> Run:
        """The sound trainer's run with every step logged."""
        return self.logged(self.sound, "truth")

    @cached_property
    def refusals(self) -> dict[str, str]:
        """Why a run is not resumed, by the setting that was changed, or "own"
        if none was; empty where the run is resumed."""
        asked = ALONE | {"stop_at_step": 3}
        return dict(
            on_ranks(1, refused, self.file, self.folder / "mine", asked)[0]
        )


def every_epoch_trains_on_every_sample(trainer: Trainer) -> None:
    """1. A step may hold the end of one epoch and the beginning of the next."""
    steps = len(trainer.whole.samples)
    assert steps == 5, f"{steps} steps were done of 5"
    times: Counter[int] = Counter()
    for step, ids in sorted(trainer.whole.samples.items()):
        times.update(ids)
        seen = {times[i] for i in {*range(N), *times}}
        epochs, begun = divmod(step * BATCH, N)
        said = f"after step {step} samples were seen {sorted(seen)} times"
        assert seen == {epochs, epochs + bool(begun)}, said


def progress_is_what_was_trained(trainer: Trainer) -> None:
    """2."""
    for run, steps in (trainer.stopped, 3), (trainer.resumed, 5):
        *logged, last = run.of("step") + run.of("run_finished")
        assert last["step"] == steps, f"ends at step {last['step']}"
        for event in *logged, last:
            position, step = event["position"], event["step"]
            said = f"the position is {position} after {step} steps of {BATCH}"
            assert position == step * BATCH, said
    both = trainer.stopped.samples | trainer.resumed.samples
    assert {step: sorted(ids) for step, ids in both.items()} == {
        step: sorted(ids) for step, ids in trainer.whole.samples.items()
    }, "a run that was stopped trains on other samples"


def what_was_saved_is_restored(trainer: Trainer) -> None:
    """3."""
    step = trainer.resumed.of("checkpoint_restored")[0]["step"]
    assert step == 3, f"goes on from step {step}, not 3"
    digests = {
        run.of("run_finished")[0]["weights_sha256"]
        for run in (trainer.whole, trainer.resumed)
    }
    assert len(digests) == 1, "a run that was stopped ends with other weights"


class Pickled:
    """Makes a folder when it is loaded by whoever trusts pickles."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


def no_pickle_is_trusted(trainer: Trainer) -> None:
    """3."""
    trainer.run("pickle", world=1, **ALONE | {"max_steps": 1})
    mark = trainer.folder / "mark"
    for path in (trainer.folder / "pickle/checkpoints").rglob("*.pt"):
        torch.save({"state": Pickled(mark), "rng": Pickled(mark)}, path)
    with suppress(RunFailed):
        trainer.run("pickle", world=1, **ALONE | {"max_steps": 1})
    assert not mark.exists(), "loading a checkpoint ran code out of it"


def restarts_in_new_interpreters(trainer: Trainer) -> None:
    """4."""
    once = ALONE | {"world": 1, "stop_at_step": 1}
    trainer.run("fresh", **once)
    again = trainer.run("fresh", fresh=True, **once)
    assert again.of("checkpoint_restored"), "does not resume"


def restarts_on_every_rank(trainer: Trainer) -> None:
    """5."""
    restored = [trainer.resumed.of("checkpoint_restored", r) for r in range(2)]
    assert all(restored), "a rank has not restored"


def metric_counts_every_sample_once(trainer: Trainer) -> None:
    """6."""
    thirds = SHORT | {"micro_batch_size": BATCH // 6}
    on_two = trainer.resumed.of("run_finished")[0]["accuracy"]
    again = launch(trainer.file, trainer.folder / "stopped", world=3, **thirds)
    on_three = again.of("run_finished")[0]["accuracy"]
    said = f"accuracy {on_two} on two ranks, {on_three} on three"
    assert abs(on_two - on_three) < 1e-9, said


def steps_are_of_the_stated_batch(trainer: Trainer) -> None:
    """7."""
    by_rank = [seen["samples"] for seen in trainer.whole.seen]
    steps = [sum(ranks) for ranks in zip(*by_rank, strict=True)]
    assert steps == [BATCH] * 5, f"{BATCH} stated, steps of {steps}"


def fp32_means_fp32(trainer: Trainer) -> None:
    """8."""
    found = trainer.whole.seen[0]["dtypes"]
    assert found == {"torch.float32"}, f"asked for fp32, computed in {found}"


def bf16_means_bf16(trainer: Trainer) -> None:
    """8."""
    asked = ALONE | {"precision": "bf16", "max_steps": 1}
    found = trainer.run("bf16", world=1, watch=watched, **asked).seen[0][
        "dtypes"
    ]
    assert "torch.bfloat16" in found, f"asked for bf16, computed in {found}"


def ranks_draw_their_own_dropout(trainer: Trainer) -> None:
    """9."""
    mine, other = (seen["masks"] for seen in trainer.whole.seen)
    equal = sum(a == b for a, b in zip(mine, other, strict=True))
    assert not equal, f"{equal} of {len(mine)} masks are equal on two ranks"


def ranks_resume_with_their_own_dropout(trainer: Trainer) -> None:
    """9."""
    pairs = zip(trainer.whole.seen, trainer.resumed.seen, strict=True)
    for rank, (whole, resumed) in enumerate(pairs):
        last = resumed["masks"]
        same = last and whole["masks"][-len(last) :] == last
        assert same, f"rank {rank} draws other masks after a restore"


LIMIT = 16 * 1024  # bytes: less than the weights and what Adam keeps


def dies_in_the_second_save(module: ModuleType) -> None:
    """End the process in the middle of a write, as a kill does."""
    save = module.save
    saves: list[Any] = []

    def dying(*args: Any) -> Any:
        if saves:
            die_mid_write(LIMIT)
        saves.append(save(*args))
        return saves[-1]

    module.save = dying  # type: ignore[attr-defined]


def a_kill_mid_write_leaves_the_checkpoint_before(trainer: Trainer) -> None:
    """10."""
    asked = ALONE | {"world": 1, "checkpoint_every_steps": 2}
    with suppress(RunFailed):
        trainer.run("killed", watch=dies_in_the_second_save, **asked)
    again = trainer.run("killed", **asked)
    restored = [event["step"] for event in again.of("checkpoint_restored")]
    assert restored == [2], f"after a kill in a save goes on from {restored}"


def phases_hold_their_kernels(trainer: Trainer) -> None:
    """11."""
    seconds, _ = step_on_a_gpu(trainer.file, trainer.folder / "gpu")
    total = sum(seconds.values()) or 1
    for name, kernels in KERNELS.items():
        share = seconds.get(name, 0) / total
        said = (
            f"{name} has {share:.0%} of a step, its kernels {kernels / 7:.0%}"
        )
        assert abs(share - kernels / 7) < 0.01, said


def a_plain_step_does_not_wait(trainer: Trainer) -> None:
    """11."""
    plain = {"timing": False, "reads": False}
    _, seconds = step_on_a_gpu(trainer.file, trainer.folder / "gpu", **plain)
    assert seconds < 0.1, "the host waits in a step that is not logged"


def one_host_read_per_step(trainer: Trainer) -> None:
    """11."""
    reads = trainer.whole.seen[0]["reads"]
    assert any(reads), "no value is read, not even for the log"
    # Values for the log are read after the update, so they count with the step
    # after it.
    logged = {event["step"] for event in trainer.whole.of("step")}
    most = max(n for i, n in enumerate(reads) if i and i not in logged)
    assert most <= 1, f"the host reads {most} values in a step"


def runs_without_a_gpu(trainer: Trainer) -> None:
    """12."""
    assert trainer.whole.of("run_finished")


def refused(file: Path, folder: Path, asked: dict[str, Any]) -> dict[str, str]:
    """On a rank: `Trainer.refusals`."""
    module = load(file)
    ranks = joined(module)

    def refusal(**changed: Any) -> str:
        settings = asked | changed
        settings["micro_batch_size"] = settings["global_batch_size"]
        try:
            module.train(module.TrainConfig(folder, **settings), *ranks)
        except (Exception, SystemExit) as error:
            return f"{type(error).__name__}: {error}"
        return ""

    own = refusal(stop_at_step=1) or refusal(stop_at_step=2)
    changed = {name: refusal(**{name: CHANGES[name]}) for name in CHANGES}
    return {"own": own} | changed


def other_runs_are_refused(trainer: Trainer) -> None:
    """13."""
    own = trainer.refusals["own"]
    assert not own, f"a run does not resume from its own checkpoint: {own}"
    taken = [name for name in CHANGES if not trainer.refusals[name]]
    assert not taken, f"resumes in spite of another {', '.join(taken)}"


def lists_late(newest: str, step: int) -> Callable[[ModuleType], None]:
    """On rank 1 a checkpoint is not in its folder's listing yet, as on a file
    system whose clients cache. Nobody trains on from what was restored."""

    def watch(module: ModuleType) -> None:
        if restore := getattr(module, "restore", None):
            module.restore = lambda r: (step, *restore(r)[1:])  # type: ignore[attr-defined]
        if os.environ["RANK"] == "1":
            list_late(lambda name: name == newest)

    return watch


def all_ranks_restore_one_step(trainer: Trainer) -> None:
    """14."""
    where, newest = trainer.folder / "late", "step-00000002"
    two = SHORT | {"max_steps": 2, "checkpoint_every_steps": 1}
    launch(trainer.file, where, **two)
    run = launch(trainer.file, where, watch=lists_late(newest, 2), **two)
    restored = [
        [event["step"] for event in run.of("checkpoint_restored", rank)]
        for rank in range(2)
    ]
    assert restored == [[2], [2]], f"ranks go on from steps {restored}"


def all_phases_are_measured(trainer: Trainer) -> None:
    """15."""
    for rank in range(2):
        seconds: dict[str, float] = {}
        for step in trainer.whole.of("step", rank):
            seconds |= step.get("phases", {})
        missing = [name for name in PHASES if seconds.get(name, 0) <= 0]
        assert not missing, f"rank {rank} never measures {', '.join(missing)}"


def every_rank_logs_the_global_loss(trainer: Trainer) -> None:
    """16."""
    truth = [event["loss"] for event in trainer.truth.of("step")]
    for rank in range(2):
        logged = [event["loss"] for event in trainer.plain.of("step", rank)]
        assert len(logged) == 3, f"rank {rank} logs {len(logged)} steps of 3"
        for was, should in zip(logged, truth, strict=True):
            said = f"rank {rank} logs {was:.5f}, the batch's is {should:.5f}"
            assert abs(was - should) < 1e-4 * should, said


def labels_can_be_learned(trainer: Trainer) -> None:
    """17."""
    asked = {"global_batch_size": 500, "micro_batch_size": 500}
    asked |= {"max_steps": 40, "checkpoint_every_steps": 40}
    run = trainer.run("learn", world=1, learning_rate=1e-2, **asked)
    accuracy = run.of("run_finished")[0]["accuracy"]
    said = f"accuracy {accuracy:.2f} after 40 steps; a guess has 0.25"
    assert accuracy > 0.6, said


def trains_as_before(trainer: Trainer) -> None:
    """Check order, learning rate and weights against the cut's."""
    mine, sound = trainer.plain, trainer.truth
    for step, ids in sound.samples.items():
        same = sorted(mine.samples.get(step, [])) == sorted(ids)
        assert same, f"step {step} trains on other samples than before"
    last, should = (run.of("run_finished")[0] for run in (mine, sound))
    for name in "step", "position":
        said = f"ends at {name} {last[name]}, it was {should[name]}"
        assert last[name] == should[name], said
    rates = [[e["learning_rate"] for e in r.of("step")] for r in (mine, sound)]
    assert rates[0] == rates[1], f"learning rates {rates[0]}, not {rates[1]}"
    off = abs(last["accuracy"] - should["accuracy"])
    assert off < 0.01, f"accuracy {last['accuracy']}, not {should['accuracy']}"


Check = Callable[[Trainer], None]
CHECKS: dict[str, list[Check]] = {
    "01": [every_epoch_trains_on_every_sample],
    "02": [progress_is_what_was_trained],
    "03": [what_was_saved_is_restored, no_pickle_is_trusted],
    "04": [restarts_in_new_interpreters],
    "05": [restarts_on_every_rank],
    "06": [every_epoch_trains_on_every_sample, metric_counts_every_sample_once],
    "07": [steps_are_of_the_stated_batch],
    "08": [fp32_means_fp32, bf16_means_bf16],
    "09": [ranks_draw_their_own_dropout, ranks_resume_with_their_own_dropout],
    "10": [a_kill_mid_write_leaves_the_checkpoint_before],
    "11": [
        phases_hold_their_kernels,
        a_plain_step_does_not_wait,
        one_host_read_per_step,
    ],
    "12": [runs_without_a_gpu],
    "13": [other_runs_are_refused],
    "14": [all_ranks_restore_one_step],
    "15": [all_phases_are_measured],
    "16": [every_rank_logs_the_global_loss],
    "17": [labels_can_be_learned],
}
COSTLY = {restarts_in_new_interpreters}  # seconds, not tenths of one
ALL: dict[Check, None] = dict.fromkeys(
    [trains_as_before]
    + [check for checks in CHECKS.values() for check in checks]
)


def examined(
    file: Path, sound: Path, folder: Path, defects: list[str]
) -> tuple[str, str]:
    """Say what is wrong with a trainer: one of its own defects or, if it has
    none of them left, anything else. Empty if nothing is wrong."""
    trainer = Trainer(file, sound, folder)
    own = [check for number in defects for check in CHECKS[number]]
    if wrong := first_failure(own, trainer):
        return wrong, ""
    rest = [check for check in ALL if check not in own and check not in COSTLY]
    return "", first_failure(rest, trainer)


def first_failure(checks: list[Check], trainer: Trainer) -> str:
    """Return the message of the first check that fails; empty if none does."""
    for check in checks:
        name = check.__name__.replace("_", " ")
        try:
            check(trainer)
        except (AssertionError, RunFailed) as wrong:
            return str(wrong) or f"not: {name}"
        except Exception as odd:  # an event or a field is not there
            return f"{name}: {type(odd).__name__}: {odd}"
    return ""
