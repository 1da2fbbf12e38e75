"""What a run was trained on, put together from its launches.

No trainer is asked where it resumed. A launch begins with certain weights, and
the step of an earlier launch that came out with the same weights is the one
that it goes on from.
"""

from collections import Counter
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple

from .launching import Ended, Step

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
        after = self.step_before(new[0][0])
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

    def step_before(self, first: Step) -> int | None:
        """Return the step whose weights rank 0 began this step with; None if it
        never had them. Where several steps had them, as with a learning rate of
        0, the one that agrees most with the rest of what it began with."""
        mine = self.ranks.get(0, [])
        had = [step.before["weights"] for step in mine]
        had += [step.after for step in mine[-1:]]
        found = [k for k, w in enumerate(had) if w == first.before["weights"]]
        return max(found, key=lambda k: self.likeness(k, first), default=None)

    def likeness(self, after: int, first: Step) -> tuple[int, int, int]:
        """Return how well a launch with this `first` step of rank 0 fits one
        that resumed from that step: the fewest differences come first, then
        the most that agrees, then the newest step."""
        mine, here = self.ranks[0], first.before | {"ids": first.ids}
        if after < len(mine):
            there = mine[after].before | {"ids": mine[after].ids}
        else:  # the run has not been on from there
            there = mine[-1].left or {}
        same = [there[n] == here[n] for n in there.keys() & here.keys()]
        return -same.count(False), same.count(True), after

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


def views(run: Lineage) -> int:
    """Return how often each sample of a step passes the model in that step: 2
    for a trainer that compares two views of each, and 1 for most."""
    steps = (Counter(joined(batch)).values() for batch in run.batches())
    return min(min(times, default=1) for times in steps)


def joined(batch: list[tuple[int, ...]]) -> list[int]:
    """Return the samples of a step, of all its ranks."""
    return [i for ids in batch for i in ids]
