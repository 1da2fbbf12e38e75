"""Proof marks: what they name is there, and says what it holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from lockstep.site.pages import proof_marks
from lockstep.site.pages.blocks import pages
from lockstep.site.pages.proof_marks import UnknownProofError
from tests.conftest import ROOT

from .conftest import Site
from .test_browser import (
    Visit,
    browser,  # noqa: F401 - a fixture
)

MODULE = '''\
def test_it_holds() -> None:
    """It holds, whoever
    asks.

    More is not shown."""


def test_says_nothing() -> None:
    pass


class TestGroup:
    def test_inside(self) -> None:
        """A method holds as well."""
'''


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with two test modules, of one function in common."""
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_a.py").write_text(MODULE)
    (folder / "test_b.py").write_text(
        'def test_twice() -> None:\n    """B holds."""\n'
    )
    (folder / "test_c.py").write_text(
        'def test_twice() -> None:\n    """C holds."""\n'
    )
    (tmp_path / "run.txt").write_text("12 s\n")
    return tmp_path


def test_a_mark_leads_to_its_entry_and_a_number_is_used_once(
    root: Path,
) -> None:
    """Two sentences share a proof: one entry, whose number both marks have."""
    text = "One. [✓ test_it_holds]\nTwo. [✓ test_it_holds; test_inside]\n"
    shown = proof_marks.marked(text, "https://x/blob", root)
    assert shown.count('href="#proof-1" data-proofs="1"') == 1
    assert shown.count('href="#proof-1" data-proofs="1 2"') == 1
    assert "One.<a" in shown  # no space: the mark is not torn from its sentence
    _, _, listed = shown.partition(proof_marks.FOLD)
    assert listed.split("\n")[2:-3] == [
        "1.  It holds, whoever asks."
        " Run `pytest tests/test_a.py::test_it_holds`,"
        " or [read it](https://x/blob/tests/test_a.py#L1).",
        "    { #proof-1 .proof-entry }",
        "2.  A method holds as well. Run"
        " `pytest tests/test_a.py::TestGroup::test_inside`,"
        " or [read it](https://x/blob/tests/test_a.py#L13).",
        "    { #proof-2 .proof-entry }",
    ]


def test_a_mark_below_a_table_or_a_fence_leaves_it_whole(root: Path) -> None:
    """A mark that begins a paragraph stays out of the table or the block of
    code above it. One that begins a line joins the line before."""
    table = "| a |\n|---|\n| 1 |\n"
    fence = "```text\nx\n```\n"
    text = f"{table}\n[✓ test_it_holds]\n\n{fence}[✓ test_inside]\n"
    text += "\nSaid.\n[✓ test_it_holds]\n"
    shown = proof_marks.marked(text, "https://x", root)
    assert f"{table}\n" in shown
    assert fence in shown
    assert "Said.<a" in shown or "Said.[" in shown


def test_runs_and_sources_say_what_they_hold(root: Path) -> None:
    """A file is linked in the repository, an address where it is."""
    text = (
        '[✓ run.txt "The time of a\nrun"; https://a.b/c "A paper; its table"]'
    )
    shown = proof_marks.marked(text, "https://x", root)
    assert "1.  The time of a run: [as recorded](https://x/run.txt)." in shown
    assert "2.  [A paper; its table](https://a.b/c)." in shown


def test_a_page_without_marks_is_left_alone(root: Path) -> None:
    """No list is added, and a mark within a block of code is text."""
    text = "Nothing.\n\n```text\n[✓ test_unknown]\n```\n"
    assert proof_marks.marked(text, "", root) == text


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ("test_nowhere", "'test_nowhere' is to name one test: none"),
        (
            "test_twice",
            "one test: tests/test_b.py::test_twice,"
            " tests/test_c.py::test_twice",
        ),
        ("test_says_nothing", "does not say what it asserts"),
        ("no.txt", "say in quotes what it holds"),
        ('no.txt "A run"', "there is no test, run or source 'no.txt'"),
    ],
)
def test_a_mark_that_holds_nothing_is_refused(
    mark: str, said: str, root: Path
) -> None:
    """The build ends with what is wrong."""
    with pytest.raises(UnknownProofError, match=said):
        proof_marks.marked(f"Said. [✓ {mark}]", "", root)


def test_a_file_tells_two_tests_of_one_name_apart(root: Path) -> None:
    """A mark may name the file, or its end, before the function."""
    shown = proof_marks.marked("[✓ test_c.py::test_twice]", "", root)
    assert "C holds." in shown
    whole = proof_marks.marked("[✓ tests/test_b.py::test_twice[a-1]]", "", root)
    assert "B holds." in whole


def test_every_mark_of_every_page_holds() -> None:
    """What a strict build would refuse is found without one."""
    assert [*proof_marks.faults(pages(ROOT), ROOT)] == []


@pytest.mark.xdist_group("site")
def test_a_mark_opens_in_place_by_keyboard(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    """On the built page Enter on a mark opens the entry of the list right
    there, Escape closes it, and its name tells a screen reader its number."""
    with Visit(browser, site) as visit:
        page = visit.open("reference/explorables/")
        mark = page.locator("a.proof").first
        expect(mark).to_have_accessible_name("Proof 1")
        mark.focus()
        expect(mark).to_have_attribute("aria-expanded", "false")
        mark.press("Enter")
        box = page.locator(".proof-box")
        entry = page.locator("#proof-1").inner_text()
        expect(box).to_contain_text(entry)
        expect(box).to_contain_text("Run pytest tests/")
        expect(mark).to_have_attribute("aria-expanded", "true")
        box.locator("a").focus()
        page.keyboard.press("Escape")
        expect(box).to_have_count(0)
        expect(mark).to_be_focused()
        visit.assert_clean("a mark")


@pytest.mark.xdist_group("site")
def test_a_mark_without_javascript_leads_to_the_list(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    """It is a link that unfolds the evidence at its entry. On paper it shows
    its number, and the evidence stays away."""
    with Visit(browser, site, java_script_enabled=False) as visit:
        page = visit.page
        page.goto(f"{site.address}reference/explorables/")
        mark = page.locator("a.proof").first
        expect(mark.locator("sup")).to_be_hidden()
        expect(page.locator("#proof-1")).to_be_hidden()
        mark.click()
        assert page.url.endswith("#proof-1")
        expect(page.locator("#proof-1")).to_be_visible()
        page.emulate_media(media="print")
        expect(mark.locator("sup")).to_be_visible()
        expect(page.locator("#proof-list")).to_be_hidden()
