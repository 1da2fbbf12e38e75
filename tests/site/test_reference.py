"""The API reference names every public module and says what it can."""

from __future__ import annotations

from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from .conftest import ROOT, Site

PAGES = ROOT / "docs" / "reference" / "api"
PACKAGE = ROOT / "code" / "lockstep"
PUBLIC = [
    PACKAGE / "interview.py",
    *(PACKAGE / "bio").glob("*.py"),
    *(PACKAGE / "bio/smiles").glob("*.py"),
    *(PACKAGE / "cli").rglob("*.py"),
    *(PACKAGE / "parallel").rglob("*.py"),
    *(PACKAGE / "planner").rglob("*.py"),
    *(PACKAGE / "trainer").rglob("*.py"),
]

pytestmark = pytest.mark.xdist_group("site")


def name(page: Path) -> str:
    """The module that a page describes."""
    return ".".join(
        ["lockstep", *page.relative_to(PAGES).with_suffix("").parts]
    )


def text(site: Site, module: str) -> str:
    """What a reader sees of a module, on one line."""
    folder = module.removeprefix("lockstep.").replace(".", "/")
    page = BeautifulSoup(
        site.pages()[f"reference/api/{folder}/"], "html.parser"
    )
    [article] = page.select("article")
    return " ".join(article.get_text().split())


def test_every_public_module_has_a_page_of_its_own() -> None:
    modules = {
        ".".join(["lockstep", *path.relative_to(PACKAGE).with_suffix("").parts])
        for path in PUBLIC
        if path.stem != "__init__"
    }
    pages = {page for page in PAGES.rglob("*.md") if page.stem != "index"}
    assert {name(page) for page in pages} == modules
    for page in pages:
        assert page.read_text("utf-8").startswith(f"::: {name(page)}\n")


def test_page_shows_signatures_and_docstrings(site: Site) -> None:
    shown = text(site, "lockstep.trainer.order")
    assert shown.startswith("lockstep.trainer.order")
    assert "Which sample is next" in shown
    assert "permute(index: ndarray, epoch: int, back: bool" in shown


def test_page_shows_what_no_docstring_holds(site: Site) -> None:
    config = text(site, "lockstep.trainer.config")
    assert "micro x accumulation x ranks" in config  # a comment
    process = text(site, "lockstep.trainer.process")
    assert "rank: int" in process  # a NamedTuple
