"""The campaign's record holds what the page says of it."""

from pathlib import Path

import pytest

from lockstep.experiments.resume_mutants.__main__ import FAULTS, SOUND
from lockstep.experiments.resume_mutants.campaign import (
    known,
    note,
    relevant,
    report,
    shows_undisturbed,
)
from lockstep.experiments.resume_mutants.sound import VARIANTS


def test_recorded_faults_that_matter_are_found() -> None:
    """The exam finds 98 % of the random faults that change a run with restarts,
    among at least 150 that run undisturbed."""
    faults = known(FAULTS).values()
    assert sum(not shows_undisturbed(one) for one in faults) >= 150
    matter = [one for one in faults if relevant(one)]
    found = [one for one in matter if one["failed"] not in ("", "exam")]
    assert len(found) >= 0.98 * len(matter) > 40
    assert all(one["said"] for one in found)


def test_recorded_sound_variants_pass() -> None:
    """At least 30 sound variants end as their undisturbed runs, and the exam
    fails none of them."""
    variants = known(SOUND)
    assert len(variants) >= 30
    assert variants.keys() <= {f"{one.loop}: {one.name}" for one in VARIANTS}
    for one in variants.values():
        assert (one["shows"], one["failed"]) == ("", ""), one["name"]


@pytest.mark.parametrize(
    ("shows", "failed", "line"),
    [
        ("stopped: other final weights", "", "missed: x"),
        ("stopped: other final weights", "optimizer", "   1  optimizer"),
        ("undisturbed {}: exit code 1", None, "  run undisturbed      0"),
    ],
)
def test_a_report_names_what_was_missed(
    shows: str, failed: str | None, line: str, tmp_path: Path
) -> None:
    """One fault in the record, that the exam found, missed or was not asked
    about."""
    record = {"name": "x", "shows": shows}
    if failed is not None:
        record["failed"] = failed
    note(tmp_path / "faults", record)
    said = report(tmp_path / "faults", tmp_path / "sound").splitlines()
    assert line in said
    assert ("missed: x" in said) == (failed == "")
