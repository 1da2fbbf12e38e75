"""Runs that are disturbed, and what is asked of each.

Epochs have six steps. Most runs save after every fourth, so that step 8 lies in
the middle of the second epoch.
"""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from .bench import Bench, ExamError
from .damage import booby_trap, flip, truncate
from .launching import Act, Ended
from .lineage import Lineage, differences, ends_of_epochs, lineage
from .questions import Verdict

EPOCH, MIDDLE = 6, 8  # steps
MINUTE = 60.0  # seconds in which a hang must have ended
AT_MOST = 8  # files of a checkpoint that are damaged one by one
Verdicts = dict[str, Verdict]
ASPECTS = (
    "length", "exactly-once", "order", "rate", "optimizer", "buffers", "random",
    "end",
)  # fmt: skip


class Scenario(NamedTuple):
    """One way to disturb a run."""

    run: Callable[[Bench], Verdicts]
    questions: tuple[str, ...]  # that its verdicts answer
    needs: str = ""  # the feature without which it does not apply
    compares: bool = False  # with an undisturbed run, which has to repeat


def passed(said: str = "") -> Verdict:
    """It does, as was seen."""
    return Verdict("passed", said)


def failed(said: str, *because: str) -> Verdict:
    """It does not, which is what the questions `because` ask as well."""
    return Verdict("failed", said, dict.fromkeys(because, said))


def unlike_was(unlike: dict[str, str]) -> Verdict:
    """It differs from the undisturbed run, in this."""
    return Verdict("failed", next(iter(unlike.values())), unlike)


def undisturbed(b: Bench) -> Verdicts:
    """Two runs, whatever the trainer is."""
    was = b.undisturbed()
    b.keep("finished")
    b.begin()
    now = lineage(b.run())
    found: Verdicts = {}
    unlike = differences(was, now, exact(b))
    found["repeat"] = (
        failed(next(iter(unlike.values()))) if unlike else passed()
    )
    want = b.launch.global_batch
    sizes = {sum(map(len, batch)) for batch in was.batches()}
    found["batch"] = (
        passed(f"{want} samples a step")
        if sizes == {want}
        else failed(f"{some(sizes)} samples a step, not {want}")
    )
    ends = ends_of_epochs(was)
    if len(ends) < 2:
        why = "no two whole epochs were seen in the undisturbed run"
        found["reshuffled"] = Verdict("not applicable", why)
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
        found["ranks-differ"] = Verdict("not applicable", why)
    else:
        states = Counter(step.before["random"] for step in firsts)
        found["ranks-differ"] = (
            failed("ranks begin with one random state")
            if max(states.values()) > 1
            else passed()
        )
    return found


def uneven(b: Bench) -> Verdicts:
    """101 samples in batches of 16 on an even number of ranks."""
    if not ends_of_epochs(b.undisturbed()):
        why = "no epoch ended in the undisturbed run"
        return {"uneven": Verdict("not applicable", why)}
    counts: Counter[int] = Counter()
    b.begin()
    ended = b.run(samples=101, steps=21)
    if ended.code:
        return {"uneven": failed(f"it ends with an error: {ended.last_words}")}
    for k, batch in enumerate(lineage(ended).batches(), 1):
        counts.update(i for ids in batch for i in ids)
        most, least = max(counts.values()), min(counts.values())
        least = least if len(counts) == 101 else 0
        if most - least > 1:
            said = f"at step {k} samples had been seen {least} to {most} times"
            return {"uneven": failed(said)}
    return {"uneven": passed()}


def stop(b: Bench) -> Verdicts:
    """In the middle of an epoch; then on to the end."""
    was = b.undisturbed()
    first = stop_at(b, MIDDLE)
    b.keep("stopped")
    now = lineage(first, second := b.run())
    trouble = went_on(now, second, at_least=MIDDLE)
    if trouble:
        why = "nothing was resumed, see goes-on"
        rest = dict.fromkeys((*ASPECTS, "ema"), Verdict("not run", why))
        return rest | {"goes-on": trouble}
    found: Verdicts = {"goes-on": passed(f"from step {now.resumed[-1]}")}
    unlike = differences(was, now, exact(b))
    for aspect in ASPECTS:
        found[aspect] = failed(unlike[aspect]) if aspect in unlike else passed()
    if not ends_of_epochs(was):
        why = "no epoch ended in the undisturbed run"
        found["exactly-once"] = Verdict("not applicable", why)
    if "exactly-once" in unlike:
        found["order"] = Verdict("not run", "other samples, see exactly-once")
    if unlike.keys() - {"end"}:
        why = "other weights are explained by what failed before"
        found["end"] = Verdict("not run", why)
    states = next(iter(was.ranks.values()))[0].before["states"]
    if states:
        found["ema"] = failed(unlike["ema"]) if "ema" in unlike else passed()
    else:
        why = "its script observes no other state: observe(…, ema=ema)"
        found["ema"] = Verdict("not applicable", why)
    return found


def boundary(b: Bench) -> Verdicts:
    """After the last step of an epoch."""
    if EPOCH not in ends_of_epochs(b.undisturbed()):
        why = f"no epoch ended after step {EPOCH} of the undisturbed run"
        return {"boundary": Verdict("not applicable", why)}
    how = how_to_stop(b, EPOCH)
    was = b.undisturbed(**how)
    ends = [stop_at(b, EPOCH), b.run(**how)]
    return {"boundary": same_end(b, was, ends, 1)}


def kill(b: Bench) -> Verdicts:
    """Drawn from the steps that neither save nor follow a save, since a save
    in the background takes a moment; nor come after one at an epoch's end,
    which `boundary` asks."""
    b.begin()
    every = b.launch.save_every
    at = [
        k
        for k in range(every + 2, b.launch.steps)
        if k % every > 1 and k // every * every % EPOCH
    ]
    first = b.run(Act(b.random.choice(at), "kill"))
    return {"kill": same_end(b, b.undisturbed(), [first, b.run()], 1)}


def twice(b: Bench) -> Verdicts:
    """Saving after every second step of an epoch, and killed in it twice."""
    was = b.undisturbed(save_every=2)  # where saving may draw random numbers
    b.begin()
    first = b.run(Act(EPOCH + 3, "kill"), save_every=2)
    second = b.run(Act(3, "kill"), save_every=2)  # it has saved once
    third = b.run(save_every=2)
    ends = [first, second, third]
    return {"twice": same_end(b, was, ends, 1)}


def workers(b: Bench) -> Verdicts:
    """Two for each rank, which fetch ahead."""
    was = b.undisturbed(workers=2)
    b.begin()
    first = b.run(Act(MIDDLE + 2, "kill"), workers=2)
    ends = [first, b.run(workers=2)]
    return {"workers": same_end(b, was, ends, 1)}


def fp16(b: Bench) -> Verdicts:
    """A run whose gradients overflow at first, so that the scale falls."""
    was = b.undisturbed(precision="fp16")
    scales = [step.scale for step in was.ranks[0]]
    if scales[0] is None:
        why = "no torch.amp.GradScaler was seen at work"
        return {"scaler": Verdict("not run", why)}
    first = stop_at(b, MIDDLE, precision="fp16")
    now = lineage(first, second := b.run(precision="fp16"))
    if trouble := went_on(now, second, 1):
        return {"scaler": trouble}
    if scales[MIDDLE] == 65536:
        return {"scaler": Verdict("not run", "its scale had not moved")}
    unlike = differences(was, now)
    skipped = sum(step.skipped for step in second.steps)
    if skipped:
        return {"scaler": failed(f"{skipped} steps skipped after the restart")}
    if "scaler" in unlike:
        return {"scaler": failed(unlike["scaler"])}
    return {"scaler": passed(f"scale {scales[MIDDLE]:.0f} at the restart")}


def resize(b: Bench) -> Verdicts:
    """On twice the ranks, with the same global batch. Only the samples are
    compared: other ranks draw other dropout."""
    b.begin("stopped")
    was, ranks = b.undisturbed(), 2 * b.launch.ranks
    second = b.run(ranks=ranks)
    now = after_the_stop(b)
    now.add(second)
    if now.resumed[-1] == -1 and second.code:
        why = f"it refuses another world size: {second.last_words}"
        return {"resize": Verdict("not applicable", why)}
    if trouble := went_on(now, second, MIDDLE):
        return {"resize": trouble}
    unlike = differences(was, now, exact=False)
    for aspect in ("length", "exactly-once", "rate"):
        if aspect in unlike:
            return {"resize": failed(unlike[aspect], aspect)}
    return {"resize": passed(f"{b.launch.ranks} to {ranks} ranks")}


def truncated(b: Bench) -> Verdicts:
    """The largest file of the newest checkpoint."""
    b.begin("stopped")
    if not (files := b.newest()):
        return {"truncated": nothing_saved()}
    truncate(files[0])
    b.steps.append(f"cut to its first half: {relative(b, files[0])}")
    return {"truncated": noticed(b, b.run())}


def flipped(b: Bench) -> Verdicts:
    """One bit of its middle byte."""
    b.begin("stopped")
    if not (files := b.newest()):
        return {"flipped": nothing_saved()}
    flip(files[0])
    b.steps.append(f"the middle bit flipped: {relative(b, files[0])}")
    return {"flipped": noticed(b, b.run())}


def incomplete(b: Bench) -> Verdicts:
    """Without one of its files, each in turn."""
    b.begin("stopped")
    if len(files := b.newest()) < 2:
        why = "a checkpoint is one file"
        return {"incomplete": Verdict("not applicable", why)}
    for path in files[:AT_MOST]:
        b.begin("stopped")
        path.unlink()
        b.steps.append(f"removed: {relative(b, path)}")
        verdict = noticed(b, b.run())
        if verdict.answer != "passed":
            verdict.said = f"without {path.name}: {verdict.said}"
            return {"incomplete": verdict}
    return {"incomplete": passed(f"each of {len(files)} files")}


def foreign(b: Bench) -> Verdicts:
    """Launched with another seed and other data into the stopped run."""
    b.begin("stopped")
    ended = b.run(seed=b.launch.seed + 1, variant=1)
    now = after_the_stop(b)
    now.add(ended)
    after = now.resumed[-1]
    if after == -1 and not ended.code:
        said = "exit code 0, without a step and without a word"
        return {"foreign": failed(said)}
    if after == -1:
        return {"foreign": passed(f"refused: {ended.last_words}")}
    if after:
        return {"foreign": failed(f"it went on from the other's step {after}")}
    return {"foreign": passed("it began a run of its own")}


def pickle(b: Bench) -> Verdicts:
    """One file after the other is made to run a harmless command when it is
    loaded: all at once, the first that is refused would hide the others."""
    b.begin("stopped")
    touched = b.folder / "touched"
    touched.unlink(missing_ok=True)
    trapped = []
    for path in b.newest()[:AT_MOST]:
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
    return {"pickle": passed(f"{len(trapped)} pickles, and none ran its code")}


def torn(b: Bench) -> Verdicts:
    """Killed while it writes the second checkpoint."""
    return {"torn": cut_off(b, "tear")}


def disk(b: Bench) -> Verdicts:
    """No room from the second checkpoint on, until the next launch."""
    return {"disk": cut_off(b, "refuse")}


def cut_off(b: Bench, how: str) -> Verdict:
    """From the second save on no file may grow beyond half of the largest that
    was saved before; then a launch that may write again."""
    b.begin("stopped")
    sizes = [path.stat().st_size for path in b.newest()]
    b.begin()
    if not sizes:
        return nothing_saved()
    every = b.launch.save_every
    act = Act(2 * every - 1, how, None, sizes[0] // 2)
    first = b.run(act, limit=60)
    if first.out_of_time:
        return failed("it hung, until the examiner ended it after 60 s")
    now = lineage(first, second := b.run())
    if (now.resumed[-1] or 0) > every:
        why = "its writer was not reached: a process that began before"
        return Verdict("not run", why)
    return same_end(b, b.undisturbed(), [first, second], every)


def sigterm(b: Bench) -> Verdicts:
    """Where nothing else would be saved. Steps take half a second then."""
    b.begin()
    at, never = MIDDLE - 1, 10 * b.launch.steps
    first = b.run(Act(at, "terminate"), limit=35, save_every=never)
    if first.out_of_time:
        return {"sigterm": failed("30 s later it was still running")}
    if len(first.steps) >= b.launch.steps:
        return {"sigterm": failed("it took no notice, and trained on")}
    now = lineage(first, second := b.run())
    if now.resumed[-1] == 0:
        said = f"all {at} steps since the last checkpoint were lost"
        return {"sigterm": failed(said, "goes-on")}
    if trouble := went_on(now, second, at):
        return {"sigterm": trouble}
    where = f"saved at step {now.resumed[-1]}, told at step {at}"
    return {"sigterm": passed(where)}


def hang(b: Bench) -> Verdicts:
    """The last rank falls asleep in the middle of a step."""
    b.begin()
    last = b.launch.ranks - 1
    ended = b.run(Act(MIDDLE - 1, "hang", last), limit=MINUTE + 30)
    if "hang" not in ended.acted:
        return {"hang": Verdict("not run", "no rank came that far")}
    if ended.out_of_time or ended.seconds_after_act > MINUTE:
        return {"hang": failed("a minute later its processes still waited")}
    said = f"after {ended.seconds_after_act:.0f} s, exit code {ended.code}"
    return {"hang": passed(said) if ended.code else failed(said)}


def finished(b: Bench) -> Verdicts:
    """The undisturbed run, launched once more."""
    was = b.undisturbed()
    b.begin("finished")
    ended = b.run()
    now = Lineage(dict(was.ranks), was.world)
    now.add(ended)
    if ended.code:
        return {"finished": failed(f"it fails: {ended.last_words}")}
    if now.steps != was.steps or now.resumed[-1] in (None, 0):
        said = f"it trained {len(ended.steps)} more steps"
        why = "length" if now.resumed[-1] else "goes-on"
        return {"finished": failed(said, why)}
    unlike = differences(was, now, exact(b))
    if unlike:
        return {"finished": unlike_was(unlike)}
    again = f"its last {len(ended.steps)} steps once more, to the same end"
    return {"finished": passed(again if ended.steps else "no step was taken")}


# --8<-- [start:scenarios]
SCENARIOS = [
    Scenario(undisturbed, ("repeat", "batch", "reshuffled", "ranks-differ")),
    Scenario(uneven, ("uneven",)),
    Scenario(stop, ("goes-on", *ASPECTS, "ema")),
    Scenario(boundary, ("boundary",), compares=True),
    Scenario(kill, ("kill",), compares=True),
    Scenario(twice, ("twice",), compares=True),
    Scenario(workers, ("workers",), "workers", compares=True),
    Scenario(fp16, ("scaler",), "fp16", compares=True),
    Scenario(resize, ("resize",), "resize", compares=True),
    Scenario(torn, ("torn",), compares=True),
    Scenario(disk, ("disk",), compares=True),
    Scenario(truncated, ("truncated",), compares=True),
    Scenario(incomplete, ("incomplete",), compares=True),
    Scenario(flipped, ("flipped",), compares=True),
    Scenario(foreign, ("foreign",), compares=True),
    Scenario(pickle, ("pickle",)),
    Scenario(sigterm, ("sigterm",), "sigterm"),
    Scenario(hang, ("hang",)),
    Scenario(finished, ("finished",)),
]
# --8<-- [end:scenarios]


def exact(b: Bench) -> bool:
    """Two addends have one order; DDP adds those of more ranks in another one
    after a restart."""
    return b.launch.ranks <= 2


def how_to_stop(b: Bench, step: int) -> dict[str, int]:
    """What a launch must be told, beside where to stop, to save at `step`."""
    every = b.launch.save_every
    stops = "stop" not in b.adapter.lacks
    return {} if stops or step % every == 0 else {"save_every": step}


def stop_at(b: Bench, step: int, **settings: str) -> Ended:
    """A new run, up to `step`, whose state is saved then. A trainer that cannot
    leave early saves there, and is killed two steps on."""
    b.begin()
    if "stop" in b.adapter.lacks:
        act = Act(step + 2, "kill")
        return b.run(act, **how_to_stop(b, step), **settings)  # type: ignore[arg-type]
    ended = b.run(stop_at=step, **settings)  # type: ignore[arg-type]
    if ended.code or len(ended.steps) < step:
        raise ExamError(
            f"asked to stop at step {step}, it ended with"
            f" {b.steps[-1]}: {ended.last_words}"
        )
    return ended


def after_the_stop(b: Bench) -> Lineage:
    """What the run had been trained on when it was stopped."""
    was = b.undisturbed()
    ranks = {r: steps[: MIDDLE + 2] for r, steps in was.ranks.items()}
    return Lineage(ranks, was.world)


def went_on(now: Lineage, ended: Ended, at_least: int) -> Verdict | None:
    """What is wrong with where the newest launch went on, if anything is."""
    after = now.resumed[-1]
    if after == -1:
        code = f"exit code {ended.code}"
        if ended.out_of_time:
            code = "it hung"
        said = f"no step was taken, {code}: {ended.last_words}"
        return failed(said, "goes-on")
    if after is None:
        said = "it began with weights that the run had never had"
        return failed(said, "goes-on")
    if after < at_least:
        said = f"it went on from step {after}, where {at_least} was saved"
        return failed(said, "goes-on")
    return None


def same_end(
    b: Bench, was: Lineage, ends: list[Ended], at_least: int
) -> Verdict:
    """Whether launches in a row come to the end of the undisturbed run."""
    now = Lineage()
    for k, ended in enumerate(ends):
        now.add(ended)
        if k and (trouble := went_on(now, ended, at_least)):
            return trouble
    unlike = differences(was, now, exact(b))
    if unlike:
        return unlike_was(unlike)
    last = ends[-1]
    if last.code:
        return failed(f"it ended with exit code {last.code}: {last.last_words}")
    return passed(f"from step {', '.join(map(str, now.resumed))}")


def noticed(b: Bench, ended: Ended) -> Verdict:
    """Whether a launch made the best of a damaged checkpoint: refused it in
    words, or fell back to the one before."""
    was, now = b.undisturbed(), after_the_stop(b)
    now.add(ended)
    after = now.resumed[-1]
    if after == -1 and ended.out_of_time:
        return failed("it hung")
    if after == -1 and ended.code:
        return passed(f"refused: {ended.last_words}")
    if not after or after == -1:
        trouble = went_on(now, ended, 1)
        assert trouble
        return trouble
    unlike = differences(was, now, exact(b))
    if after >= MIDDLE:
        for aspect in ("optimizer", "buffers", "random", "ema", "end"):
            if aspect in unlike:
                return failed(f"went on from it: {unlike[aspect]}", aspect)
        return passed("what it loaded was whole")
    return passed(f"it fell back to step {after}")


def nothing_saved() -> Verdict:
    """There is nothing to damage."""
    why = "the adapter's checkpoints(run_dir) finds none"
    return Verdict("not run", why)


def relative(b: Bench, path: object) -> str:
    """A file's place in the run directory."""
    return str(path).removeprefix(f"{b.run_dir}/")


def some(sizes: set[int]) -> str:
    """The few sizes that there are."""
    return " or ".join(map(str, sorted(sizes)[:3]))
