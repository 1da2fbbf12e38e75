"""The record of how pages were read says what it has to."""

import re

import yaml

from lockstep.practice.bank import LOADER

from .conftest import ROOT

READINGS = yaml.load(
    (ROOT / "docs" / "readings.yml").read_text("utf-8"), LOADER
)


def test_a_reading_names_its_page_day_and_revision_and_how_marks_ended() -> (
    None
):
    """Each reading is of a page that is there, and each of its marks says what
    was read, what was wrong with it, and what became of it."""
    for one in READINGS:
        if "review" in one:
            continue
        assert (ROOT / "docs" / one["page"]).is_file(), one["page"]
        assert re.fullmatch(r"[0-9a-f]{7,}", str(one["revision"]))
        assert one["date"].year >= 2026
        assert one["how"]
        for mark in one["marks"]:
            assert mark.keys() == {"said", "mark", "mended"}, mark


def test_a_correction_says_what_was_found_and_where_it_was_fixed() -> None:
    """Each point of a review that holds names its evidence and the places that
    were fixed, or why it is left; each place is there."""
    reviews = [one for one in READINGS if "review" in one]
    assert len(reviews) > 10
    for one in reviews:
        assert one["date"]
        for point in one["points"]:
            assert point["point"]
            assert point["found"].startswith(("holds", "does not hold")), point
            if point["found"] == "holds":
                assert point.get("fixed") or point.get("left"), point
                assert point.get("evidence") or point.get("left"), point
            for place in point.get("fixed", []):
                path = ROOT / place.partition("#")[0].partition(" ")[0]
                assert path.exists(), place
