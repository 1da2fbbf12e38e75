"""Of several ranks that failed, the first is the one to blame."""

import os
import time

import pytest

from lockstep.exercises.grading.ranks import RankError
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
