"""A clock that plays pipeline schedules.

The unit of time is one forward through all that a rank holds. A backward takes
two of it, each of a backward's halves one, and a rank that holds v parts does
each of them in one v-th of that.
"""

from .figures import PlanError
from .schedules import Schedule

UNITS = {"F": 1, "B": 2, "I": 1, "W": 1}


class Played:
    """A schedule on a clock.

    Messages from rank to rank arrive `message` after their sender has done
    with what they carry. Nobody waits for a receiver. Between two parts on one
    rank there is no message. The two of an overlapped pair begin when both can
    and end together.

    Args:
        message: its time.
        extra: what the model's last part takes more, for a forward.
        exchange: what a rank's forward waits for its experts' all-to-alls, and
            its backward likewise. In an overlapped pair they run behind the
            computing, as far as that reaches.

    Attributes:
        bars: for each rank (start, end, kind, micro-batch, part); of kind X
            are all-to-alls that nothing hides.
        end: of the last bar.
    """

    def __init__(
        self,
        schedule: Schedule,
        message: float = 0,
        extra: float = 0,
        exchange: float = 0,
    ) -> None:
        self.schedule, self.message = schedule, message
        self.extra, self.exchange = extra, exchange
        self.last = schedule.parts * schedule.ranks - 1
        self.bars: list = [[] for _ in schedule.steps]
        # When a part's output or its input's gradient is there, and where.
        self._done: dict = {}
        at = [0] * schedule.ranks
        moved = True
        while moved:
            moved = False
            for rank, steps in enumerate(schedule.steps):
                while at[rank] < len(steps) and self._try(
                    rank, steps[at[rank]]
                ):
                    at[rank] += 1
                    moved = True
        for rank, steps in enumerate(schedule.steps):
            if at[rank] < len(steps):
                raise PlanError(
                    f"rank {rank} waits for ever: {steps[at[rank]]}"
                )
        self.end = max(bars[-1][1] for bars in self.bars)

    def _try(self, rank: int, step: list) -> bool:
        """Do a step, unless what it needs is not known yet."""
        bars = self.bars[rank]
        now = bars[-1][1] if bars else 0.0
        for action in step:
            need = self._need(rank, action)
            if need is None:
                continue
            if need not in self._done:
                return False
            moment, where = self._done[need]
            now = max(now, moment + (self.message if where != rank else 0))
        sending = 0.0
        begun = now
        for kind, number, part in step:
            bars.append(
                (now, now + self.takes(rank, kind, part), kind, number, part)
            )
            now = bars[-1][1]
            if kind != "W":
                sending += self.exchange / self.schedule.parts
        if len(step) > 1:  # behind the computing
            sending = max(0.0, sending - (now - begun))
        if sending > 1e-9:
            bars.append((now, now + sending, "X", step[-1][1], step[-1][2]))
            now += sending
        for kind, number, part in step:
            if kind != "W":
                made = "F" if kind == "F" else "B"
                place = self.schedule.place(rank, part)
                self._done[made, number, place] = now, rank
        return True

    def _need(self, rank: int, action: tuple):  # type: ignore[no-untyped-def]
        kind, number, part = action
        place = self.schedule.place(rank, part)
        if kind == "W" or (kind == "F" and place == 0):
            return None
        if kind == "F":
            return "F", number, place - 1
        if place == self.last:
            return "F", number, place
        return "B", number, place + 1

    def takes(self, rank: int, kind: str, part: int) -> float:
        """The time of an action, without its all-to-alls."""
        forward = 1 / self.schedule.parts
        if self.schedule.place(rank, part) == self.last:
            forward += self.extra
        return UNITS[kind] * forward

    def ideal(self) -> float:
        """The time if work were spread evenly and no rank ever waited."""
        ranks = self.schedule.ranks
        return 3 * self.schedule.micro_batches * (1 + self.extra / ranks)

    def overhead(self) -> float:
        """The bubble over ideal: what the step takes in addition."""
        return self.end / self.ideal() - 1

    def staggered(self) -> float:
        """The same, if each rank could begin its next step when it ends this
        one, without a barrier: of the rank that takes longest."""
        spans = [bars[-1][1] - bars[0][0] for bars in self.bars]
        return max(spans) / self.ideal() - 1
