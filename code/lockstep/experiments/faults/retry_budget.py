"""Decide after each failure of a run whether to restart it, and without which
node."""

from collections import Counter
from math import inf

# --8<-- [start:budget]
# How many failures of a class a run may have without a newer checkpoint.
RETRIES = {
    "preempted": inf,
    "broken node": 8,
    "hang": 2,
    "exception": 1,
    "bad settings": 0,
}
LEMON = 3  # A node that was blamed so often leaves the job.


class Budget:
    """The failures of one run, across all its restarts."""

    def __init__(self) -> None:
        self.saved = -1
        self.failures: Counter[str] = Counter()
        self.blamed: Counter[str] = Counter()

    def decide(self, fault: str, saved: int, node: str = "") -> str:
        """Say what to do after a failure of this class. `saved` is the step of
        the newest checkpoint, `node` the suspect, if there is one."""
        if saved > self.saved:  # The run made progress.
            self.saved = saved
            self.failures.clear()
        self.failures[fault] += 1
        self.blamed[node] += 1
        if self.failures[fault] > RETRIES[fault]:
            return "page a person"
        lemon = self.blamed[node] >= LEMON
        if node and (fault == "broken node" or lemon):
            return f"restart without {node}"
        return "restart"


# --8<-- [end:budget]
