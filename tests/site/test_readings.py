"""The record of how pages were read says what it has to."""

import re

import yaml

from .conftest import ROOT

READINGS = yaml.safe_load((ROOT / "docs" / "readings.yml").read_text("utf-8"))


def test_a_reading_names_its_page_day_and_revision_and_how_marks_ended() -> (
    None
):
    """Each reading is of a page that is there, and each of its marks says what
    was read, what was wrong with it, and what became of it."""
    for one in READINGS:
        assert (ROOT / "docs" / one["page"]).is_file(), one["page"]
        assert re.fullmatch(r"[0-9a-f]{7,}", str(one["revision"]))
        assert one["date"].year >= 2026
        assert one["how"]
        for mark in one["marks"]:
            assert mark.keys() == {"said", "mark", "mended"}, mark
