"""What a run was trained on, put together from its launches.

No trainer is asked where it resumed. A launch begins with certain weights, and
the step of an earlier launch that came out with the same weights is the one
that it goes on from.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple

from .launching import Ended, Step

# How far norms of weights may differ where ranks add in another order.
TOLERANCE = 1e-4
ABSENT = Step(False, (), {}, "", (), (), None)  # of a rank not yet there


class Start(NamedTuple):
    """How a launch after the first began."""

    # Whose weights it began with; None: weights that the run never had.
    step: int | None
    trained: bool = True  # whether it took a step

    @property
    def resumed(self) -> bool:
        """Whether it began with the weights of a step, not the initial ones."""
        return bool(self.step)


NO_STEP = Start(None, trained=False)


@dataclass
class Lineage:
    """The steps, of each rank, that led to the newest weights."""

    ranks: dict[int, list[Step]] = field(default_factory=dict)
    world: int = 0  # of the newest launch
    trailing: dict[int, int] = field(default_factory=dict)
    # ^ of each rank: steps that were skipped after its last one.
    starts: list[Start] = field(default_factory=list)
    # ^ of each launch after the first.

    @property
    def start(self) -> Start:
        """How the newest launch began."""
        return self.starts[-1]

    def add(self, ended: Ended) -> None:
        """Append a launch, in place of the earlier steps that it took again."""
        told = {r: committed(s) for r, s in ended.ranks.items()}
        new = {r: steps for r, (steps, _) in told.items()}
        if self.ranks and not new.get(0):
            self.starts.append(NO_STEP)
            return
        kept = 0
        if self.ranks:
            start = self.start_of(new, ended.world)
            self.starts.append(start)
            kept = start.step or 0
            self.note_skips(new, kept)
        self.world = ended.world
        self.trailing = {r: skips for r, (_, skips) in told.items()}
        before = {r: steps[:kept] for r, steps in self.ranks.items()}
        absent = [ABSENT] * kept  # of ranks that are new
        self.ranks = {
            r: before.get(r, absent) + new.get(r, []) for r in {*before, *new}
        }

    def start_of(self, new: dict[int, list[Step]], world: int) -> Start:
        """How a launch with these steps began. Each rank must have its own
        weights of the step, unless the world size has changed."""
        after = self.step_with(new[0][0].before["weights"])
        if after is None or world != self.world:
            return Start(after)
        others = (r for r in new if r and new[r])
        own = all(self.had(r, after, new[r][0]) for r in others)
        return Start(after if own else None)

    def note_skips(self, new: dict[int, list[Step]], kept: int) -> None:
        """Note on each rank's first new step how many steps the scaler had
        skipped in the earlier launch before the step that it replaces."""
        for r, steps in self.ranks.items():
            dropped = steps[kept:]
            skips = dropped[0].skips if dropped else self.trailing.get(r, 0)
            if new.get(r):
                new[r][0] = new[r][0]._replace(earlier=skips)

    def had(self, rank: int, after: int, first: Step) -> bool:
        """Whether `rank` goes on with its own weights of that step. If it was
        killed before it told of them, it is believed."""
        mine = self.ranks.get(rank, [])
        if after < len(mine):
            return mine[after].before["weights"] == first.before["weights"]
        told = after == len(mine) == self.steps
        return not told or mine[-1].after == first.before["weights"]

    def step_with(self, weights: str) -> int | None:
        """After which step rank 0 first had these weights."""
        mine = self.ranks.get(0, [])
        had = [step.before["weights"] for step in mine]
        had += [step.after for step in mine[-1:]]
        return had.index(weights) if weights in had else None

    @property
    def steps(self) -> int:
        """How many there are."""
        return len(self.ranks.get(0, []))

    def batches(self) -> list[list[tuple[int, ...]]]:
        """Of each step, of each rank in turn, the samples."""
        mine = [self.ranks[r] for r in sorted(self.ranks)]
        return [
            [step.ids for step in steps if step] for steps in zip_longest(*mine)
        ]

    def counts(self, upto: int | None = None) -> Counter[int]:
        """How often each sample was trained on in the first `upto` steps."""
        return Counter(
            i for batch in self.batches()[:upto] for ids in batch for i in ids
        )


def committed(steps: list[Step]) -> tuple[list[Step], int]:
    """Those that the gradient scaler did not skip, each with how many it did
    just before; and how many it skipped after the last one."""
    found: list[Step] = []
    skips = 0
    for step in steps:
        if not step.skipped:
            found.append(step._replace(skips=skips))
        skips = skips + 1 if step.skipped else 0
    return found, skips


def lineage(*launches: Ended) -> Lineage:
    """Of launches of one run, in order."""
    found = Lineage()
    for ended in launches:
        found.add(ended)
    return found


Differ = Callable[[str, str], object]  # a question, and what was seen


def differences(
    was: Lineage, now: Lineage, exact: bool = True
) -> dict[str, str]:
    """In what the run `now` is not as the undisturbed one: by question, what
    was seen first. `exact`: the weights must agree bit by bit."""
    found: dict[str, str] = {}
    compare_lengths(was, now, found.setdefault)
    compare_steps(was, now, found.setdefault, "exactly-once" not in found)
    compare_states(was, now, found.setdefault)
    if not found and not ends_alike(was, now, exact):
        found["final-weights"] = (
            "with the same samples, rate and states, other weights"
        )
    return found


def compare_lengths(was: Lineage, now: Lineage, differ: Differ) -> None:
    """How many steps there are, and which samples in each whole epoch."""
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
    """Each step of each rank that both have."""
    same_samples = same_samples and now.world == was.world
    for rank, steps in sorted(was.ranks.items()):
        pairs = zip(steps, now.ranks.get(rank, []), strict=False)
        for k, (a, b) in enumerate(pairs, 1):
            where = f"step {k}, rank {rank}"
            if same_samples and a.ids != b.ids:
                differ("order", f"{where}: samples {some(b)}, not {some(a)}")
            rates = b.before.get("rates"), a.before.get("rates")
            if rates[0] != rates[1]:
                differ("learning-rate", f"{where}: {rates[0]}, not {rates[1]}")
            if a.scale != b.scale:
                differ("scaler", f"{where}: scale {b.scale}, not {a.scale}")
            # Weights do not tell whether a launch goes on from before a skipped
            # step or after it. The scale does.
            if not b.skips <= a.skips <= b.skips + b.earlier:
                said = f"the scaler skipped {b.skips} steps, not {a.skips}"
                differ("scaler", f"before {where}: {said}")
            drew = {*a.drew, *b.drew}
            if a.random(drew) != b.random(drew):
                said = "another state of torch's generator"
                differ("rng-state", f"{where}: {said}")


def compare_states(was: Lineage, now: Lineage, differ: Differ) -> None:
    """What each launch that went on went in with, as long as the run had been
    the same until then: what differs later may follow from that."""
    for k in (start.step for start in now.starts if start.step):
        for rank, steps in sorted(was.ranks.items()):
            mine = now.ranks.get(rank, [])
            if k >= min(len(steps), len(mine)):
                continue
            then, here = steps[k].before, mine[k].before
            if then["weights"] != here["weights"]:
                continue
            where = f"going on from step {k}, rank {rank}"
            if then["optimizer"] != here["optimizer"]:
                differ("optimizer", f"{where}: not the state of that step")
            if then["buffers"] != here["buffers"]:
                differ("buffers", f"{where}: not those of that step")
            for name, state in then["states"].items():
                if here["states"].get(name) != state:
                    differ("ema", f"{where}: {name} is not that of that step")


def ends_alike(was: Lineage, now: Lineage, exact: bool) -> bool:
    """Whether the last weights agree: bit by bit, or their norms nearly."""
    for rank in was.ranks.keys() & now.ranks.keys():
        a, b = was.ranks[rank][-1], now.ranks[rank][-1]
        if exact and a.after != b.after:
            return False
        if far_apart(a.norms, b.norms):
            return False
    return True


def far_apart(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    """Whether any differs by more than the order of additions explains."""
    return len(a) != len(b) or any(
        abs(x - y) > TOLERANCE * max(abs(x), abs(y))
        for x, y in zip(a, b, strict=True)
    )


def ends_of_epochs(run: Lineage) -> list[int]:
    """After which steps every sample had been trained on equally often."""
    counts: Counter[int] = Counter()
    n = len(run.counts())
    found = []
    for k, batch in enumerate(run.batches(), 1):
        counts.update(i for ids in batch for i in ids)
        if len(counts) == n and len({*counts.values()}) == 1:
            found.append(k)
    return found


def some(step: Step) -> str:
    """The first few samples of a step."""
    more = ", …" if len(step.ids) > 4 else ""
    return f"{', '.join(map(str, step.ids[:4]))}{more}"
