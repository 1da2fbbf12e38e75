"""Of several ranks that failed, the first is the one to blame; and none is
waited for longer than it may be."""

import os
import threading
import time
from pathlib import Path

import pytest

from lockstep.grading import ranks
from lockstep.grading.ranks import OutOfTimeError, RankError, at_most
from tests.ranks import Ranks


def fail() -> None:
    """Rank 1 raises; then rank 0, as if it had lost the other."""
    if os.environ["RANK"] == "0":
        time.sleep(0.5)
        raise RuntimeError("Connection closed by peer")
    raise ValueError("the cause")


def test_the_first_error_is_told_though_another_is_there_too() -> None:
    started = Ranks(2, fail)
    for pipe in started.pipes:
        assert pipe.poll(60)
    with pytest.raises(RankError) as told:
        started.results()
    assert told.value.cause == ("ValueError", "the cause")


def hang() -> None:
    threading.Event().wait()


def test_all_ranks_within_a_limit_have_no_more_than_it_together() -> None:
    with at_most(0.5):
        for _ in range(2):
            with pytest.raises(OutOfTimeError) as told:
                Ranks(1, hang).results(60)
            assert told.value.seconds <= 0.5
    assert told.value.seconds == 0
    assert Ranks(1, os.getpid).results(60)


def linger(file: Path) -> str:
    """A rank that answers, and whose thread goes on."""

    def write() -> None:
        threading.Event().wait(10)
        file.write_text("it was waited for")

    threading.Thread(target=write).start()
    return "answer"


def test_ranks_that_have_answered_and_do_not_leave_are_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ranks, "LEAVE", 0.1)
    assert Ranks(1, linger, tmp_path / "late").results(60) == ["answer"]
    assert not (tmp_path / "late").exists()
