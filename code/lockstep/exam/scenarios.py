"""Runs that are disturbed, and what is asked of each.

Epochs have six steps. Most runs save after every fourth, so that step 8, at
which they are stopped, lies in the middle of the second epoch. Those of a
trainer that saves after each epoch are stopped at step 12.
"""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from .adapter import reads
from .comparison import compare_resized, differences, other_weights
from .damage import booby_trap, files, flip, truncate
from .launching import Act, Ended
from .lineage import Lineage, ends_of_epochs, joined, lineage, views
from .questions import Verdict
from .sandbox import SAVE_EVERY, STOP, ExamError, Sandbox

EPOCH = 6  # steps
GRACE, MINUTE = 30.0, 60.0  # seconds after SIGTERM, and for a hang to end
WHOLE = "what it loaded was whole"
AT_MOST = 8  # files of a checkpoint that are damaged one by one
Verdicts = dict[str, Verdict]
ASPECTS = (
    "total-steps", "exactly-once", "order", "learning-rate", "optimizer",
    "buffers", "rng-state", "final-weights",
)  # fmt: skip


class Scenario(NamedTuple):
    """One way to disturb a run."""

    run: Callable[[Sandbox], Verdicts]
    questions: tuple[str, ...]  # that its verdicts answer
    compares: bool = False  # with an undisturbed run, which has to repeat


def passed(said: str = "") -> Verdict:
    """It does, as was seen."""
    return Verdict("passed", said)


def failed(said: str, *because: str) -> Verdict:
    """It does not, which is what the questions `because` ask as well."""
    return Verdict("failed", said, dict.fromkeys(because, said))


def unlike_was(unlike: dict[str, str], at_the_end: bool = True) -> Verdict:
    """It differs from the undisturbed run, in this."""
    said = next(iter(unlike.values()))
    return Verdict("failed", said, unlike, at_the_end=at_the_end)


NONE_ENDED = "no epoch ended in the undisturbed run"


def without_epochs(was: Lineage, why: str = NONE_ENDED) -> Verdict:
    """The answer where epochs don't end as the question needs it, and what that
    may hide."""
    ends, times = ends_of_epochs(was), was.counts().values()
    danger = ""
    if len(ends) < 2:
        danger = "one epoch or less was seen: does it use launch.samples?"
    if not ends and max(times) - min(times) > views(was):
        danger = "samples repeat or are missing, unless drawn with replacement"
    return Verdict("not applicable", why, danger=danger)


def undisturbed(b: Sandbox) -> Verdicts:
    """Two runs, whatever the trainer is."""
    was = b.undisturbed()
    if not (b.folder / "finished").exists():  # of the run that is compared
        b.keep("finished")
        b.last_save = b.ended[-1].saved(0) if b.ended else 0
    b.begin()
    now = lineage(b.run())
    found: Verdicts = {}
    unlike = differences(was, now, exact(b))
    b.repeats = not unlike
    found["reproducible"] = passed()
    if unlike:
        said = found_elsewhere(was, now) or unseeded(was, now, unlike)
        found["reproducible"] = failed(said)
    found["batch"] = whole_batches(was, b.launch.global_batch)
    ends = ends_of_epochs(was)
    if len(ends) < 2:
        why = "no two whole epochs were seen in the undisturbed run"
        found["reshuffled"] = without_epochs(was, why)
    else:
        one, two = was.batches()[: ends[0]], was.batches()[ends[0] : ends[1]]
        found["reshuffled"] = (
            failed("the second epoch has the order of the first")
            if one == two
            else passed()
        )
    firsts = [steps[0] for steps in was.ranks.values()]
    if len(firsts) < 2 or not all(step.drew for step in firsts):
        why = "no two ranks were seen to draw random numbers"
        found["rank-seeds"] = Verdict("not applicable", why)
    else:
        states = Counter(step.random(step.drew) for step in firsts)
        found["rank-seeds"] = (
            failed("ranks begin with one random state")
            if max(states.values()) > 1
            else passed()
        )
    return found


def whole_batches(was: Lineage, want: int) -> Verdict:
    """Whether each step trains on so many distinct samples. Each of them may
    pass the model several times; and where they are drawn with replacement,
    some come twice by chance, but not all in most steps, nor for two ranks."""
    steps, shared = [], 0
    for batch in was.batches():
        times = Counter(joined(batch))
        alike = len({frozenset(ids) for ids in batch}) < len(batch)
        shared += alike or min(times.values(), default=0) > 1
        steps.append(times)
    by_chance = 2 * shared < len(steps)
    sizes = {
        want if by_chance and times.total() == want else len(times)
        for times in steps
    }
    if sizes != {want}:
        return failed(f"{some(sizes)} distinct samples a step, not {want}")
    said = f"{want} samples a step"
    if (each := views(was)) > 1:
        said += f", each of which passes the model {each} times"
    return passed(said)


def found_elsewhere(was: Lineage, now: Lineage) -> str:
    """Whether the second of two runs has begun with a checkpoint of the first,
    though its run directory was empty."""
    said = "the second launch, whose run directory was empty, "
    where = "a checkpoint of the first lies outside launch.run_dir"
    if not now.steps:
        return f"{said}took no step: it seems that {where}"
    after = was.step_before(now.ranks[0][0])
    if not after:
        return ""
    return f"{said}went on from step {after} of the first: {where}"


def unseeded(was: Lineage, now: Lineage, unlike: dict[str, str]) -> str:
    """What a trainer that does not repeat itself has most likely not seeded."""
    for rank, steps in was.ranks.items():
        mine = now.ranks.get(rank) or steps
        if steps[0].before["weights"] != mine[0].before["weights"]:
            return (
                "two launches begin with different weights: is the model's"
                " initialization seeded?"
            )
    said = f"two launches differ: {next(iter(unlike.values()))}"
    if unlike.keys() & {"order", "exactly-once"}:
        said += " (Is the shuffle seeded, and a split into training and test?)"
    return said


def uneven(b: Sandbox) -> Verdicts:
    """101 samples in batches of 16, say: five more than whole epochs have."""
    if not ends_of_epochs(was := b.undisturbed()):
        return {"partial-batch": without_epochs(was)}
    n = b.launch.samples + (b.launch.global_batch // 3 or 1)
    counts: Counter[int] = Counter()
    b.begin()
    ended = b.run(samples=n, steps=21)
    if ended.code:
        return {"partial-batch": failed(f"{b.steps[-1]}: {ended.last_words}")}
    if (taken := lineage(ended).steps) < 21:
        return {"partial-batch": failed(f"it ended after {taken} of 21 steps")}
    for k, batch in enumerate(lineage(ended).batches(), 1):
        counts.update(joined(batch))
        most, least = max(counts.values()), min(counts.values())
        least = least if len(counts) == n else 0
        if most - least > views(was):
            said = (
                f"by step {k}, some of the {n} samples had been seen {most}"
                f" times and some {least}"
            )
            return {"partial-batch": failed(said)}
    return {"partial-batch": passed()}


def stop(b: Sandbox) -> Verdicts:
    """In the middle of an epoch, if it can save there; then on to the end."""
    was = b.undisturbed()
    first = b.stopped = stop_at(b, b.middle)
    b.keep("stopped")
    now = lineage(first, second := b.run())
    trouble = went_on(now, second, at_least=b.middle)
    b.goes_on = now.start.resumed
    if not b.goes_on:
        assert trouble
        why = "nothing was resumed, see resumes-latest"
        rest = dict.fromkeys((*ASPECTS, "ema"), Verdict("not run", why))
        return rest | {"resumes-latest": trouble}
    on = trouble or passed(f"from step {now.start.step}")
    found: Verdicts = {"resumes-latest": on}
    unlike = b.unlike = differences(was, now, exact(b))
    for aspect in ASPECTS:
        found[aspect] = failed(unlike[aspect]) if aspect in unlike else passed()
    if not ends_of_epochs(was):
        found["exactly-once"] = without_epochs(was)
    elif "exactly-once" not in unlike:
        samples = f"{len(was.counts())} samples an epoch"
        found["exactly-once"] = passed(samples)
    if not any(step.drew for steps in was.ranks.values() for step in steps):
        why = "no forward pass was seen to draw random numbers"
        found["rng-state"] = Verdict("not applicable", why)
    if "exactly-once" in unlike:
        found["order"] = Verdict("not run", "other samples, see exactly-once")
    states = next(iter(was.ranks.values()))[0].before["states"]
    if states:
        found["ema"] = failed(unlike["ema"]) if "ema" in unlike else passed()
    else:
        why = "its script observes no other state: observe(…, ema=ema)"
        found["ema"] = Verdict("not applicable", why)
    sizes = was.ranks[0][-1].before["sizes"]  # of states, once there are some
    for aspect, why in (
        ("optimizer", "the optimizer was seen to keep no state"),
        ("buffers", "the model has no buffers that a checkpoint holds"),
    ):
        if aspect not in unlike and not any(sizes[aspect].values()):
            found[aspect] = Verdict("not applicable", why)
    others, parted = unlike.keys() - {"final-weights"}, other_weights(was, now)
    if others and (parted or not exact(b) or now.steps != was.steps):
        why = "other weights are explained by what failed before"
        found["final-weights"] = Verdict("not run", why)
    if others and parted:  # states were compared until then
        for aspect in ("optimizer", "buffers", "ema"):
            if found[aspect].answer == "passed":
                until = f"up to step {parted.step}, which left other weights"
                found[aspect].said = until
    return found


def boundary(b: Sandbox) -> Verdicts:
    """After the last step of an epoch."""
    if EPOCH not in ends_of_epochs(was := b.undisturbed()):
        why = f"no epoch ended after step {EPOCH} of the undisturbed run"
        return {"epoch-boundary": without_epochs(was, why)}
    how = how_to_stop(b, EPOCH)
    was = b.undisturbed(**how)
    ends = [stop_at(b, EPOCH), b.run(**how)]
    return {"epoch-boundary": same_end(b, was, ends, EPOCH)}


def kill(b: Sandbox) -> Verdicts:
    """In two epochs. The first step is drawn from those that neither save nor
    follow a save, since a save in the background takes a moment; nor come after
    one at an epoch's end, which `boundary` asks, if there are others. The
    second one is the last but one of the run: after the last, some rank may be
    saving already."""
    every, last = b.launch.save_every, b.launch.steps
    at = [
        k
        for k in range(every + 2, last - every)
        if k % every > 1 and (b.by_epochs or k // every * every % EPOCH)
    ]
    drawn = Random(b.launch.seed).choice(at)
    first = b.begun(Act(drawn, "kill"))
    second = b.run(Act(last - 1 - drawn // every * every, "kill"))
    ends = [first, second, b.run()]
    return {"kill": same_end(b, b.undisturbed(), ends, 1)}


def twice(b: Sandbox) -> Verdicts:
    """Saving after every second step of an epoch, and killed in it twice."""
    if b.by_epochs:
        why = b.adapter.lacks[SAVE_EVERY]
        return {"two-restarts": Verdict("not applicable", why)}
    was = b.undisturbed(save_every=2)  # where saving may draw random numbers
    first = b.begun(Act(EPOCH + 3, "kill"), save_every=2)
    second = b.run(Act(4, "kill"), save_every=2)  # it has saved once
    third = b.run(save_every=2)
    ends = [first, second, third]
    verdict, (one, two) = same_end(b, was, ends, 1), lineage(*ends).starts
    if verdict.answer == "passed" and one == two:
        why = f"both launches went on from step {one.step}"
        return {"two-restarts": Verdict("not run", why)}
    return {"two-restarts": verdict}


def workers(b: Sandbox) -> Verdicts:
    """Two for each rank, which fetch ahead."""
    was = b.undisturbed(workers=2)
    first = b.begun(Act(b.middle + 2, "kill"), workers=2)
    ends = [first, b.run(workers=2)]
    return {"loader-workers": same_end(b, was, ends, 1)}


def fp16(b: Sandbox) -> Verdicts:
    """A run whose gradients overflow at first, so that the scale falls: by
    themselves, as those of the exam's own model do, or else since they are
    made to."""
    half: dict[str, Any] = {"precision": "fp16"}
    was = b.undisturbed(**half)
    if not was.steps or was.ranks[0][0].scale is None:
        why = "no torch.amp.GradScaler was seen at work"
        return {"scaler": Verdict("not run", why)}
    overflows = 0 if skipped(b, was) else 2
    if overflows:
        was = b.undisturbed(overflows=overflows, **half)
    if not skipped(b, was):
        why = "no step was skipped, though its gradients were made infinite"
        return {"scaler": Verdict("not run", why)}
    first = stop_at(b, b.middle, overflows=overflows, **half)
    now = lineage(first, second := b.run(**half))
    if trouble := went_on(now, second, 1):
        return {"scaler": trouble}
    unlike = differences(was, now, exact(b))
    # What else differs has its question.
    for aspect in ("scaler", "final-weights"):
        if aspect in unlike:
            return {"scaler": failed(unlike[aspect])}
    after = now.start.step or 0
    scale = now.ranks[0][after].scale
    return {"scaler": passed(f"scale {scale:.0f} at the restart")}


def skipped(b: Sandbox, run: Lineage) -> bool:
    """Whether the scaler had skipped a step before the middle, so that its
    scale is another one than at first."""
    return any(step.skips for step in run.ranks[0][: b.middle])


def resize(b: Sandbox) -> Verdicts:
    """On twice the ranks, with the same global batch. Samples and rates are
    compared to the end, and states where it resumes: other ranks draw other
    dropout."""
    was, ranks = b.undisturbed(), 2 * b.launch.ranks
    if b.launch.global_batch % ranks:
        why = f"{ranks} ranks cannot share a batch of {b.launch.global_batch}"
        return {"world-size": Verdict("not applicable", why)}
    why = "its ranks hold parts of the weights, and others hold other parts"
    if in_parts(was):
        return {"world-size": Verdict("not run", why)}
    b.begin("stopped")
    second = b.run(ranks=ranks)
    if in_parts(lineage(second)):
        return {"world-size": Verdict("not run", why)}
    if second.steps and second.world != ranks:
        why = f"asked for {ranks} ranks, it ran on {second.world}"
        return {"world-size": Verdict("not run", why)}
    now = lineage(b.stopped, second)
    if trouble := took(now, second, b.middle, "world size"):
        return {"world-size": trouble}
    how = f"{b.launch.ranks} to {ranks} ranks"
    return {"world-size": resumed_otherwise(was, now, how)}


def micro_batch(b: Sandbox) -> Verdicts:
    """In forward passes of half as many samples, with the same global batch.
    Samples and rates are compared to the end, and states where it resumes: sums
    of other parts are rounded differently."""
    return {"micro-batch": with_micro_batches(b)}


def with_micro_batches(b: Sandbox) -> Verdict:
    """The verdict of the stopped run that resumes so."""
    was = b.undisturbed()
    if not reads(b.adapter, b.launch, "micro_batch"):
        why = "its command doesn't use launch.micro_batch"
        return Verdict("not applicable", why)
    most = max(was.ranks[0][0].passes)
    usual = min(most, b.launch.global_batch // b.launch.ranks)
    if not (size := usual // 2):
        return Verdict("not applicable", "a forward pass has one sample")
    b.begin("stopped")
    second = b.run(micro_batch=size)
    now = lineage(b.stopped, second)
    if trouble := took(now, second, b.middle, "micro-batch"):
        return trouble
    if max(second.steps[0].passes) >= most:
        why = (
            f"asked for forward passes of {size} samples, it had some of"
            f" {max(second.steps[0].passes)}: does its command pass"
            " `micro_batch` on?"
        )
        return Verdict("not run", why)
    how = f"{usual} to {size} samples a forward pass"
    return resumed_otherwise(was, now, how, same_steps=True)


def resumed_otherwise(
    was: Lineage, now: Lineage, how: str, same_steps: bool = False
) -> Verdict:
    """The verdict of a run that resumed with its batches divided otherwise:
    samples and rates are compared to the end, and states where it resumed.
    `same_steps`: each step must have its own samples."""
    unlike = differences(was, now, exact=False)
    for aspect in ("total-steps", "exactly-once", "learning-rate"):
        if aspect in unlike:
            return failed(unlike[aspect], aspect)
    if same_steps:
        both = zip(was.batches(), now.batches(), strict=True)
        for k, (then, here) in enumerate(both, 1):
            if sorted(joined(then)) != sorted(joined(here)):
                return failed(f"step {k} has other samples", "order")
    states, compared = compare_resized(was, now)
    for aspect, said in states.items():
        return failed(said, aspect)
    words = ", ".join(["samples", "rates", "weights", *compared])
    return passed(f"{how}; compared: {words}")


def in_parts(run: Lineage) -> bool:
    """Whether ranks begin with different weights, as shards are."""
    firsts = [steps[0] for steps in run.ranks.values() if steps]
    return len({step.before["weights"] for step in firsts}) > 1


def truncated(b: Sandbox) -> Verdicts:
    """The largest file of the newest checkpoint that makes a difference."""
    return {"truncated": damaged(b, truncate, "cut to its first half")}


def flipped(b: Sandbox) -> Verdicts:
    """One bit of the middle byte of such a file."""
    return {"flipped-bit": damaged(b, flip, "the middle bit flipped")}


def damaged(b: Sandbox, how: Callable[[Path], None], words: str) -> Verdict:
    """One file after the other, until one is missed."""
    for path in saved(b):
        verdict = without(b, path, how, words)
        if verdict.said != WHOLE:
            return verdict
    return Verdict("not run", "no file that was damaged makes a difference")


def incomplete(b: Sandbox) -> Verdicts:
    """Without one of its files, each in turn."""
    if len(files := saved(b)) < 2:
        why = "a checkpoint is one file"
        return {"missing-file": Verdict("not applicable", why)}
    for path in files:
        verdict = without(b, path, Path.unlink, "removed")
        if verdict.answer != "passed":
            verdict.where = f"without {path.name}: "
            verdict.said = verdict.where + verdict.said
            return {"missing-file": verdict}
    return {"missing-file": passed(f"each of {len(files)} files")}


def saved(b: Sandbox) -> list[Path]:
    """The files of the stopped run's newest checkpoint, the largest of them if
    they are very many."""
    b.begin("stopped")
    return b.newest()[:AT_MOST]


def without(
    b: Sandbox, path: Path, how: Callable[[Path], None], words: str
) -> Verdict:
    """What becomes of the stopped run once this has happened to a file."""
    b.begin("stopped")
    how(path)
    b.steps.append(f"{words}: {relative(b, path)}")
    return noticed(b, b.run())


def foreign(b: Sandbox) -> Verdicts:
    """Launched with another seed and other data into the stopped run."""
    b.begin("stopped")
    ended = b.run(seed=b.launch.seed + 1, variant=1)
    now = lineage(b.stopped, ended)
    if refused(now, ended):
        return {"wrong-run": passed(f"refused: {ended.last_words}")}
    if not now.start.trained:
        trouble = went_on(now, ended, 0)
        assert trouble
        return {"wrong-run": trouble}
    if now.start.resumed:
        said = f"it went on from the other's step {now.start.step}"
        return {"wrong-run": failed(said)}
    return {"wrong-run": passed("it began a run of its own")}


def pickle(b: Sandbox) -> Verdicts:
    """One file after the other is made to run a harmless command when it is
    loaded: all at once, the first that is refused would hide the others."""
    b.begin("stopped")
    touched = b.folder / "touched"
    touched.unlink(missing_ok=True)
    trapped: list[str] = []
    for path in b.newest():
        if len(trapped) == AT_MOST:
            break
        b.begin("stopped")
        if not booby_trap(path, touched):
            continue
        trapped.append(path.name)
        b.steps.append(f"{relative(b, path)} made to run `touch {touched}`")
        b.run()
        if touched.exists():
            return {"pickle": failed(f"code in {path.name} was run")}
    if not trapped:
        return {"pickle": passed("no file of it is a pickle")}
    return {"pickle": passed(f"pickles that ran no code: {len(trapped)}")}


def torn(b: Sandbox) -> Verdicts:
    """Killed up to four times in one run, each time during a save: in the
    middle of a large file, between two files, before one rank has written, and
    before the last file."""
    b.begin("stopped")
    sizes = [path.stat().st_size for path in b.newest()]
    every, last = b.launch.save_every, b.launch.ranks - 1
    small = beyond_logs(b, sizes)
    strikes: dict[str, Callable[[int], Act]] = {
        "in the middle of a file": lambda save: Act(
            save - 1, "tear", None, sizes[0] // 2
        ),
        "between two files": lambda save: Act(save, "between", None, files=2),
    }
    if last:
        strikes[f"before rank {last} had written"] = lambda save: Act(
            save - 1, "stall", last, small
        )
    if len(sizes) > 2:
        strikes["before the last file"] = lambda save: Act(
            save, "between", None, files=len(sizes)
        )
    ends: list[Ended] = []
    struck = ""
    for how, strike in strikes.items():
        # At the second save of the run, or the first one of a later launch.
        save = every if ends else 2 * every
        act, launch = strike(save), b.run if ends else b.begun
        ends.append(launch(act, Act(save + 2, "kill"), patience=b.limit))
        if verdict := stuck(b, ends, every, struck):
            return {"kill-during-save": verdict}
        if act.do in ends[-1].acted and ends[-1].code:
            struck = f"after a kill during a save, {how}: "
        elif not ends[-1].code:  # it came to its end
            if struck:
                break
            ends.clear()
    if not struck:
        why = "its writer was not reached: a process that began before"
        return {"kill-during-save": Verdict("not run", why)}
    if ends[-1].code:
        ends.append(b.run())
        if verdict := stuck(b, ends, every, struck):
            return {"kill-during-save": verdict}
    return {"kill-during-save": same_end(b, b.undisturbed(), ends, every)}


def stuck(
    b: Sandbox, ends: list[Ended], at_least: int, struck: str
) -> Verdict | None:
    """What is wrong with how the newest launch began, if anything is; `struck`
    says what had been done to the one before."""
    if ends[-1].out_of_time:
        return failed(f"{struck}it hung: {b.steps[-1]}")
    trouble = resumed(ends, at_least)
    if trouble:
        trouble.where = struck
        trouble.said = struck + trouble.said
    return trouble


def beyond_logs(b: Sandbox, sizes: list[int]) -> int:
    """A size that no file outside checkpoints has, but one of a checkpoint's
    has that is as small as can be: `sizes` are those, the largest first."""
    inside = {
        path
        for saved in b.adapter.checkpoints(b.run_dir)
        for path in files(saved)
    }
    others = [
        path.stat().st_size
        for path in b.run_dir.rglob("*")
        if path.is_file() and path not in inside
    ]
    logs = max(others, default=0)
    small = [size for size in sizes if size // 2 > logs]
    return (small or sizes[:1])[-1] // 2


def disk(b: Sandbox) -> Verdicts:
    """No room from the second checkpoint on: no file may grow beyond half of
    the largest that was saved before. Then a launch that may write again."""
    b.begin("stopped")
    largest = b.newest()[0].stat().st_size
    every = b.launch.save_every
    act = Act(2 * every - 1, "refuse", None, largest // 2)
    first = b.begun(act, patience=b.limit)
    if not first.acted:
        why = f"it did not come to step {act.step}"
        return {"full-disk": Verdict("not run", why)}
    if first.out_of_time:
        return {"full-disk": failed(f"it hung: {b.steps[-1]}")}
    now = lineage(first, second := b.run())
    if (now.start.step or 0) > every:
        why = "its writer was not reached: a process that began before"
        return {"full-disk": Verdict("not run", why)}
    ends = [first, second]
    return {"full-disk": same_end(b, b.undisturbed(), ends, every)}


def sigterm(b: Sandbox) -> Verdicts:
    """Three times, since ranks that hear of it one after the other may part:
    after a step and, where gradients are accumulated, within one. A failure
    that has only the differences of any stop doesn't end the tries."""
    how, within = accumulating(b)
    known: Verdict | None = None
    for before in (0, within, 0):
        verdict = terminated(b, how, before)
        if verdict.because and verdict.because.keys() <= b.unlike.keys():
            known = verdict
        elif verdict.answer != "passed":
            return {"sigterm": verdict}
    return {"sigterm": known or verdict}


def accumulating(b: Sandbox) -> tuple[dict[str, Any], int]:
    """What a launch must be told to take several forward passes a step, and
    before which of them there is something to lose; 0 if it takes only one."""
    passes = b.undisturbed().ranks[0][0].passes
    if len(passes) > 1:
        return {}, len(passes)
    share = b.launch.global_batch // b.launch.ranks
    can = "micro-batch" not in b.adapter.lacks
    if can and share > 1 and reads(b.adapter, b.launch, "micro_batch"):
        return {"micro_batch": share // 2}, 2
    return {}, 0


def terminated(b: Sandbox, how: dict[str, Any], before: int) -> Verdict:
    """Where nothing else would be saved. Steps take half a second then."""
    at = (EPOCH if b.by_epochs else b.middle) - 1
    never = 10 * b.launch.steps
    was = b.undisturbed(save_every=never, **how)
    act = Act(at, "terminate", None if before else 0, before=before)
    first = b.begun(act, patience=GRACE, save_every=never, **how)
    if not first.acted:
        return Verdict("not run", f"it did not come to step {at}")
    if first.out_of_time:
        return failed("30 s later it was still running")
    if len(first.steps) >= b.launch.steps:
        return failed("it took no notice, and trained on")
    now = lineage(first, second := b.run(save_every=never, **how))
    last = first.steps[-1]
    unknown = now.start.trained and now.start.step is None
    if unknown and last.after == last.before["weights"]:
        why = "the weights that it left with were not seen, as with ZeRO"
        return Verdict("not run", why)
    if now.start.step == 0:
        said = f"nothing was saved, and all {at} steps were lost"
        return failed(said) if b.goes_on else failed(said, "resumes-latest")
    ends = [first, second]
    trouble = went_on(now, second, at)
    if b.repeats and not trouble:  # else the end says nothing
        verdict = same_end(b, was, ends, at)
        trouble = None if verdict.answer == "passed" else verdict
    said = f"saved at step {now.start.step}, told at step {at}"
    if before:
        said += f", before forward pass {before} of the next"
    return trouble or passed(said)


def hang(b: Sandbox) -> Verdicts:
    """The last rank falls asleep in the middle of a step."""
    act = Act(b.middle - 1, "hang", b.launch.ranks - 1)
    ended = b.begun(act, patience=MINUTE)
    if not ended.acted:
        why = f"it did not come to step {act.step}"
        return {"hang": Verdict("not run", why)}
    if ended.out_of_time:
        return {"hang": failed("a minute later its processes still waited")}
    said = f"after {ended.seconds_after_act:.0f} s, exit code {ended.code}"
    return {"hang": passed(said) if ended.code else failed(said)}


def finished(b: Sandbox) -> Verdicts:
    """The undisturbed run, launched once more."""
    was = b.undisturbed()
    b.begin("finished")
    ended = b.run()
    now = Lineage(dict(was.ranks), was.world)
    now.add(ended)
    if ended.code:
        return {"finished-run": failed(f"it fails: {ended.last_words}")}
    anew = now.start.trained and not now.start.resumed
    if now.steps != was.steps or anew:
        said = f"it trained {len(ended.steps)} more steps"
        why = "resumes-latest" if anew else "total-steps"
        return {"finished-run": failed(said, why)}
    if ended.steps and (now.start.step or 0) < b.last_save:
        said = (
            f"it took {len(ended.steps)} steps once more, from step"
            f" {now.start.step}, though the checkpoint of step {b.last_save} is"
            f" there{by_name(now.start.step or 0, b.last_save)}"
        )
        older = Verdict(
            "failed", said, {"resumes-latest": said}, at_the_end=True
        )
        return {"finished-run": older}
    unlike = differences(was, now, exact(b))
    if unlike:
        return {"finished-run": unlike_was(unlike)}
    again = f"its last {len(ended.steps)} steps once more, to the same end"
    return {
        "finished-run": passed(again if ended.steps else "no step was taken")
    }


# --8<-- [start:scenarios]
SCENARIOS = [
    Scenario(
        undisturbed, ("reproducible", "batch", "reshuffled", "rank-seeds")
    ),
    Scenario(uneven, ("partial-batch",)),
    Scenario(stop, ("resumes-latest", *ASPECTS, "ema")),
    Scenario(boundary, ("epoch-boundary",), compares=True),
    Scenario(kill, ("kill",), compares=True),
    Scenario(twice, ("two-restarts",), compares=True),
    Scenario(workers, ("loader-workers",), compares=True),
    Scenario(fp16, ("scaler",), compares=True),
    Scenario(resize, ("world-size",), compares=True),
    Scenario(micro_batch, ("micro-batch",), compares=True),
    Scenario(torn, ("kill-during-save",), compares=True),
    Scenario(disk, ("full-disk",), compares=True),
    Scenario(truncated, ("truncated",), compares=True),
    Scenario(incomplete, ("missing-file",), compares=True),
    Scenario(flipped, ("flipped-bit",), compares=True),
    Scenario(foreign, ("wrong-run",), compares=True),
    Scenario(pickle, ("pickle",)),
    Scenario(sigterm, ("sigterm",)),
    Scenario(hang, ("hang",)),
    Scenario(finished, ("finished-run",)),
]
# --8<-- [end:scenarios]


def exact(b: Sandbox) -> bool:
    """Two addends have one order; DDP adds those of more ranks in another one
    after a restart."""
    return b.launch.ranks <= 2


def how_to_stop(b: Sandbox, step: int) -> dict[str, Any]:
    """What a launch must be told, beside where to stop, to save at `step`."""
    every = b.launch.save_every
    stops = STOP not in b.adapter.lacks
    return {} if stops or step % every == 0 else {"save_every": step}


def stop_at(b: Sandbox, step: int, **settings: Any) -> Ended:
    """A new run, up to `step`, whose state is saved then. A trainer that cannot
    leave early saves there, and is killed two steps on."""
    if STOP in b.adapter.lacks:
        act = Act(step + 2, "kill")
        return b.begun(act, **how_to_stop(b, step), **settings)
    ended = b.begun(stop_at=step, **settings)
    counted = lineage(ended).steps
    if ended.code or not counted <= step <= len(ended.steps):
        raise ExamError(
            f"asked to stop at step {step}, it did not: {b.steps[-1]}:"
            f" {ended.last_words}{says_so('cannot leave early', STOP)}"
        )
    return ended


def says_so(who: str, lacking: str) -> str:
    """What to write for a trainer that is not as the exam supposed."""
    return f' (A trainer that {who} says so: lacks = {{"{lacking}": "…"}})'


# Errors of a program that did not expect what it met; one that refuses a
# setting raises another, or prints a line and exits.
CRASHED = re.compile(
    r"(\[rank\d+\]: )?(Attribute|FileNotFound|Import|Index|Key|ModuleNotFound"
    r"|Name|Type|UnboundLocal|ZeroDivision)Error: "
)


def refused(now: Lineage, ended: Ended) -> bool:
    """Whether the newest launch left by itself, with an error, before it
    trained."""
    failed = bool(ended.code) and not ended.out_of_time
    return failed and not now.start.trained


def took(
    now: Lineage, ended: Ended, at_least: int, setting: str
) -> Verdict | None:
    """What `went_on` says of a launch with another setting, unless it refused
    that; a crash is no refusal."""
    if refused(now, ended) and not CRASHED.match(ended.last_words):
        why = f"it refuses another {setting}: {ended.last_words}"
        return Verdict("not applicable", why)
    return went_on(now, ended, at_least)


def went_on(now: Lineage, ended: Ended, at_least: int) -> Verdict | None:
    """What is wrong with where the newest launch went on, if anything is."""
    after = now.start.step
    if not now.start.trained:
        code = f"exit code {ended.code}"
        if ended.out_of_time:
            code = "it hung"
        said = f"no step was taken, {code}: {ended.last_words}"
        return failed(said, "resumes-latest")
    if after is None:
        said = "it began with weights that the run had never had"
        return failed(said, "resumes-latest")
    if after < at_least:
        said = f"it went on from step {after}, where {at_least} was due"
        said += by_name(after, at_least)
        if after and after % EPOCH == 0:
            said += says_so("saves after whole epochs only", SAVE_EVERY)
        return failed(said, "resumes-latest")
    return None


def by_name(after: int, newest: int) -> str:
    """A guess, where an older checkpoint was loaded."""
    if after and str(after) > str(newest):
        return f" (compared as text, {after} comes after {newest})"
    return ""


def resumed(ends: list[Ended], at_least: int) -> Verdict | None:
    """What is wrong with where one of the launches in a row went on, if
    anything is. Each has to go on from the newest checkpoint that was
    published, and from `at_least`."""
    now = Lineage()
    for k, ended in enumerate(ends):
        now.add(ended)
        if k and (trouble := went_on(now, ended, at_least)):
            # One cause for all questions, where an older one is loaded.
            trouble.at_the_end = now.start.resumed
            return trouble
        after = (now.start.step or 0) if k else 0
        at_least = max(at_least, ended.saved(after))
    return None


def same_end(
    b: Sandbox, was: Lineage, ends: list[Ended], at_least: int
) -> Verdict:
    """Whether launches in a row come to the end of the undisturbed run."""
    if trouble := resumed(ends, at_least):
        return trouble
    now = lineage(*ends)
    unlike = differences(was, now, exact(b))
    if unlike:
        return unlike_was(unlike)
    last = ends[-1]
    if last.code:
        return failed(f"it ended with exit code {last.code}: {last.last_words}")
    return passed(
        f"from step {', '.join(str(start.step) for start in now.starts)}"
    )


def noticed(b: Sandbox, ended: Ended) -> Verdict:
    """Whether a launch made the best of a damaged checkpoint: refused it in
    words, or fell back to the one before."""
    was, now = b.undisturbed(), lineage(b.stopped, ended)
    if refused(now, ended):
        return passed(f"refused: {ended.last_words}")
    if trouble := went_on(now, ended, 1):
        return trouble
    after = now.start.step or 0
    loaded = after >= b.middle
    how = "went on from it" if loaded else f"fell back to step {after}"
    unlike = differences(was, now, exact(b))
    if loaded:  # what it does without any damage is no sign of it
        known = b.unlike.items()
        unlike = {n: w for n, w in unlike.items() if (n, w) not in known}
    if unlike:
        told = {n: f"it {how}: {w}" for n, w in unlike.items()}
        return unlike_was(told, at_the_end=not loaded)
    return passed(WHOLE if loaded else f"it {how}")


def relative(b: Sandbox, path: object) -> str:
    """A file's place in the run directory."""
    return str(path).removeprefix(f"{b.run_dir}/")


def some(sizes: set[int]) -> str:
    """The few sizes that there are."""
    return " or ".join(map(str, sorted(sizes)[:3]))
