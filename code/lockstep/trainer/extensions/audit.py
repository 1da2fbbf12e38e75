"""Proof from the record of a run: what it trained on, and nothing but that.

The audit follows the lineage of attempts that led to the newest state, takes
the sample ids that every rank wrote down, and counts. It shares the definitions
of order and learning rate with the trainer, and reads the rest off the disk.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..config import TrainConfig
from ..order import GlobalOrder
from ..step import learning_rate
from .events import read_events
from .sample_record import Trained, read_samples

# --8<-- [start:audit]
Event = dict[str, Any]
Order = Callable[[np.ndarray], np.ndarray]  # positions to sample ids
Steps = dict[int, list[Trained]]  # what one rank trained on, by step


def permutation_order(n: int, seed: int) -> Order:
    """Return the interview cut's order: NumPy's permutation of each epoch."""

    @lru_cache(maxsize=2)
    def permutation(epoch: int) -> np.ndarray:
        return np.random.default_rng([seed, epoch]).permutation(n)

    def order(positions: np.ndarray) -> np.ndarray:
        epochs, index = np.divmod(positions, n)
        ids = np.empty_like(index)
        for epoch in np.unique(epochs).tolist():
            here = epochs == epoch
            ids[here] = permutation(epoch)[index[here]]
        return ids

    return order


# By the name that a run gives to its order when it starts.
ORDERS: dict[str, Callable[[int, int], Order]] = {
    "keyed": GlobalOrder,
    "permutation": permutation_order,
}


class NoRunError(Exception):
    """There is nothing to audit; the message says what is missing."""


# What only a whole record of samples can show.
OF_SAMPLES = "exactly_once", "order_kept", "shares_disjoint"
CLAIMS = *OF_SAMPLES, "position_continuous", "restores_continuous"


@dataclass
class Report:
    """What the record proves. A claim of which a part could not be read is
    None. `findings` has the first reason against each."""

    # finished epochs: every sample, one time
    exactly_once: bool | None = True
    order_kept: bool | None = True  # the order is the one the seed defines
    shares_disjoint: bool | None = True  # no sample in two ranks' shares
    position_continuous: bool | None = True  # no step, no sample left out
    # step, position, rate and loss go on
    restores_continuous: bool | None = True
    finished: bool = False
    duplicates: int = 0
    missing: int = 0
    samples: int = 0
    epochs: int = 0  # finished ones
    steps: int = 0
    # launches after the first, but for those that had nothing to do
    restarts: int = 0
    replayed_steps: int = 0  # lost with their attempt, and trained again
    damaged_checkpoints: int = 0
    findings: list[str] = field(default_factory=list)

    @property
    def proven(self) -> bool:
        """Everything claimed holds."""
        return not self.findings

    def fail(self, claim: str, finding: str) -> None:
        """`claim` does not hold; the first `finding` against it is kept."""
        if getattr(self, claim) is not False:
            setattr(self, claim, False)
            self.findings.append(f"{claim}: {finding}")

    def unread(self, claims: Iterable[str], finding: str) -> None:
        """Nothing is said of `claims`, for what would show them is not there;
        one that has failed stays failed."""
        for claim in claims:
            if getattr(self, claim):
                setattr(self, claim, None)
                self.findings.append(f"{claim}: not read: {finding}")

    def as_json(self) -> dict[str, Any]:
        """Return the verdict, then every field."""
        return {"proven": self.proven, **asdict(self)}


class Attempt:
    """What one launch wrote down: rank 0's events, every rank's samples."""

    def __init__(self, run_dir: Path, number: int) -> None:
        self.number = number
        name = f"attempt-{number}-rank"
        path = run_dir / "events" / f"{name}-0.jsonl"
        self.events = list(read_events(path))
        self.start: Event = next(self.all("run_started"), {})
        self.restored: Event = next(self.all("checkpoint_restored"), {})
        self.ranks: list[Steps] = []
        self.unread: list[str] = []  # why a rank's record is not here
        for rank in range(self.start.get("world_size", 0)):
            steps: Steps = defaultdict(list)
            file, last = run_dir / f"samples/{name}-{rank}.bin", 0
            try:
                for trained in read_samples(file):
                    if trained.attempt != number or trained.step < last:
                        raise ValueError(f"{file}: not in the order of writing")
                    last = trained.step
                    steps[last].append(trained)
            except (OSError, ValueError) as error:
                self.unread.append(str(error))
            self.ranks.append(steps)

    def all(self, event: str) -> Iterator[Event]:
        """Its events of one kind."""
        return (e for e in self.events if e["event"] == event)

    @property
    def after(self) -> int:
        """The step it went on from; 0 if it restored nothing."""
        return int(self.restored.get("step", 0))

    @property
    def upto(self) -> int:
        """The last step that every rank wrote down, or had to: a record is on
        the disk before its step is saved, and whole at the run's end."""
        ends = "checkpoint_saved", "run_finished", "run_stopped"
        due = [e["step"] for kind in ends for e in self.all(kind)]
        whole = min(max(steps, default=self.after) for steps in self.ranks)
        return max(whole, *due, self.after)

    @property
    def said_position(self) -> int:
        """Where its events say that its last step ended."""
        last = (e for e in self.events if e.get("step") == self.upto)
        return max((e.get("position", 0) for e in last), default=0)

    def was_needless(self) -> bool:
        """Whether it never began the run, or found the run finished."""
        finished = any(self.all("run_finished"))
        return not self.start or (finished and not any(self.ranks))

    def did_something(self) -> bool:
        """Return whether the launch restored or trained anything."""
        said = self.restored or any(self.all("step"))
        return bool(self.ranks and (said or any(self.ranks)))


def audit(run_dir: Path) -> Report:
    """Prove exactly-once from what `run_dir` holds; NoRunError if no run.

    Memory: the record of one attempt, and a counter for each sample.
    """
    logs = list((run_dir / "events").glob("attempt-*-rank-0.jsonl"))
    if not logs:
        raise NoRunError(f"{run_dir} holds no run: no events are in it")
    report = Report()
    numbers = sorted(int(path.name.split("-")[1]) for path in logs)
    try:
        attempts = {k: Attempt(run_dir, k) for k in numbers}
    except (OSError, ValueError) as error:
        report.unread(CLAIMS, str(error))
        return report
    for attempt in attempts.values():
        if attempt.unread:
            report.fail("position_continuous", attempt.unread[0])
            report.unread(OF_SAMPLES, attempt.unread[0])
    launches = sum(not a.was_needless() for a in attempts.values())
    report.restarts = max(0, launches - 1)
    attempts = {k: a for k, a in attempts.items() if a.did_something()}
    if not attempts:
        raise NoRunError(f"{run_dir} holds a run that has not done a step")
    follow(report, attempts)
    check_restores(report, attempts)
    return report


def follow(report: Report, attempts: dict[int, Attempt]) -> None:
    """Count what the newest state was trained on, from its first step."""
    newest = attempts[max(attempts)]
    report.finished = any(newest.all("run_finished"))
    n, seed = newest.start["dataset_length"], newest.start["seed"]
    name = newest.start.get("order", "keyed")
    if name not in ORDERS:
        report.fail("order_kept", f"{name!r} is none of {', '.join(ORDERS)}")
        return
    order = ORDERS[name](n, seed)
    epochs = Epochs(report, n)
    position = 0
    for attempt, after, upto in lineage(newest, attempts):
        for step in range(after + 1, upto + 1):
            shares = [r[step] for r in attempt.ranks]
            position = check_step(report, order, epochs, step, position, shares)
            report.steps += 1
    epochs.close(max(newest.said_position, position))
    recorded = sum(len(a.ranks[0]) for a in attempts.values())
    report.replayed_steps = recorded - report.steps


def lineage(
    newest: Attempt, attempts: dict[int, Attempt]
) -> list[tuple[Attempt, int, int]]:
    """(attempt, after, upto): who trained which steps of the newest state."""
    legs = [(newest, newest.after, newest.upto)]
    while (restored := legs[-1][0].restored) and restored["step"] > 0:
        parent = attempts.get(restored["saved"]["attempt"])
        if not parent or parent.number >= legs[-1][0].number:
            break  # `check_restores` says so
        legs.append((parent, parent.after, restored["step"]))
    return legs[::-1]


class Epochs:
    """How often each sample was trained on, epoch by epoch."""

    def __init__(self, report: Report, n: int) -> None:
        self.report, self.n = report, n
        self.seen: dict[int, np.ndarray] = {}

    def add(self, epochs: np.ndarray, ids: np.ndarray) -> None:
        """Count sample `ids` in their `epochs`."""
        for epoch in np.unique(epochs).tolist():
            counts = self.seen.setdefault(epoch, np.zeros(self.n, np.int64))
            np.add.at(counts, ids[epochs == epoch], 1)

    def finish(self, position: int) -> None:
        """Judge the epochs that end at or before `position`."""
        while (self.report.epochs + 1) * self.n <= position:
            epoch = self.report.epochs
            counts = self.seen.pop(epoch, np.zeros(self.n, np.int64))
            self.judge(epoch, counts, int((counts == 0).sum()))
            self.report.epochs += 1

    def close(self, upto: int) -> None:
        """Judge what an unfinished epoch may already show: duplicates, and
        what is not in the record of all that was trained `upto` here."""
        begun = sum(int(counts.sum()) for counts in self.seen.values())
        for epoch, counts in self.seen.items():
            self.judge(epoch, counts, 0)
        done = self.report.epochs * self.n
        self.report.missing += max(0, upto - done - begun)

    def judge(self, epoch: int, counts: np.ndarray, missing: int) -> None:
        """Every sample once, or how many were not."""
        twice = int(np.maximum(counts - 1, 0).sum())
        self.report.duplicates += twice
        self.report.missing += missing
        # Missing in a record with gaps may have been trained on.
        if twice or (missing and self.report.exactly_once is not None):
            found = f"epoch {epoch}: {twice} duplicates, {missing} missing"
            self.report.fail("exactly_once", found)


def check_step(
    report: Report,
    order: Order,
    epochs: Epochs,
    step: int,
    position: int,
    shares: list[list[Trained]],
) -> int:
    """One step of all ranks, which begins at `position`; where it ends."""
    world = len(shares)
    where = f"step {step}"
    ends = {trained.position for share in shares for trained in share}
    count = sum(len(t.ids) for share in shares for t in share)
    if len(ends) != 1 or any(len(share) != 1 for share in shares):
        report.fail(
            "position_continuous", f"{where}: not one record on every rank"
        )
    if not all(shares):
        rank = next(rank for rank, share in enumerate(shares) if not share)
        report.unread(OF_SAMPLES, f"{where}: none of rank {rank}")
    end = max(ends, default=position)
    if end - position != count:
        said = f"{where}: from {position} to {end}, but {count} samples"
        report.fail("position_continuous", said)
    every: list[np.ndarray] = []
    for rank, share in enumerate(shares):
        for trained in share:
            stream = position + rank + world * np.arange(len(trained.ids))
            every.append(np.stack([stream // epochs.n, trained.ids]))
            if not np.array_equal(trained.ids, order(stream)):
                report.fail("order_kept", f"{where}: rank {rank}")
    ids = np.concatenate(every, axis=1) if every else np.zeros((2, 0), np.int64)
    if np.unique(ids, axis=1).shape != ids.shape:
        report.fail("shares_disjoint", f"{where}: a sample in two shares")
    epochs.add(*ids)
    epochs.finish(end)
    report.samples += count
    return end


def check_rates(report: Report, attempt: Attempt, who: str) -> None:
    """Every step that was logged had the trainer's learning rate."""
    start = attempt.start
    # Only the learning rate is asked of it: any directory will do.
    cfg = TrainConfig(run_dir=Path(), **start["config"])
    for event in attempt.all("step"):
        rate = learning_rate(cfg, event["step"] - 1, start["steps"])
        if event["learning_rate"] != rate:
            said = f"{who}, step {event['step']}: rate {rate} expected"
            report.fail("restores_continuous", said)


def check_restores(report: Report, attempts: dict[int, Attempt]) -> None:
    """Every attempt goes on where the one that it restored had saved."""
    for attempt in attempts.values():
        start, who = attempt.start, f"attempt {attempt.number}"
        damaged = list(attempt.all("checkpoint_damaged"))
        report.damaged_checkpoints += len(damaged)
        if "config" in start:  # another loop has a learning rate of its own
            check_rates(report, attempt, who)
        first = min(attempt.ranks[0], default=attempt.after + 1)
        if first != attempt.after + 1:
            said = f"{who} restored {attempt.after} and went on with {first}"
            report.fail("restores_continuous", said)
        if not attempt.restored:
            continue
        number = attempt.restored["saved"]["attempt"]
        parent = attempts.get(number) if number < attempt.number else None
        saved = (
            [e for e in parent.all("step") if e["step"] == attempt.after]
            if parent
            else []
        )
        if not saved:
            report.fail("restores_continuous", f"{who}: restored from nowhere")
        elif any(
            saved[0][name] != now
            for name, now in (
                ("position", attempt.restored["position"]),
                ("learning_rate", attempt.restored["learning_rate"]),
                ("loss", attempt.restored["saved"]["loss"]),
            )
        ):
            said = f"{who} restored what step {attempt.after} did not save"
            report.fail("restores_continuous", said)


# --8<-- [end:audit]
