"""A rank that may die: a forked process, and what it said before."""

from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from signal import Signals
from typing import Any

FORK = get_context("fork")


class Rank:
    """`work(*args)` under way in a process of its own."""

    def __init__(self, work: Callable[..., object], *args: Any) -> None:
        self.words = FORK.SimpleQueue()
        self.process: BaseProcess = FORK.Process(
            target=self.say, args=(work, args)
        )
        self.process.start()

    def say(self, work: Callable[..., object], args: tuple[Any, ...]) -> None:
        """What `work` returns, or the first line of what it raises."""
        try:
            words = str(work(*args))
        except Exception as error:
            words = str(error)
        self.words.put(words.strip().partition("\n")[0])

    def said(self) -> str:
        """That, once it has ended; or the signal that ended it first."""
        self.process.join()
        code = self.process.exitcode or 0
        return Signals(-code).name if code < 0 else str(self.words.get())
