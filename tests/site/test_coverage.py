"""Every point that the pages have to answer is answered, or named as due."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import yaml

from .conftest import ROOT, Attributes, Reader, Site

POINTS: dict[str, dict[str, str]] = yaml.safe_load(
    (ROOT / "tests" / "data" / "coverage-points.yml").read_text("utf-8")
)
ANSWERS: dict[str, dict[str, Any]] = yaml.safe_load(
    (ROOT / "docs" / "coverage.yml").read_text("utf-8")
)
DUE = [group for group, found in ANSWERS.items() if "due" not in found]


def test_every_group_is_answered_or_due() -> None:
    assert ANSWERS.keys() == POINTS.keys()
    for group in ANSWERS.keys() - DUE:
        assert ANSWERS[group]["due"] == "later"
        page = ROOT / "docs" / ANSWERS[group]["page"]
        assert not page.exists(), f"{group}: its page is there, map its points"


@pytest.mark.parametrize("group", DUE)
def test_every_point_has_an_anchor(group: str) -> None:
    assert ANSWERS[group].keys() == POINTS[group].keys()
    missing = [p for p, anchors in ANSWERS[group].items() if not anchors]
    assert missing == [], f"{group}: no anchor answers these"


class Named(Reader):
    """The ids of whatever stands in a page's article."""

    def __init__(self, html: str) -> None:
        self.ids: set[str | None] = set()
        super().__init__(html)

    def handle_starttag(self, tag: str, attrs: Attributes) -> None:
        self.ids |= {value for name, value in attrs if name == "id"}


@cache
def ids(html: str) -> set[str | None]:
    """Those of a page, read once."""
    return Named(html).ids


@pytest.mark.xdist_group("site")
@pytest.mark.parametrize("group", DUE)
def test_every_anchor_is_on_its_page(group: str, site: Site) -> None:
    pages = site.pages()
    for point, anchors in ANSWERS[group].items():
        for anchor in anchors:
            page, _, name = anchor.partition("#")
            address = page.removesuffix("index.md").replace(".md", "/")
            assert name in ids(pages.get(address, "")), f"{point}: {anchor}"
