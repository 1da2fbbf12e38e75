"""What a person sees, on rank 0: progress, and what went wrong with it."""

import sys
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ..telemetry import Observer


class Notices(Observer):
    """A line on stderr for every checkpoint that was lost, and why."""

    def event(self, record: dict[str, Any]) -> None:
        kind = record["event"]
        if kind == "checkpoint_damaged":
            self.say(f"{record['checkpoint']} set aside: {record['reason']}")
        elif kind == "checkpoint_failed":
            self.say(f"no checkpoint of {record['step']}: {record['reason']}")

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class ProgressBar(Notices):
    """A bar in optimizer steps, on a terminal; a pipe gets notices alone."""

    def __init__(self, console: Console) -> None:
        self.bar = Progress(
            TextColumn("step {task.completed}/{task.total}"),
            BarColumn(),
            TextColumn("loss {task.fields[loss]}"),
            TimeRemainingColumn(),
            console=console,
        )

    def event(self, record: dict[str, Any]) -> None:
        super().event(record)
        kind = record["event"]
        if kind == "run_started":
            self.bar.start()
            self.task = self.bar.add_task("", total=record["steps"], loss="-")
        elif kind == "checkpoint_restored":
            self.bar.update(self.task, completed=record["step"])
            self.say(f"goes on from {record['saved']['checkpoint']}")
        elif kind == "step":
            loss = f"{record['loss']:.4f}"
            self.bar.update(self.task, completed=record["step"], loss=loss)
        elif kind == "update_skipped":
            self.say(f"step {record['step']} skipped: fp16 overflow")

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self.bar.console.print(text, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Give the terminal back."""
        self.bar.stop()
