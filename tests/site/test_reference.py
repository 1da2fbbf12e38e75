"""The API reference names every public module and says what it can."""

from __future__ import annotations

import pytest
from bs4 import BeautifulSoup

from lockstep.site.pages import api
from lockstep.site.pages.snippets import site_config

from .conftest import ROOT, Site

PAGES = ROOT / "docs" / "reference" / "api"
PACKAGE = ROOT / "code" / "lockstep"
PUBLIC = [
    PACKAGE / "interview.py",
    *(PACKAGE / "bio").glob("*.py"),
    *(PACKAGE / "bio/smiles").glob("*.py"),
    *(PACKAGE / "cli").rglob("*.py"),
    *(PACKAGE / "exam").glob("*.py"),
    *(PACKAGE / "experiments/fleet").glob("[!_t]*.py"),  # not its tables
    PACKAGE / "pieces.py",
    *(PACKAGE / "parallel").rglob("*.py"),
    *(PACKAGE / "planner").rglob("*.py"),
    *(PACKAGE / "trainer").rglob("*.py"),
]

pytestmark = pytest.mark.xdist_group("site")


def text(site: Site, module: str) -> str:
    """What a reader sees of a module, on one line."""
    folder = module.removeprefix("lockstep.").replace(".", "/")
    page = site.pages()[f"reference/api/{folder}/"]
    article = page.partition("<article")[2].partition("</article>")[0]
    shown = BeautifulSoup(f"<article{article}", "html.parser")
    return " ".join(shown.get_text().split())


def test_every_public_module_has_a_page_of_its_own(site: Site) -> None:
    modules = {
        ".".join(["lockstep", *path.relative_to(PACKAGE).with_suffix("").parts])
        for path in PUBLIC
        if path.stem != "__init__"
    }
    pages = api.modules(site_config(ROOT).nav)
    assert set(pages.values()) == modules
    for module in modules:
        assert text(site, module).startswith(module)


def test_a_page_that_says_more_than_the_name_is_kept(site: Site) -> None:
    written = {
        path.relative_to(PAGES).as_posix() for path in PAGES.rglob("*.md")
    }
    assert written == {"index.md", "trainer/telemetry.md"}
    assert "observers: list[Observer]" in text(
        site, "lockstep.trainer.telemetry"
    )


def test_page_shows_signatures_and_docstrings(site: Site) -> None:
    shown = text(site, "lockstep.trainer.order")
    assert shown.startswith("lockstep.trainer.order")
    assert "Which sample is next" in shown
    assert "permute(index: ndarray, epoch: int, back: bool" in shown


def test_page_shows_what_no_docstring_holds(site: Site) -> None:
    config = text(site, "lockstep.trainer.config")
    assert "Samples per step, all ranks" in config  # a comment
    process = text(site, "lockstep.trainer.process")
    assert "rank: int" in process  # a NamedTuple
