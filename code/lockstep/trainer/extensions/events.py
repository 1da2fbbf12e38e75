"""Structured logs: JSON lines on every rank, for machines and for audits."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..telemetry import Observer


class EventLog(Observer):
    """`RUN/events/attempt-K-rank-R.jsonl`, only ever appended to.

    A line is handed to the operating system when it is written; a process
    that dies may tear its last one.
    """

    def __init__(
        self,
        run_dir: Path,
        attempt: int,
        rank: int,
        run_id: str,
        options: dict[str, Any],
    ) -> None:
        self.options = options  # told when the run starts
        self.who = {"run_id": run_id, "attempt": attempt, "rank": rank}
        path = run_dir / "events" / f"attempt-{attempt}-rank-{rank}.jsonl"
        self.file = path.open("a", buffering=1)

    def event(self, record: dict[str, Any]) -> None:
        if record["event"] == "run_started":
            record["options"] = self.options
        self.file.write(json.dumps({**self.who, **record}) + "\n")


# --8<-- [start:read_events]
def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """Return the records of one log, without a torn last line.

    Raises ValueError for a broken line that is not the last.
    """
    lines = path.read_text().split("\n")
    for number, line in enumerate(lines[:-1], 1):  # the last has no newline
        try:
            yield json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path}:{number}: {error}") from error


# --8<-- [end:read_events]
