"""What saving holds up is measured as it is said to be."""

from pathlib import Path
from typing import Any

import pytest

from lockstep.experiments.benchmarks import background_saving
from lockstep.experiments.benchmarks.background_saving import (
    Saving,
    measure,
    summary,
    tables,
)
from lockstep.trainer.checkpoint import published, verify
from tests import ranks

FOUND: dict[str, Any] = {
    "settings": {"hidden_size": 9, "pairs": 4, "steps_between": 5},
    "machine": dict.fromkeys(
        ("processor", "cores", "memory", "system", "file system"), "x"
    ),
    "versions": {"torch": "2"},
    "date": "today",
    "revision": "abc",
    "ranks": 2,
    "parameters": 100_000_000,
    "bytes": 1_200_000_000,
    "blocked": {
        "foreground": [99.0, 8.0, 10.0, 12.0],
        "background": [5.0, 0.8, 0.5, 1.2],
    },
    "wrote": [99.0, 9.0, 11.0, 13.0],
    "steps": {"alone": [2.0, 1.0, 3.0], "beside": [3.0, 3.0, 4.0]},
}


def test_pairs_are_compared_and_the_first_is_left_out() -> None:
    summed = summary(FOUND)
    assert summed["foreground"]["median"] == 10
    assert summed["background"]["median"] == 0.8
    assert summed["first_copy"] == 5
    assert summed["ratio"]["median"] == pytest.approx(0.1)
    assert summed["write"]["median"] == 11
    assert summed["slowdown"] == 1.5


def test_tables_say_what_was_found() -> None:
    text = tables({**FOUND, "summary": summary(FOUND)})
    assert "| 1.20 GB | 10.00 (9.00–11.00) s | 0.80" in text
    assert "0.100 (" in text
    assert "| 1.50 |" in text
    assert "100.0 million parameters, 2 ranks" in text


def test_a_run_saves_in_turn_and_whole(tmp_path: Path) -> None:
    (found,) = ranks.run_ranks(
        1, measure, Saving(64, pairs=3, steps_between=2), tmp_path
    )
    assert [len(seconds) for seconds in found["blocked"].values()] == [3, 3]
    assert len(found["wrote"]) == 3
    # The first step has no beginning that was seen.
    alone, beside = found["steps"]["alone"], found["steps"]["beside"]
    assert 0 < len(alone) + len(beside) <= 11
    (last,) = published(tmp_path / "checkpoints")
    assert verify(last)["step"] == 12
    assert found["parameters"] == 64 * 64 + 64 * 64 + 64 * 10 + 64 + 64 + 10


def test_the_committed_result_holds_a_tenth() -> None:
    """Of the loop's time, by the committed measurement."""
    import json

    found = json.loads(background_saving.RESULT.read_text())
    assert found["parameters"] > 99_000_000
    assert found["summary"] == summary(found)
    assert background_saving.RESULT.with_suffix(".md").read_text() == tables(
        found
    )
    assert "dirty" not in found["revision"]
