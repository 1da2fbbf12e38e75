"""Cards and the mock interview, as somebody uses them in a browser."""

from __future__ import annotations

import datetime as dt
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, Locator, Page, Route, expect

from lockstep.practice import rubric
from lockstep.practice.bank import TOPICS
from lockstep.practice.estimates import generate
from lockstep.practice.kinds import KINDS
from tests.conftest import daily

from .conftest import ROOT, Site
from .test_browser import (
    SCHEMES,
    WIDER_THAN_THE_SCREEN,
    Visit,
    browser,  # noqa: F401 - a fixture
)

pytestmark = pytest.mark.xdist_group("site-practice")

CARDS, MOCK = "practice/cards/", "practice/mock-interview/"
STUDY = "practice/"
NOW = dt.datetime(2026, 11, 23, 9, tzinfo=dt.UTC)
PHONE: Any = {"width": 360, "height": 740}
SIZES = {"phone": PHONE, "desk": {"width": 1280, "height": 800}}
RUBRIC = rubric.load()
DAY = 24 * 60  # minutes
TALK = [
    {
        "ask": "<p>And sharded?</p>",
        "reply": "<p>An eighth.</p>",
        "then": [
            {"ask": "<p>Of what?</p>", "reply": "<p>All.</p>", "then": []}
        ],
    },
    {"ask": "<p>And in bf16?</p>", "reply": "<p>Less.</p>", "then": []},
]


def question(
    name: str,
    topic: str,
    level: str,
    tier: str = "traps",
    kind: str = "traps",
) -> dict[str, Any]:
    """A question as the site's build writes it."""
    link = '<a href="concepts/memory/#state">state</a>'
    return {
        "id": name,
        "topic": topic,
        "level": level,
        "title": f"Title of {name}",
        "page": f"practice/questions/{name}/",
        "question": f"<p>What of {name}?</p>",
        "tier": tier,
        "kind": kind,
        "parts": [
            ["Weak", f"<p>weak {name}</p>"],
            ["Strong", f"<p>strong {name}: {link}</p>"],
            ["Say it", f"<p>say {name}</p>"],
        ],
        "pushed": 3,
        "pushbacks": TALK,
    }


QUESTIONS = [
    question("bytes", "memory", "staff"),
    question("peak", "memory", "senior"),
    question("trace", "performance", "staff"),
    question("kill", "faults", "staff"),
    question("ranks", "processes", "senior"),
    question("why", "interview", "staff"),
    question("pager", "operations", "principal"),
]


def site_address(target: str) -> str:
    """A page of docs/ as an address below the site's."""
    return re.sub(r"(index)?\.md", "/", target).replace("//", "/")


TOLD = "parts", "pushbacks"


def bundle(questions: list[dict[str, Any]]) -> dict[str, Any]:
    """What a browser is given, by its address in assets/."""
    lines = [line.model_dump(by_alias=True) for line in RUBRIC.lines]
    for line in lines:
        line["links"] = [site_address(link) for link in line["links"]]
    named = {
        "topics": TOPICS,
        "renamed": {"octets": "bytes"},
        "levels": RUBRIC.levels,
        "stages": [stage.model_dump() for stage in RUBRIC.stages],
        "lines": lines,
        "questions": [
            {key: one[key] for key in one if key not in TOLD}
            for one in questions
        ],
    }
    told = {one["id"]: {key: one[key] for key in TOLD} for one in questions}
    return {
        "practice.json": named,
        **{f"practice/{name}.json": of for name, of in told.items()},
    }


def serve(visit: Visit, questions: list[dict[str, Any]]) -> None:
    """Answer as the site's build would with these questions."""
    given = bundle(questions)

    def answer(route: Route) -> None:
        _, _, name = route.request.url.partition("/assets/")
        route.fulfill(json=given[name])

    visit.context.route("**/assets/practice.json", answer)
    visit.context.route("**/assets/practice/*.json", answer)


@contextmanager
def visiting(
    browser: Browser,  # noqa: F811
    site: Site,
    page: str = CARDS,
    *,
    questions: list[dict[str, Any]] = QUESTIONS,
    **options: Any,
) -> Iterator[Visit]:
    """A tab with a tool of practice, whose clock stands."""
    with Visit(browser, site, **options) as visit:
        serve(visit, questions)
        visit.page.clock.set_fixed_time(NOW)
        visit.open(page)
        settled(visit.page)
        yield visit


def settled(page: Page) -> None:
    """Wait for the tool, and for an estimate that a worker draws."""
    expect(title(page)).to_be_visible()
    expect(page.locator(".practice [aria-busy=true]")).to_have_count(0)


def title(page: Page) -> Locator:
    return page.locator(".practice .practice-title")


def later(page: Page, minutes: float) -> None:
    """Set the clock to so many minutes after the start."""
    page.clock.set_fixed_time(NOW + dt.timedelta(minutes=minutes))


def kept(page: Page, name: str = "lockstep.cards") -> Any:
    return json.loads(
        page.evaluate("(name) => localStorage.getItem(name) ?? 'null'", name)
    )


def counts(page: Page, due: int, new: int, later: int) -> None:
    line = page.locator(".practice-counts")
    expect(line).to_have_text(f"{due} due, {new} new, {later} later")


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def only(page: Page, topic: str, kind: str = "question") -> None:
    """Ask cards of one topic and kind."""
    page.get_by_label("Topic").select_option(topic)
    page.get_by_label("Kind").select_option(kind)


def shown_id(page: Page) -> str:
    """The id of the question on the table."""
    return title(page).inner_text().removeprefix("Title of ")


# ts-fsrs itself, asked the same in the same browser.
SCHEDULED = """
async ([source, card, now, rating]) => {
  const { fsrs, createEmptyCard } = await import(source);
  const next = fsrs().next(card ?? createEmptyCard(now), now, rating);
  return JSON.parse(JSON.stringify(next.card));
}
"""


def scheduled(visit: Visit, card: Any, minutes: float, rating: int) -> Any:
    now = int((NOW.timestamp() + 60 * minutes) * 1000)
    source = visit.site.address + "assets/ts-fsrs/index.mjs"
    return visit.page.evaluate(SCHEDULED, [source, card, now, rating])


def test_the_site_publishes_ts_fsrs_as_it_is(
    site: Site, node_modules: Path
) -> None:
    package = node_modules / "ts-fsrs"
    assets = site.folder / "assets" / "ts-fsrs"
    module = (package / "dist" / "index.mjs").read_bytes()
    assert (assets / "index.mjs").read_bytes() == module
    license = (package / "LICENSE").read_bytes()
    assert (assets / "LICENSE").read_bytes() == license


def test_a_graded_card_comes_back_when_ts_fsrs_says(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    """A card that is learned, forgotten and learned again is kept and due
    exactly as ts-fsrs says."""
    with visiting(browser, site) as visit:
        page = visit.page
        only(page, "memory")
        counts(page, 0, 2, 0)
        first = shown_id(page)
        minutes, card = 0.0, None
        for rating in (3, 3, 3, 1, 2, 4):  # learnt, forgotten, learnt again
            later(page, minutes)
            page.reload()
            expect(title(page)).to_have_text(f"Title of {first}")
            press(page, "Space")
            wait = page.locator(".practice-bar small").nth(rating - 1)
            told = wait.inner_text()
            press(page, f"{rating}")
            expect(said(page)).to_contain_text(f"back in {told}.")
            card = scheduled(visit, card, minutes, rating)
            assert kept(page)["cards"][first] == card, f"{minutes} min"
            counts(page, 0, 1, 1)
            assert shown_id(page) != first
            due = dt.datetime.fromisoformat(card["due"])
            minutes = (due - NOW).total_seconds() / 60
        assert minutes > 2 * DAY
        visit.assert_clean("cards")


def test_a_grade_is_for_the_card_that_is_shown(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    with visiting(browser, site) as visit:
        page = visit.page
        only(page, "memory")
        first = shown_id(page)
        press(page, "Space", "1")  # back in a minute
        second = shown_id(page)
        press(page, "Space")
        later(page, 5)
        press(page, "3")
        cards = kept(page)["cards"]
        assert cards[first]["reps"] == cards[second]["reps"] == 1
        assert shown_id(page) == first


def test_the_core_is_asked_first(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    """A card of the core is the first, and a mock interview draws it where its
    topic belongs, before what else has that topic."""
    core = question("step", "memory", "senior", tier="core")
    with visiting(browser, site, questions=[*QUESTIONS, core]) as visit:
        assert shown_id(visit.page) == "step"
    with visiting(browser, site, MOCK, questions=[*QUESTIONS, core]) as visit:
        for draw in ("1", "2", "3"):
            begin(visit.page, draw=draw)
            session = kept(visit.page, "lockstep.mock")["session"]
            assert "step" in session["plan"]["scale"]
            give_up(visit.page)


def test_a_wait_ends_by_itself_or_is_cut_short(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    with visiting(browser, site) as visit:
        page = visit.page
        page.clock.install(time=NOW)
        page.reload()
        only(page, "processes")
        press(page, "Space", "1")
        expect(title(page)).to_have_text("Nothing is due")
        expect(page.locator(".practice-card")).to_contain_text("in 1 min")
        assert not kept(page)["cards"]["ranks"]["due"] < "2026-11-23T09:01"
        page.clock.fast_forward("01:01")
        expect(title(page)).to_have_text("Title of ranks")
        press(page, "Space", "4")
        page.get_by_role("button", name="Take it now").click()
        expect(title(page)).to_be_focused()
        press(page, "Space", "3")
        assert kept(page)["cards"]["ranks"]["reps"] == 3


def test_cards_are_used_by_keyboard(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    with visiting(browser, site) as visit:
        page = visit.page
        answer = page.get_by_role("group", name="Answer")
        press(page, "3", "u")  # nothing to grade, nothing to undo
        assert kept(page) is None
        only(page, "memory")
        topic = page.get_by_label("Topic")
        first = shown_id(page)
        topic.evaluate("box => box.blur()")
        press(page, "Space")
        expect(answer).to_be_focused()
        topic.focus()  # where a key is for the list
        press(page, "3")
        assert kept(page)["cards"] == {}
        topic.evaluate("box => box.blur()")
        for text in ("weak", "strong", "say"):
            expect(answer).to_contain_text(text)
        where = visit.site.address
        link = answer.get_by_role("link", name="state")
        expect(link).to_have_attribute("href", f"{where}concepts/memory/#state")
        own = answer.get_by_role("link", name="Its page")
        address = f"{where}practice/questions/{first}/"
        expect(own).to_have_attribute("href", address)
        press(page, "2")
        expect(title(page)).to_be_focused()
        counts(page, 0, 1, 1)
        press(page, "u")
        expect(title(page)).to_have_text(f"Title of {first}")
        assert kept(page)["cards"] == {}
        press(page, "u")  # once only
        expect(said(page)).to_contain_text("undone")
        press(page, "Space", "2")
        page.get_by_role("button", name="Undo").focus()
        press(page, "Space")
        expect(title(page)).to_have_text(f"Title of {first}")
        assert kept(page)["cards"] == {}
        # A focused button is pressed, and not the page's key as well.
        page.get_by_role("button", name="Show the answer").focus()
        press(page, "Space")
        expect(answer).to_be_focused()
        good = page.get_by_role("button", name="Good")
        good.focus()
        press(page, "Space")
        counts(page, 0, 1, 1)
        assert kept(page)["cards"][first]["reps"] == 1


def test_cards_are_chosen_by_topic_and_level(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    with visiting(browser, site) as visit:
        page = visit.page
        moves = len(prompts(site))
        everything = len(QUESTIONS) + moves + len(KINDS)
        counts(page, 0, everything, 0)
        topics = page.get_by_label("Topic").locator("option")
        many = Counter(one["topic"] for one in QUESTIONS)
        many += Counter(kind.topic for kind in KINDS.values())
        asked = [f"all ({everything})"]
        for topic, name in TOPICS.items():
            if many[topic]:
                asked.append(f"{name} ({many[topic]})")
        asked.append(f"First moves ({moves})")
        expect(topics).to_have_text(asked)
        kinds = page.get_by_label("Kind").locator("option")
        expect(kinds.last).to_have_text(f"estimates ({len(KINDS)})")
        only(page, "memory", "")
        counts(page, 0, many["memory"], 0)
        only(page, "memory")
        counts(page, 0, 2, 0)
        page.get_by_label("Level").select_option("senior")
        counts(page, 0, 1, 0)
        expect(title(page)).to_have_text("Title of peak")
        page.reload()
        counts(page, 0, 1, 0)
        expect(page.get_by_label("Level")).to_have_value("senior")
        page.get_by_label("Level").select_option("principal")
        expect(title(page)).to_contain_text("No card")
        press(page, "Space", "1")
        assert kept(page)["cards"] == {}


def prompts(site: Site) -> dict[str, str]:
    """Each fast mock prompt's heading and the text folded below it."""
    html = site.pages()["practice/mock-prompts/"]
    found = {}
    for heading in BeautifulSoup(html, "html.parser").select("article h3"):
        note = heading.find_next("details")
        assert note is not None
        summary = note.find("summary")
        assert summary is not None
        summary.extract()
        link = heading.select_one(".headerlink")
        assert link is not None
        link.extract()
        for number in note.select(".proof sup"):
            number.extract()  # seen on paper alone
        found[heading.get_text()] = " ".join(note.get_text().split())
    return found


def test_every_fast_mock_prompt_is_a_card(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    expected = prompts(site)
    assert len(expected) >= 16
    with visiting(browser, site) as visit:
        page = visit.page
        only(page, "prompts", "prompt")
        for _ in prompts(site):
            name = title(page).inner_text()
            press(page, "Space")
            answer = page.locator(".practice-answer").inner_text()
            text = expected.pop(name)
            assert " ".join(answer.split()) == f"First move {text} Its page"
            press(page, "4")
        assert expected == {}
        counts(page, 0, 0, len(prompts(site)))


def test_an_estimate_has_new_numbers_each_time(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    with visiting(browser, site) as visit:
        page = visit.page
        only(page, "memory", "estimate")
        names = {kind.title: name for name, kind in KINDS.items()}
        kind = names[title(page).inner_text()]
        shown = page.locator(".practice-card")
        for turn in range(2):
            one = generate(kind, turn)
            expect(shown).to_contain_text(one["question"])
            press(page, "Space")
            expect(shown).to_contain_text(one["answer"])
            expect(shown).to_contain_text(one["by_hand"][-1])
            press(page, "1")
            later(page, 2)
            settled(page)
            page.reload()
        settled(page)
        visit.assert_clean("estimates")


def said(page: Page) -> Locator:
    """What a screen reader is told."""
    return page.locator(".practice-said")


def grade_three(page: Page) -> Any:
    for rating in "234":
        press(page, "Space", rating)
    return kept(page)["cards"]


def import_text(page: Page, text: str, name: str = "mine.json") -> None:
    page.locator("input[type=file]").set_input_files(
        {"name": name, "mimeType": "", "buffer": text.encode()}
    )


def test_progress_is_exported_reset_and_imported(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    """Progress is exported to a dated file, reset after a question, and comes
    back from the file."""
    with visiting(browser, site) as visit:
        page = visit.page
        cards = grade_three(page)
        assert len(cards) == 3
        with page.expect_download() as waiting:
            page.get_by_role("button", name="Export").click()
        assert waiting.value.suggested_filename.endswith("-2026-11-23.json")
        text = Path(waiting.value.path()).read_text()
        reset = page.get_by_role("button", name="Reset")
        page.once("dialog", lambda dialog: dialog.dismiss())
        reset.click()
        assert kept(page)["cards"] == cards
        page.once("dialog", lambda dialog: dialog.accept())
        reset.click()
        expect(said(page)).to_have_text("3 cards forgotten.")
        assert kept(page)["cards"] == {}
        import_text(page, text)
        expect(said(page)).to_contain_text("3 of 3 cards")
        assert kept(page)["cards"] == cards
        # Whichever was reviewed last stays.
        one, two, _ = cards
        older = json.loads(text)
        older["cards"][one] |= {"reps": 9, "last_review": "2026-11-22T09:00Z"}
        older["cards"][two] |= {"reps": 7, "last_review": "2026-11-24T09:00Z"}
        import_text(page, json.dumps(older))
        expect(said(page)).to_contain_text("1 of 3 cards")
        assert kept(page)["cards"][one] == cards[one]
        assert kept(page)["cards"][two]["reps"] == 7


def spoilt(cards: Any, **change: Any) -> str:
    broken = dict(next(iter(cards.values()))) | change
    return json.dumps({"version": 1, "cards": {**cards, "bytes": broken}})


def test_a_bad_file_is_refused_by_name_and_changes_nothing(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    """Each of eleven broken files of progress is refused with a line that says
    what is wrong, and the kept progress stays as it was."""
    with visiting(browser, site) as visit:
        page = visit.page
        cards = grade_three(page)
        before = kept(page)
        for text, wrong in {
            "<b>": "it is not JSON",
            "[]": 'it has no "cards"',
            '{"cards": []}': 'it has no "cards"',
            '{"cards": {}}': "its version is undefined; this page reads 1",
            '{"version": 2, "cards": {}}': "its version is 2",
            '{"version": 1, "cards": {"x": null}}': 'card "x": due is',
            spoilt(cards, due="soon"): 'card "bytes": due is "soon"; it must',
            spoilt(cards, due=5): "due is 5; it must be a date",
            spoilt(cards, stability=None): "stability is null; it must be a",
            spoilt(cards, reps=-1): "reps is -1; it must be a number",
            spoilt(cards, state=4): "state is 4; it must be 0, 1, 2 or 3",
        }.items():
            import_text(page, text, "bad <i>.json")
            expect(said(page)).to_contain_text(wrong)
            line = said(page).inner_text()
            assert line.startswith("bad <i>.json is refused: "), text
            assert line.endswith(". Nothing has changed."), text
            assert kept(page) == before, text


def test_progress_follows_a_renamed_question(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    """A card that this browser or an imported file keeps under the old id of a
    question counts as the question's card."""
    with visiting(browser, site) as visit:
        page = visit.page
        card = next(iter(grade_three(page).values()))
        old = {"version": 1, "cards": {"octets": card}}
        page.evaluate(
            "(state) => localStorage.setItem('lockstep.cards', state)",
            json.dumps({**old, "undo": None, "filter": {}}),
        )
        page.reload()
        expect(page.locator(".practice-counts")).to_contain_text("1 later")
        assert kept(page)["cards"] == {"bytes": card}
        import_text(page, json.dumps(reviewed_later(old)))
        expect(said(page)).to_contain_text("1 of 1 cards are newer")
        assert [*kept(page)["cards"]] == ["bytes"]


def reviewed_later(file: Any) -> Any:
    """The same file with its only card reviewed a day later."""
    card = file["cards"]["octets"] | {"last_review": "2026-11-24T09:00Z"}
    return file | {"cards": {"octets": card}}


def test_progress_stays_when_the_bank_changes(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    with visiting(browser, site) as visit:
        page = visit.page
        only(page, "memory")
        cards = grade_three(page)
        assert len(cards) == 2
        state = kept(page)
        gone = question("gone", "memory", "staff")
        fewer = [gone, *QUESTIONS[1:]]
    with visiting(browser, site, questions=fewer) as visit:
        page = visit.page
        script = "(state) => localStorage.setItem('lockstep.cards', state)"
        page.evaluate(script, json.dumps(state))
        page.reload()
        counts(page, 0, 1, 1)
        expect(title(page)).to_have_text("Title of gone")
        press(page, "Space", "3")
        assert kept(page)["cards"] | cards == kept(page)["cards"]


def test_a_browser_that_keeps_nothing_is_told_of(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    with visiting(browser, site) as visit:
        page = visit.page
        page.evaluate("() => { Storage.prototype.setItem = () => { throw 0 } }")
        only(page, "memory")
        press(page, "Space", "3")
        expect(said(page)).to_contain_text("keeps nothing: export")
        counts(page, 0, 1, 1)


def test_a_bank_that_does_not_come_is_told_of(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    with Visit(browser, site) as visit:
        bank = "**/assets/practice.json"
        visit.context.route(bank, lambda route: route.fulfill(status=503))
        visit.open(CARDS)
        alert = visit.page.get_by_role("alert")
        expect(alert).to_contain_text("503")
        visit.context.unroute(bank)
        serve(visit, QUESTIONS)
        follow(visit, MOCK)
        expect(title(visit.page)).to_have_text("A new interview")


def test_an_answer_that_does_not_come_is_told_of_and_asked_for_again(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    """Its card says so, and the next time it is fetched anew."""
    with Visit(browser, site) as visit:
        serve(visit, [question("bytes", "memory", "staff")])
        late = "**/assets/practice/bytes.json"
        visit.context.route(late, lambda route: route.fulfill(status=503))
        visit.open(CARDS)
        only(visit.page, "memory")
        press(visit.page, "Space")
        expect(visit.page.get_by_role("alert")).to_contain_text("503")
        visit.context.unroute(late)
        visit.page.get_by_label("Level").select_option("staff")
        visit.page.get_by_role("button", name="Show the answer").click()
        expect(visit.page.locator(".practice-card")).to_contain_text(
            "strong bytes"
        )
        expect(visit.page.get_by_role("alert")).to_have_count(0)


def follow(visit: Visit, to: str) -> None:
    """Click a link of the navigation; nothing is loaded anew."""
    visit.page.evaluate(
        """(to) => {
          window.kept = true;
          [...document.querySelectorAll("a.md-nav__link")]
            .find((link) => link.href === to).click();
        }""",
        visit.site.address + to,
    )
    visit.page.wait_for_function(
        "(to) => document.querySelector('[rel=canonical]').href === to",
        arg=visit.site.address + to,
    )
    assert visit.page.evaluate("window.kept"), "the page was loaded anew"


def test_who_leaves_and_returns_presses_each_key_once(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    with visiting(browser, site) as visit:
        page = visit.page
        only(page, "memory")
        for _ in range(3):
            press(page, "Space")
            follow(visit, "practice/mock-prompts/")
            press(page, "3")
            follow(visit, CARDS)
            counts(page, 0, 2, 0)
        first = shown_id(page)
        press(page, "Space", "3")
        counts(page, 0, 1, 1)
        assert kept(page)["cards"][first]["reps"] == 1
        assert len(kept(page)["cards"]) == 1
        visit.assert_clean("there and back")


@pytest.mark.parametrize("tool", [CARDS, MOCK])
def test_without_scripts_a_page_says_what_it_needs(
    browser: Browser,  # noqa: F811
    site: Site,
    tool: str,
) -> None:
    with Visit(browser, site, java_script_enabled=False) as visit:
        visit.page.goto(site.address + tool)
        plain = visit.page.locator(".practice-plain")
        expect(plain).to_contain_text("JavaScript")
        expect(plain.get_by_role("link").first).to_be_visible()
        expect(visit.page.locator(".practice")).to_be_hidden()
    with visiting(browser, site, tool) as visit:
        expect(visit.page.locator(".practice-plain")).to_be_hidden()


def wound(visit: Visit) -> Page:
    """The page, with a clock that a test winds."""
    visit.page.clock.install(time=NOW)
    visit.page.reload()
    expect(title(visit.page)).to_be_visible()
    visit.page.clock.pause_at(NOW + dt.timedelta(minutes=1))
    return visit.page


def begin(
    page: Page, level: str = "staff", minutes: str = "45", draw: str = "7"
) -> None:
    page.get_by_label("Level").select_option(level)
    page.get_by_label("Minutes").select_option(minutes)
    page.get_by_label("Draw").fill(draw)
    press(page, "Enter")
    expect(page.get_by_role("timer")).to_be_visible()


def proceed(page: Page) -> None:
    page.get_by_role("button", name=re.compile("Next: |Score it")).click()
    expect(title(page)).to_be_focused()


def drawn(page: Page) -> list[str]:
    """What this stage asks."""
    return page.locator(".practice-card h3").all_inner_texts()


def test_an_interview_from_the_first_minute_to_the_summary(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    """An interview runs through all stages by its clock, with a warning at the
    last minute of each, to the summary."""
    with visiting(browser, site, MOCK) as visit:
        page = wound(visit)
        begin(page)
        asked: dict[str, list[str]] = {}
        timer = page.get_by_role("timer")
        whole = 45
        for stage in RUBRIC.stages:
            expect(title(page)).to_have_text(stage.question)
            name, own = stage.id.capitalize(), stage.minutes[45]
            expect(timer).to_contain_text(
                f"{name}: {own}:00 left of {own}:00whole: {whole}:00 left"
            )
            now = page.locator("[aria-current=step]")
            expect(now).to_have_text(f"{stage.id} {own} min")
            asked[stage.id] = drawn(page)
            page.get_by_label("Notes").fill(f"I said {stage.id} | so")
            page.clock.run_for((own - 1) * 60_000)
            expect(timer).to_contain_text(f"1:00 left of {own}:00")
            expect(said(page)).to_have_text(f"One minute left of {stage.id}.")
            page.clock.run_for(60_000)
            expect(said(page)).to_contain_text("Time")
            whole -= own
            proceed(page)
        assert all(asked.values()), asked
        drills = set(asked["clarify"]) & set(asked["build"])
        assert len(drills) == 1
        assert drills.pop().startswith("Drill ")
        named = {text for texts in asked.values() for text in texts}
        assert "Title of pager" not in named, "it is for principals"

        submit = page.get_by_role("button", name="Summary")
        submit.click()
        expect(said(page)).to_contain_text("Without a mark: Numbers first,")
        marks = {line.id: 2 for line in RUBRIC.lines}
        marks |= {"proof": 0, "operate": 0, "estimate": 1}
        for line in RUBRIC.lines:
            text = line.marks[marks[line.id]]
            page.get_by_role("group", name=line.name).get_by_label(
                f"{marks[line.id]} {text}", exact=True
            ).check()
        submit.click()
        expect(title(page)).to_be_focused()
        expect(title(page)).to_have_text("What to practice next")
        with page.expect_download() as waiting:
            page.get_by_role("button", name="Save as Markdown").click()
        found = waiting.value
        assert found.suggested_filename == "mock-interview-2026-11-23.md"
        text = Path(found.path()).read_text()
        assert text == page.locator(".mock-summary").text_content()
        assert text.startswith("# Mock interview of 2026-11-23\n")
        assert "Coding, staff, 45 minutes, topic any, draw 7\n" in text
        assert "| build | 18:00 | 18:00 | [Drill " in text
        assert "## Notes on defend\n\nI said defend | so\n" in text
        assert '| Proof | 0 | "the loss continues" |' in text
        first, second = RUBRIC.weakest(marks, "staff")
        links = [first.links[0], second.links[0], first.links[1]]
        names = dict.fromkeys(links, first.name)
        names[second.links[0]] = second.name
        expected = [f"**{first.name}** (0) and **{second.name}** (0).", ""]
        for link in links:
            there = site_address(link)
            expected.append(
                f"- [{names[link]}: {there}]({site.address}{there})"
            )
        assert text.endswith("\n".join(expected) + "\n")

        page.get_by_role("button", name="Another").click()
        past = page.locator(".mock-history li")
        expect(past).to_contain_text("2026-11-23, staff, 45 minutes")
        tool = page.locator(".practice")
        expect(tool).to_contain_text("last interview: Proof and Who runs it.")
        page.clock.resume()
        page.reload()
        with page.expect_download() as waiting:
            past.get_by_role("button", name="Save").click()
        assert Path(waiting.value.path()).read_text() == text
        forget = page.get_by_role("button", name="Forget them")
        page.once("dialog", lambda dialog: dialog.accept())
        forget.click()
        expect(past).to_have_count(0)
        assert kept(page, "lockstep.mock")["history"] == []
        visit.assert_clean("a whole interview")


@pytest.mark.parametrize(
    ("form", "kind", "task"),
    [
        ("coding", "debug", "Drill"),
        ("design", "design", "for the candidate"),
        ("debugging", "debug", ""),
        ("deep dive", "explain", ""),
    ],
)
def test_each_interview_prefers_its_kinds(
    browser: Browser,  # noqa: F811
    site: Site,
    form: str,
    kind: str,
    task: str,
) -> None:
    """A design interview is about the prompt of a round, debugging begins with
    symptoms, and a deep dive explains one topic in every stage."""
    each = [
        question(f"{kind}-{n}", "memory", "senior", "core", kind)
        for kind in ("explain", "design", "debug")
        for n in range(2)
    ]
    with visiting(browser, site, MOCK, questions=[*QUESTIONS, *each]) as visit:
        page = wound(visit)
        page.get_by_label("Kind").select_option(form)
        page.get_by_label("Topic").select_option("memory")
        begin(page)
        shown = drawn(page)
        assert task in shown[0]
        plan = kept(page, "lockstep.mock")["session"]["plan"]
        # Memory is a topic of one stage, and in a deep dive of all.
        stages = {"coding": [], "deep dive": ["clarify", "build"]}
        for stage in stages.get(form, ["scale"]):
            assert any(name.startswith(kind) for name in plan[stage])


def test_a_reload_keeps_the_draw_the_clock_and_the_notes(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    with visiting(browser, site, MOCK) as visit:
        page = wound(visit)
        begin(page, minutes="60", draw="11")
        page.clock.run_for(60_000)
        proceed(page)
        page.get_by_label("Notes").fill("half of it")
        push = page.get_by_role("button", name="push back")
        push.click()
        pushed = page.locator(".mock-pushbacks > li")
        expect(pushed).to_be_focused()
        expect(pushed).to_contain_text("And sharded?")
        push.click()
        expect(pushed.nth(1)).to_contain_text("Of what?")
        before = drawn(page)
        page.clock.run_for(90_000)
        timer = page.get_by_role("timer")
        expect(timer).to_contain_text("Build: 23:30 left of 25:00")
        expect(timer).to_contain_text("57:30 left of 60:00")
        page.reload()
        expect(timer).to_contain_text("Build: 23:30 left of 25:00")
        expect(timer).to_contain_text("57:30 left of 60:00")
        assert drawn(page) == before
        expect(page.get_by_label("Notes")).to_have_value("half of it")
        expect(pushed).to_have_count(2)
        push.click()
        expect(pushed.nth(2)).to_contain_text("And in bf16?")
        expect(push).to_be_hidden()

        page.get_by_role("button", name="Pause").click()
        page.clock.run_for(300_000)
        expect(timer).to_contain_text("57:30 left of 60:00, paused")
        page.reload()
        expect(timer).to_contain_text("57:30 left of 60:00, paused")
        page.get_by_role("button", name="Go on").click()
        page.clock.run_for(30_000)
        expect(timer).to_contain_text("57:00 left of 60:00")
        follow_while_paused(visit, page)


def follow_while_paused(visit: Visit, page: Page) -> None:
    """Ten minutes on a drill's page count; a night does not."""
    page.clock.resume()
    timer = page.get_by_role("timer")
    follow(visit, "practice/mock-prompts/")
    page.clock.fast_forward("10:00")
    follow(visit, MOCK)
    expect(timer).to_contain_text("of 60:00")
    left = page.locator(".mock-clock span").inner_text()
    assert re.match(r"whole: 4[67]:\d\d left of 60:00$", left), left
    follow(visit, "practice/mock-prompts/")
    page.clock.fast_forward("09:00:00")
    follow(visit, MOCK)
    expect(timer).to_contain_text("paused")
    expect(said(page)).to_contain_text("You were away")
    left = page.locator(".mock-clock span").inner_text()
    assert re.match(r"whole: 4[67]:\d\d left", left), left


def give_up(page: Page) -> None:
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Give up").click()
    expect(title(page)).to_have_text("A new interview")


def test_a_draw_follows_from_its_number(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    with visiting(browser, site, MOCK) as visit:
        page = visit.page
        plans = []
        for draw in ("1", "1", "2", "3", "4"):
            begin(page, draw=draw)
            session = kept(page, "lockstep.mock")["session"]
            plans.append(json.dumps([session["task"], session["plan"]]))
            give_up(page)
        assert plans[0] == plans[1]
        assert len(set(plans)) > 2
        for topic, one in {"memory": "bytes", "performance": "trace"}.items():
            for draw in "123456":
                page.get_by_label("Topic").select_option(topic)
                begin(page, draw=draw)
                session = kept(page, "lockstep.mock")["session"]
                assert one in session["plan"]["scale"], draw
                give_up(page)


def test_an_empty_bank_still_makes_an_interview(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    with visiting(browser, site, MOCK, questions=[]) as visit:
        page = visit.page
        begin(page, level="principal")
        for stage in RUBRIC.stages:
            expect(title(page)).to_have_text(stage.question)
            if stage.id != "defend":
                assert drawn(page), stage.id
            proceed(page)
        expect(title(page)).to_contain_text("ten lines")


def test_every_topic_of_the_bank_belongs_to_a_stage(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    with visiting(browser, site, MOCK) as visit:
        stages = visit.page.evaluate(
            "async (source) => (await import(source)).STAGES",
            site.address + "assets/practice/mock.js",
        )
        assert list(stages) == [stage.id for stage in RUBRIC.stages]
        named = {topic for one in stages.values() for topic in one["topics"]}
        assert named == set(TOPICS)
        html = site.pages()["practice/mock-prompts/"]
        headings = BeautifulSoup(html, "html.parser").select("article h2[id]")
        groups = {heading["id"] for heading in headings} - {"proofs"}
        drawn = {name for s in stages.values() for name in s.get("prompts", [])}
        assert drawn == groups


def test_the_weakest_lines_are_the_rubrics(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    """For random marks at every level the summary names the two weakest lines
    that the Python rubric names."""
    chance = random.Random(1)
    with visiting(browser, site, MOCK) as visit:
        page = visit.page
        begin(page)
        state = kept(page, "lockstep.mock")
        for level in RUBRIC.levels * 3:
            marks = {x.id: chance.randrange(3) for x in RUBRIC.lines}
            state["session"] |= {"stage": 5, "since": None}
            state["session"] |= {"level": level, "marks": marks}
            page.evaluate(
                "(state) => localStorage.setItem('lockstep.mock', state)",
                json.dumps(state),
            )
            page.reload()
            page.get_by_role("button", name="Summary").click()
            one, two = RUBRIC.weakest(marks, level)
            tool = page.locator(".practice")
            expect(tool).to_contain_text(f": {one.name} and {two.name}.")


def screens(page: Page, tool: str) -> Iterator[str]:
    """Every state of a tool that looks different."""
    yield "first"
    if tool == CARDS:
        press(page, "Space")
        yield "answer"
        press(page, "1")
        only(page, "processes")
        press(page, "Space", "4")
        yield "nothing due"
        return
    begin(page)
    for stage in RUBRIC.stages:
        for push in page.get_by_role("button", name="push back").all():
            push.click()
        for fold in page.locator(".practice summary").all():
            fold.click()
        yield stage.id
        proceed(page)
    yield "score"
    for line in RUBRIC.lines:
        page.locator(f"input[name={line.id}]").first.check()
    page.get_by_role("button", name="Summary").click()
    yield "summary"
    page.get_by_role("button", name="Another").click()
    yield "history"


@pytest.mark.parametrize("tool", [CARDS, MOCK])
@pytest.mark.parametrize("scheme", daily(SCHEMES, "dark"))
def test_each_screen_is_accessible_and_fits_a_phone(
    browser: Browser,  # noqa: F811
    site: Site,
    tool: str,
    scheme: Any,
) -> None:
    look: Any = {"color_scheme": scheme, "viewport": PHONE}
    with visiting(browser, site, tool, **look) as visit:
        page = visit.page
        axe = (ROOT / "node_modules" / "axe-core" / "axe.min.js").read_text()
        page.evaluate(axe)
        for name in screens(page, tool):
            found = page.evaluate("axe.run('.practice')")
            assert found["passes"], "axe-core looked at nothing"
            assert found["violations"] == [], name
            assert page.evaluate(WIDER_THAN_THE_SCREEN) == [], name
            assert page.evaluate("document.documentElement.scrollWidth") <= 360
            for box in page.locator(".practice-bar button").all():
                assert (box.bounding_box() or {})["height"] >= 44, name
                expect(box).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("tool", [CARDS, MOCK])
@pytest.mark.parametrize("size", daily(SIZES, "phone"))
def test_a_tool_moves_nothing_when_it_comes(
    browser: Browser,  # noqa: F811
    site: Site,
    tool: str,
    size: str,
) -> None:
    with visiting(browser, site, tool, viewport=SIZES[size]) as visit:
        page = visit.page
        for kind in ("", "estimate") if tool == CARDS else ("",):
            if kind:  # which comes from a worker, a moment later
                page.get_by_label("Kind").select_option(kind)
                settled(page)
                page.reload()
            settled(page)
            visit.assert_clean(tool)
            # A browser that got no time may paint half a page; what is the
            # page's comes again.
            for _ in range(5):
                if page.evaluate("window.shift") > 0.02:
                    page.reload()
                    settled(page)
            assert page.evaluate("window.shift") <= 0.02, kind


def test_practice_sends_nothing(
    browser: Browser,  # noqa: F811
    site: Site,
) -> None:
    """Grading cards and taking an interview send no data: every request is a
    plain GET of a file of the site."""
    with visiting(browser, site) as visit:
        sent: list[Any] = []
        visit.page.on("request", lambda request: sent.append(request))
        grade_three(visit.page)
        follow(visit, MOCK)
        begin(visit.page)
        visit.assert_clean("practice")
        assert {request.method for request in sent} == {"GET"}
        assert not any("?" in request.url for request in sent)


def test_a_study_plan_remembers_exports_and_imports(
    browser: Browser,  # noqa: F811
    site: Site,
    tmp_path: Path,
) -> None:
    """A checked item is still checked after a reload, the page names the next
    one, and an exported plan can be taken into another browser; any other file
    changes nothing."""
    with Visit(browser, site) as visit:
        page = visit.open(STUDY)
        box = page.get_by_role("checkbox").first
        box.check()
        status = page.locator(".practice [role=status]")
        expect(status).to_contain_text("Two hours: 1 of 6 done. Continue with")
        page.reload()
        expect(page.get_by_role("checkbox").first).to_be_checked()
        with page.expect_download() as waiting:
            page.get_by_role("button", name="Export").click()
        kept = tmp_path / "study.json"
        waiting.value.save_as(kept)
    with Visit(browser, site) as visit:
        page = visit.open(STUDY)
        box = page.get_by_role("checkbox").first
        expect(box).not_to_be_checked()
        other = tmp_path / "other.json"
        other.write_text("[1, 2]")
        chooser = page.locator("input[type=file]")
        chooser.set_input_files(other)
        status = page.locator(".practice [role=status]")
        expect(status).to_have_text(
            "other.json is not an exported study plan; nothing has changed."
        )
        chooser.set_input_files(kept)
        expect(box).to_be_checked()
