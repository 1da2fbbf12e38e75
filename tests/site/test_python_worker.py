"""The worker that runs Python answers every question, and goes on after a bad
one: on the planner's page, in an explorable, on estimation and on cards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Error, Page, Route, expect

from lockstep.practice.browser import ROOMS
from lockstep.practice.estimates import generate
from tests.practice.test_browser import STRANGE, WEDGED

from .conftest import Site
from .test_browser import (
    Visit,
    browser,  # noqa: F401 - a fixture
    planner_says,
)
from .test_estimation import asks

pytestmark = pytest.mark.xdist_group("site-pictures")

_, PLANNER, EXPLORE, ESTIMATES = ROOMS
SOUND = {"params": 7.5e9, "dp": 64, "zero_stage": 1}
# Counts the questions, and what workers say to them.
COUNTED = """
window.told = {asked: 0, said: 0};
const { postMessage } = Worker.prototype;
Worker.prototype.postMessage = function (question) {
  told.asked += 1;
  if (!this.heard) this.addEventListener("message", ({ data }) => {
    if (!data.begun) told.said += 1;
  });
  this.heard = true;
  return postMessage.call(this, question);
};
"""
ASK = """(question) => askPython(...question)
  .then((said) => ({ said }), ({ message }) => ({ why: message }))"""


@contextmanager
def visiting(browser: Browser, site: Site) -> Iterator[Visit]:  # noqa: F811
    """A visit, at whose end every question has exactly one answer."""
    with Visit(browser, site) as visit:
        visit.context.add_init_script(COUNTED)
        yield visit
        visit.page.wait_for_function("() => told.asked === told.said")
        assert visit.page.evaluate("told.asked")


def ask(page: Page, *question: Any) -> dict[str, Any]:
    """What the page's own function answers."""
    found: dict[str, Any] = page.evaluate(ASK, list(question))
    return found


def test_the_planner_answers_after_a_question_that_has_no_answer(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    """The link that wedged the page says what is wrong and what is right; the
    next input is answered without a reload."""
    with visiting(browser, site) as visit:
        page = visit.open(f"planner/?{urlencode({'ask': 'goodput', **WEDGED})}")
        refused = page.locator(".planner-shown").get_by_role("alert")
        expect(refused).to_contain_text("--gpu-mtbf-hours is 1e308; it must be")
        shown = page.locator(".planner-shown")
        shown.get_by_label("hours between").fill("50000")
        shown.get_by_label("seconds that a save").fill("60")
        given = {"gpus": 8192, "gpu_mtbf_hours": 50000, "save_seconds": 60}
        planner_says(page, "goodput", **given, restart_seconds=64)


def test_an_explorable_answers_after_a_bad_link(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    with visiting(browser, site) as visit:
        page = visit.open("reference/explorables/?loader=load:1e308,workers:x")
        shown = page.locator("figure#loader")
        shown.scroll_into_view_if_needed()
        expect(shown).to_have_attribute("data-shown", "")
        page.locator("#loader-fed").click()
        expect(shown).to_have_attribute("data-shown", "workers:4")
        expect(shown.locator(".explore-told")).to_contain_text("The GPU waits")


def test_an_estimate_is_judged_after_one_that_is_none(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    with visiting(browser, site) as visit:
        page = visit.open("practice/estimation/?kind=params&seed=2")
        asks(page, "params", 2)
        typed, said = page.get_by_label("Your"), page.get_by_role("status")
        for text in ("1e299 trillion", "1e-320"):
            typed.fill(text)
            page.get_by_role("button", name="Check").click()
            expect(said).to_contain_text(f"{text} is no estimate here; type")
        typed.fill(f"{generate('params', 2)['value']:.3g}")
        page.get_by_role("button", name="Check").click()
        expect(said).to_have_attribute("data-right", "true")


def test_what_no_page_asks_is_answered_too(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    """Strange questions, all at once, between sound ones: each answer belongs
    to its question."""
    sound = [ESTIMATES, "mtbf", 2, ""]
    strange: list[Any] = [[], [None], ["os"], [PLANNER], [EXPLORE, "x", "", 1]]
    strange += [[PLANNER, "goodput", text, True] for text in ("{", "[]")]
    strange += [[ESTIMATES, "mtbf", 2, text] for text in STRANGE]
    asked = [one for each in strange for one in (each, sound)]
    with visiting(browser, site) as visit:
        page = visit.open("practice/cards/")
        found = page.evaluate(
            f"(asked) => Promise.all(asked.map({ASK}))", asked
        )
        question = generate("mtbf", 2)["question"]
        assert all(one["said"]["question"] == question for one in found[1::2])
        refused = found[: 2 * 7 : 2]
        assert all(set(one) == {"why"} and one["why"] for one in refused)


def test_python_that_died_or_did_not_come_is_started_again(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    """While its files cannot be fetched the page says so; then it answers, even
    when what was half loaded arrives after the new Python."""
    sound = [ESTIMATES, "mtbf", 2, ""]
    down = True
    late: list[Route] = []

    def fetched(route: Route) -> None:
        if down:
            route.fulfill(status=503, body="down")
        else:
            route.continue_()

    def held(route: Route) -> None:
        if down:
            late.append(route)
        else:
            route.continue_()

    with visiting(browser, site) as visit:
        visit.context.route("**/python-files.json", fetched)
        visit.context.route("**/micropython.wasm", held)
        page = visit.open("planner/")
        assert "Python does not run here" in ask(page, *sound)["why"]
        shown = page.locator(".planner-shown")
        gpus = shown.get_by_label("GPUs", exact=True)
        gpus.fill("256")
        expect(shown.get_by_role("alert")).to_contain_text("try again")
        down = False
        gpus.fill("512")
        expect(shown.locator(".planner-row").first).to_be_visible()
        assert late
        with suppress(Error):  # nobody waits for it: its worker has ended
            for route in late:
                route.continue_()
        page.wait_for_timeout(500)
        assert ask(page, *sound)["said"]["question"]


def test_what_does_not_end_is_ended(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    """A question that computes for too long is refused, and those that wait
    behind it are answered."""
    endless = """
from lockstep.practice import browser
def endless(text):
    while "endless" in text:
        pass
    return found(text)
found, browser.answered = browser.answered, endless
"""
    with Visit(browser, site) as visit:
        page = visit.page

        def slow(route: Route) -> None:
            text = route.fetch().text()
            start = 'runtime.runPython("from lockstep.practice.browser'
            assert start in text
            run = f"runtime.runPython({endless!r});\n"
            route.fulfill(
                body=text.replace(start, run + start),
                content_type="text/javascript",
            )

        def hasty(route: Route) -> None:
            text = route.fetch().text()
            assert "10_000" in text
            route.fulfill(
                body=text.replace("10_000", "1_000"),
                content_type="text/javascript",
            )

        visit.context.route("**/python-worker.js", slow)
        visit.context.route("**/python.js", hasty)
        page.goto(site.address + "planner/")
        sound = [ESTIMATES, "mtbf", 2, ""]
        asked = [["endless"], sound, sound]
        found = page.evaluate(
            f"(asked) => Promise.all(asked.map({ASK}))", asked
        )
        assert "takes too long" in found[0]["why"]
        assert all(one["said"]["question"] for one in found[1:])
