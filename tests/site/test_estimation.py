"""The estimation page, as somebody practices on it."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, Page, expect

from lockstep.practice.estimates import (
    FIRST,
    examples,
    generate,
    worked,
)
from lockstep.practice.kinds import KINDS

from .conftest import Site
from .test_browser import (
    WIDER_THAN_THE_SCREEN,
    Visit,
    browser,  # noqa: F401 - a fixture
)

pytestmark = pytest.mark.xdist_group("site")

HERE = "practice/estimation/"
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
PHONE: Any = {"width": 360, "height": 740}


def asks(page: Page, kind: str, seed: int) -> None:
    """The page shows this question, and its derivation folded away."""
    card = generate(kind, seed)
    expect(page.locator(".estimates-question")).to_have_text(card["question"])
    told = page.locator(".estimates-worked")
    expected = BeautifulSoup(worked(card), "html.parser")
    # A digit that is halfway may be rounded to the other side in a browser.
    shown = told.evaluate("one => one.textContent")
    assert NUMBER.sub("#", shown) == NUMBER.sub("#", expected.get_text())
    expect(told.locator("code").first).to_be_hidden()


def asked(page: Page) -> tuple[str, int]:
    """What the address asks."""
    query = parse_qs(urlsplit(page.url).query)
    return query["kind"][0], int(query["seed"][0])


def test_an_estimate_is_checked_and_its_derivation_unfolds(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    with Visit(browser, site) as visit:
        page = visit.open(f"{HERE}?kind=mtbf&seed=2")
        asks(page, "mtbf", 2)
        hours = generate("mtbf", 2)["value"] / 3600
        said = page.locator(".estimates-verdict")
        typed = page.get_by_label("Your estimate")
        for text, right, words in (
            (f"{hours:.3g} h", "true", "within a factor of 1.5"),
            (f"{hours / 3:.3g} h", "false", "times too low, not within"),
            (f"{hours * 3:.3g} h", "false", "times too high, not within"),
            ("<b>", "null", "<b> is no estimate here; type one as 40 ms"),
            ("", "null", "nothing is no estimate here"),
        ):
            typed.fill(text)
            page.get_by_role("button", name="Check").click()
            expect(said).to_contain_text(words)
            expect(said).to_have_attribute("data-right", right)
        page.locator(".estimates-worked summary").click()
        formula = page.locator(".estimates-worked code").first
        expect(formula).to_be_visible()
        expect(formula).to_have_text("= 3600 * gpu_mtbf_hours / gpus")
        visit.assert_clean("estimation")


def test_it_is_used_by_keyboard_and_the_address_keeps_the_question(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    """The page is used by keyboard alone, and reloading its address shows the
    same question."""
    with Visit(browser, site) as visit:
        page = visit.open(HERE)
        asks(page, *FIRST)
        visit.assert_clean("estimation")
        assert not any("micropython" in url for url in visit.requests)
        page.get_by_label("Your estimate").focus()
        page.keyboard.type("80 GB")
        page.keyboard.press("Enter")
        expect(page.locator(".estimates-verdict")).to_contain_text("80 GB is")
        next_one = page.get_by_role("button", name="Next question")
        expect(next_one).to_be_focused()
        page.keyboard.press("Enter")
        page.wait_for_url("**/?kind=*")
        kind, seed = asked(page)
        asks(page, kind, seed)
        typed = page.get_by_label("Your estimate")
        expect(typed).to_be_focused()
        expect(typed).to_have_value("")
        expect(page.locator(".estimates-verdict")).to_be_empty()
        page.reload()
        asks(page, kind, seed)
        choice = page.get_by_label("Ask for")
        choice.focus()
        page.keyboard.press("End")
        page.wait_for_url(f"**/?kind={[*KINDS][-1]}&seed=*")
        asks(page, *asked(page))
        page.locator(".estimates-worked summary").focus()
        page.keyboard.press("Enter")
        expect(page.locator(".estimates-worked code").first).to_be_visible()


def test_a_wrong_address_still_asks(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    with Visit(browser, site) as visit:
        page = visit.open(f"{HERE}?kind=poem&seed=5")
        asks(page, FIRST[0], 5)
        page = visit.open(f"{HERE}?kind=mtbf&seed=-1")
        page.wait_for_url("**/?kind=mtbf&seed=*")
        page.wait_for_function("() => !location.search.includes('-')")
        asks(page, *asked(page))
        visit.assert_clean("estimation")


def test_it_fits_a_narrow_phone(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    """On a screen of 360 pixels nothing of the page is wider than the
    screen."""
    with Visit(browser, site, viewport=PHONE) as visit:
        page = visit.open(f"{HERE}?kind=ddp-exposed&seed=3")
        asks(page, "ddp-exposed", 3)
        page.evaluate(
            "document.querySelectorAll('details').forEach(d => d.open = true)"
        )
        assert page.evaluate(WIDER_THAN_THE_SCREEN.replace("391", "361")) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_without_scripts_there_are_worked_examples(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    with Visit(browser, site, java_script_enabled=False) as visit:
        page = visit.page
        page.goto(site.address + HERE)
        expect(page.locator("form.estimates")).to_be_hidden()
        for card in examples():
            shown = page.locator("article > p", has_text=card["question"])
            expect(shown).to_be_visible()
        folds = page.locator("article > details.estimates-fold")
        expect(folds).to_have_count(len(examples()))
        folds.first.locator("summary").click()
        expect(folds.first.locator("code").first).to_be_visible()
