"""The pages of a design round, as two people use them."""

import datetime as dt
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from lockstep.practice.rounds import rounds
from lockstep.site.pages import rounds as pages

from .conftest import Site
from .test_browser import (
    Visit,
    browser,  # noqa: F401 - a fixture
)

pytestmark = pytest.mark.xdist_group("site-practice")
ONE = next(iter(rounds().values()))
ADDRESS = f"{pages.HOME}/{ONE.id}/"
NOW = dt.datetime(2026, 11, 26, 9, tzinfo=dt.UTC)


def test_the_candidate_sees_no_answer(site: Site) -> None:
    """The candidate's page has the prompt and no word of what holds."""
    page = site.pages()[f"{ADDRESS}candidate/"]
    assert " ".join(ONE.question.split())[:40] in " ".join(page.split())
    assert "How it is scored" not in page
    for heard in ONE.stages["numbers"].listen:
        assert heard not in page


def test_the_interviewers_clock_names_the_stage(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    """The clock goes from stage to stage, pauses, and says when it is over."""
    with Visit(browser, site) as visit:
        visit.page.clock.install(time=NOW)
        page = visit.open(f"{ADDRESS}interviewer/")
        timer = page.get_by_role("timer")
        expect(timer).to_contain_text(f"left of {ONE.minutes}:00")
        page.get_by_role("button", name="Start the clock").click()
        page.clock.run_for(60_000)
        expect(page.locator(".mock-stages [aria-current]")).to_contain_text(
            "What to ask first"
        )
        page.clock.run_for(ONE.stages["requirements"].minutes * 60_000)
        expect(page.get_by_role("status")).to_have_text("Now: The numbers.")
        page.get_by_role("button", name="Pause").click()
        before = timer.text_content() or ""
        page.clock.run_for(60_000)
        expect(timer).to_have_text(before)
        page.get_by_role("button", name="Go on").click()
        page.clock.run_for(ONE.minutes * 60_000)
        expect(page.get_by_role("status")).to_have_text("Time is over.")
        visit.assert_clean("interviewer")


def test_the_score_sheet_is_saved(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    """Each line has a level or was not reached; the file has the notes too."""
    with Visit(browser, site, viewport={"width": 360, "height": 740}) as visit:
        page = visit.open(f"{ADDRESS}interviewer/")
        first = page.locator(".mock-score fieldset").first
        first.get_by_label("staff").check()
        page.get_by_label("What you heard").fill("It said why.")
        with page.expect_download() as waiting:
            page.get_by_role("button", name="Save the score").click()
        text = Path(waiting.value.path()).read_text()
        assert f"- {ONE.rubric[0].name}: staff" in text
        assert f"- {ONE.rubric[1].name}: not reached" in text
        assert "It said why." in text
        assert text.startswith(f"# {ONE.title}")


def test_without_scripts_the_sheet_is_a_table(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    with Visit(browser, site, java_script_enabled=False) as visit:
        page = visit.open(f"{ADDRESS}interviewer/")
        expect(page.locator(".score-sheet table")).to_be_visible()


def test_a_mock_interview_can_be_about_each_round(site: Site) -> None:
    """The page of the mock interview links each candidate's page."""
    page = site.pages()["practice/mock-interview/"]
    for name in rounds():
        assert f"../rounds/{name}/candidate/" in page
