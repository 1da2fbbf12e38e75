"""How a run differs from an undisturbed run.

A difference counts for a question only if everything that could explain it had
agreed until then: a later difference may follow from an earlier one.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from math import hypot
from typing import Any, NamedTuple

from .launching import Step
from .lineage import Lineage, ends_of_epochs

# How far norms may differ, relative to the larger, where ranks add in another
# order: norms of weights, and of averages over a run and its samples.
WEIGHTS, SUMS = 1e-4, 1e-2
NAMED = 10**6  # a smaller number names a sample; a larger one is its hash

# Kinds of states: the question that asks for each, and its name in a verdict.
SIZES = {"optimizer": "optimizer", "buffers": "buffers", "states": "ema"}
WORDS = {
    "optimizer": "optimizer state",
    "buffers": "buffers",
    "states": "observed states",
}

Differ = Callable[[str, str], object]  # a question, and what was seen


class Pair(NamedTuple):
    """The same step of the same rank in both runs."""

    step: int  # from 1
    rank: int
    was: Step
    now: Step

    @property
    def where(self) -> str:
        """Its place, in words."""
        return f"step {self.step}, rank {self.rank}"

    def differ(self, name: str) -> bool:
        """Whether the two went into the step with different ones."""
        return self.was.before.get(name) != self.now.before.get(name)

    @property
    def random(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The states of the generators that either of them drew from."""
        drew = {*self.was.drew, *self.now.drew}
        return self.was.random(drew), self.now.random(drew)

    @property
    def same_inputs(self) -> bool:
        """Whether all that the step computes with agrees, as far as it is
        seen."""
        names = "weights", "optimizer", "rates"
        a, b = self.random
        same = self.was.ids == self.now.ids and self.was.scale == self.now.scale
        return same and a == b and not any(map(self.differ, names))


def pairs(was: Lineage, now: Lineage) -> list[list[Pair]]:
    """Return the steps that both runs have, each of the ranks that have it."""
    found: list[list[Pair]] = []
    for rank, steps in sorted(was.ranks.items()):
        both = zip(steps, now.ranks.get(rank, []), strict=False)
        for k, (a, b) in enumerate(both):
            found += [[]] * (k == len(found))
            found[k] = [*found[k], Pair(k + 1, rank, a, b)]
    return found


def differences(
    was: Lineage, now: Lineage, exact: bool = True
) -> dict[str, str]:
    """Return how the run `now` differs from the undisturbed run: by question,
    what was seen first. Without `exact`, weights needn't agree bit by bit;
    once they don't, norms are compared, at the end."""
    found: dict[str, str] = {}
    compare_lengths(was, now, found.setdefault)
    compare_steps(was, now, found.setdefault, "exactly-once" not in found)
    compare_states(was, now, found.setdefault)
    if not found and not exact:
        compare_norms(was, now, found.setdefault)
    if not found and exact and (pair := other_weights(was, now)):
        also = "the same samples, rates and states"
        found["final-weights"] = (
            f"after {pair.where}: other weights, from {also}"
        )
    return found


def compare_lengths(was: Lineage, now: Lineage, differ: Differ) -> None:
    """Compare the number of steps, and the samples of each whole epoch."""
    if now.steps != was.steps:
        said = f"{now.steps} steps counted in the end, not {was.steps}"
        differ("total-steps", said)
    n = len(was.counts())
    for step in ends_of_epochs(was):
        if step > now.steps:
            continue
        lost = was.counts(step) - now.counts(step)
        again = now.counts(step) - was.counts(step)
        if lost or again:
            differ(
                "exactly-once",
                f"after step {step} of the run, {lost.total()} of {n} samples"
                f" had been left out and {again.total()} trained on once more",
            )


def compare_steps(
    was: Lineage, now: Lineage, differ: Differ, same_samples: bool
) -> None:
    """Compare what each step takes from a schedule, whatever its weights."""
    same_samples = same_samples and now.world == was.world
    for pair in chain.from_iterable(pairs(was, now)):
        a, b, where = pair.was, pair.now, pair.where
        if same_samples and a.ids != b.ids:
            differ("order", f"{where}: {other_samples(was, pair)}")
        if pair.differ("rates"):
            rates = b.before.get("rates", ()), a.before.get("rates", ())
            differ("learning-rate", f"{where}: {rounded(*rates)}")
        if a.scale != b.scale:
            differ("scaler", f"{where}: scale {rounded([b.scale], [a.scale])}")
        # Weights do not tell whether a launch goes on from before a skipped
        # step or after it. The scale does.
        if not b.skips <= a.skips <= b.skips + b.earlier:
            said = f"the scaler skipped {b.skips} steps, not {a.skips}"
            differ("scaler", f"before {where}: {said}")
        then, here = pair.random
        if then != here:
            differ("rng-state", f"{where}: {other_random(was, pair)}")


def compare_states(was: Lineage, now: Lineage, differ: Differ) -> None:
    """Compare the states that each step begins with, and those that it leaves,
    as long as the run had been the same until then. A launch that resumed with
    the weights of a step is compared there in any case."""
    resumed = {start.step for start in now.starts if start.step}
    steps, same = pairs(was, now), True
    for k, step in enumerate(steps):
        for pair in step:
            if (same or k in resumed) and not pair.differ("weights"):
                compare_begun(pair, differ, k in resumed)
        same = same and all(pair.same_inputs for pair in step)
        for pair in step:
            if same and pair.was.after == pair.now.after:
                compare_left(pair, differ, k == len(steps) - 1)


def compare_begun(pair: Pair, differ: Differ, resumed: bool) -> None:
    """Compare the states that a step begins with; its weights agree."""
    where = f"before {pair.where}"
    if resumed:
        where = f"resumed from step {pair.step - 1}, rank {pair.rank}"
    if pair.differ("optimizer"):
        differ("optimizer", f"{where}: not the optimizer's state of that step")
    if other_buffers := pair.differ("buffers"):
        differ("buffers", f"{where}: not the buffers of that step")
    then, here = (one.before.get("states", {}) for one in (pair.was, pair.now))
    for name in then:
        # An average may copy the buffers.
        if here.get(name) != then[name] and (resumed or not other_buffers):
            differ("ema", f"{where}: not the {name} of that step")
    a, b = pair.was.scaler or {}, pair.now.scaler or {}
    for name in a:
        if a[name] != b.get(name):
            words = name.strip("_").replace("_", " ")
            said = f"{words} {rounded([b.get(name)], [a[name]])}"
            differ("scaler", f"{where}: {said}")


def compare_left(pair: Pair, differ: Differ, last: bool) -> None:
    """Compare the states that a step leaves. Buffers that no checkpoint holds
    are compared here alone, since the forward pass may fill them; others before
    the next step, if there is one."""
    a, b = pair.was.left or {}, pair.now.left or {}
    where = f"after {pair.where}"
    for name, (*shape, bits) in a.get("filled", {}).items():
        *other, here = b.get("filled", {}).get(name, [None])
        # A table that grows with what it is asked for may have another length.
        if shape == other and bits != here:
            what = f"{name.strip('.')}, a buffer that no checkpoint holds"
            differ("buffers", f"{where}: other values in {what}")
    if last and a.get("buffers") != b.get("buffers"):
        differ("buffers", f"{where}: other buffers")
    if last and a.get("optimizer") != b.get("optimizer"):
        differ("optimizer", f"{where}: another state of the optimizer")


def compare_norms(was: Lineage, now: Lineage, differ: Differ) -> None:
    """Compare the norms of the last step, where bits may differ. Moments have
    shown in the weights by then."""
    for pair in pairs(was, now)[-1]:
        a, b = pair.was.before, pair.now.before
        if far_apart(pair.was.norms, pair.now.norms, WEIGHTS):
            differ(
                "final-weights", f"after {pair.where}: other norms of weights"
            )
        for name in ("buffers", "states"):
            then, here = (one.get("sizes", {}).get(name, {}) for one in (a, b))
            if any(far_apart(then[k], here.get(k, ()), SUMS) for k in then):
                differ(SIZES[name], f"{pair.where}: other norms of {name}")


def other_weights(was: Lineage, now: Lineage) -> Pair | None:
    """Return the first step that leaves other weights."""
    for pair in chain.from_iterable(pairs(was, now)):
        if pair.was.after != pair.now.after:
            return pair
    return None


def far_apart(a: Sequence[float], b: Sequence[float], tolerance: float) -> bool:
    """Whether any two of these norms differ by more than the order of additions
    explains."""
    return len(a) != len(b) or any(
        abs(x - y) > tolerance * max(x, y) for x, y in zip(a, b, strict=True)
    )


def compare_resized(
    was: Lineage, now: Lineage
) -> tuple[dict[str, str], list[str]]:
    """Compare what a launch at a different world size resumed with, and name
    what was compared. An optimizer's state that is sharded is compared as a
    whole; buffers and other states only if all ranks have the same."""
    k = now.start.step or 0
    then, here = (
        [steps[k].before for steps in run.ranks.values() if k < len(steps)]
        for run in (was, now)
    )
    found: dict[str, str] = {}
    compared = []
    for name, question in SIZES.items():
        whole = alike(then, name) and alike(here, name)
        if name != "optimizer" and not whole:
            continue
        sizes = [
            [one.get("sizes", {}).get(name, {}) for one in ranks]
            for ranks in (then, here)
        ]
        if not sizes[0][0]:
            continue
        compared.append(WORDS[name])
        if then[0].get(name) == here[0].get(name) and whole:
            continue
        a, b = (one[0] if whole else total(one) for one in sizes)
        if any(far_apart(a[n], b.get(n, ()), WEIGHTS) for n in a):
            found[question] = f"resumed from step {k}: other {WORDS[name]}"
    return found, compared


def alike(ranks: Iterable[dict[str, Any]], name: str) -> bool:
    """Whether all ranks begin with the same."""
    return len({repr(one.get(name)) for one in ranks}) == 1


def total(ranks: list[dict[str, list[float]]]) -> dict[str, list[float]]:
    """Return the norms over all parts. Counters of steps, of which each part
    has its own, are left out."""
    return {
        name: [hypot(*(x for one in ranks for x in one.get(name, ())))]
        for name in ranks[0]
        if name != "step"
    }


def other_samples(was: Lineage, pair: Pair) -> str:
    """Say which samples a step has, if not its own: those of another step or
    rank, or how many."""
    mine, due = pair.now.ids, pair.was.ids
    names = ""
    if max((*mine, *due), default=0) < NAMED:
        names = f": {some(mine)}, not {some(due)}"
    if place := found_at(was, pair, lambda step: step.ids == mine):
        step, rank = place
        if step == pair.step:
            return f"the samples of rank {rank}{names}"
        ends = ends_of_epochs(was)
        there, here = (
            sum(end < one for end in ends) + 1 for one in (step, pair.step)
        )
        again = f"the samples of step {step} again"
        if there != here:
            again = f"the order of epoch {there} again, from step {step}"
        return again + names
    shared = (Counter(mine) & Counter(due)).total()
    if shared == len(mine) == len(due):
        return f"its samples in another order{names}"
    return f"{shared} of its {len(due)} samples{names}"


def other_random(was: Lineage, pair: Pair) -> str:
    """Say whose state of torch's generator a step has, if not its own."""
    drew = {*pair.was.drew, *pair.now.drew}
    here = pair.random[1]
    if place := found_at(was, pair, lambda step: step.random(drew) == here):
        step, rank = place
        return f"the random state of step {step}, rank {rank}"
    return "another state of torch's generator"


def found_at(
    was: Lineage, pair: Pair, fits: Callable[[Step], bool]
) -> tuple[int, int] | None:
    """Return the step and rank of the undisturbed run that fits, the same step
    first."""
    places = [
        (step, rank)
        for rank, steps in was.ranks.items()
        for step, one in enumerate(steps, 1)
        if fits(one)
    ]
    return min(places, key=lambda at: (at[0] != pair.step, *at), default=None)


def some(ids: Sequence[int]) -> str:
    """Name the first few samples of a step."""
    return ", ".join(map(str, ids[:4])) + ", …" * (len(ids) > 4)


def rounded(now: Iterable[Any], was: Iterable[Any]) -> str:
    """Say `now, not was`, with no more digits than tell them apart."""
    for digits in range(3, 18):
        here, there = (
            ", ".join(dict.fromkeys(short(x, digits) for x in one))
            for one in (now, was)
        )
        if here != there:
            break
    return f"{here or 'none'}, not {there or 'none'}"


def short(value: Any, digits: int) -> str:
    """Write a number with so many significant digits, and whole ones whole."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if value.is_integer() else f"{value:.{digits}g}"
