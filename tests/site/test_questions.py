"""The question bank as pages, and as what a browser asks from."""

from __future__ import annotations

import functools
import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from bs4 import BeautifulSoup
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from playwright.sync_api import Browser, Locator, Page, expect

from lockstep.practice import rubric
from lockstep.practice.bank import TOPICS
from lockstep.site.pages import questions
from tests.practice.specimen import (
    CORE_FILE,
    FILE,
    core_specimen,
    specimen,
    written,
)

from .conftest import (
    ROOT,
    Quiet,
    Site,
    copy_repository,
    run,
    searched,
)
from .test_browser import (
    SCHEMES,
    WIDER_THAN_THE_SCREEN,
    Visit,
    browser,  # noqa: F401 - a fixture
    violations,
)

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("site-practice"),
]

ADDRESS = "practice/questions/specimen/"
CORE = "practice/questions/core-specimen/"
PHONE: Any = {"width": 360, "height": 740}
SHOWN = '--8<-- "docs/recorded/collectives-wire.txt"'
KEPT = re.compile(rf"^#+ [^{{]*(\{{ #[\w-]+ \}})?$|^{re.escape(SHOWN)}$")


def stubs(root: Path) -> str:
    """Write each page with its headings alone; return a navigation."""
    nav = f"nav:\n  - {questions.INDEX}\n"
    for page in sorted((ROOT / "docs").rglob("*.md")):
        path = page.relative_to(ROOT / "docs").as_posix()
        lines = page.read_text("utf-8").splitlines()
        kept = [line for line in lines if KEPT.match(line)]
        text = "\n\n".join(kept).replace(SHOWN, f"```text\n{SHOWN}\n```")
        (root / "docs" / path).parent.mkdir(parents=True, exist_ok=True)
        (root / "docs" / path).write_text(f"{text}\n")
        nav += f"  - {path}\n"
    return nav


Build = Callable[[], Site]


@pytest.fixture(scope="module")
def repository(
    tmp_path_factory: pytest.TempPathFactory, node_modules: Path
) -> Path:
    """A copy whose bank holds two traps and a question of the core."""
    root = tmp_path_factory.mktemp("questions") / "repository"
    nav = stubs(root)
    copy_repository(root, nav)
    shutil.copytree(ROOT / "docs" / "recorded", root / "docs" / "recorded")
    practice = root / "code" / "lockstep" / "practice"
    for folder, file in (("traps", FILE), ("core_questions", CORE_FILE)):
        shutil.rmtree(practice / folder, ignore_errors=True)
        (practice / folder).mkdir()
        shutil.copy(file, practice / folder / f"{written(file)['id']}.yml")
    other = written(
        id="a-second", level="staff", title="Another", weak__why="No."
    )
    path = practice / "traps" / "a-second.yml"
    path.write_text(yaml.safe_dump(other))
    return root


@pytest.fixture(scope="module")
def bank(repository: Path) -> Iterator[Site]:
    """It, built and served."""
    folder = repository / "site"
    handler = functools.partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        address = f"http://127.0.0.1:{server.server_port}/"
        build = ("mkdocs", "build", "--strict")
        result = run(*build, cwd=repository, timeout=200, SITE_URL=address)
        assert result.returncode == 0, result.stdout + result.stderr
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Site(folder, address)
        server.shutdown()


def article(site: Site, address: str) -> BeautifulSoup:
    return BeautifulSoup(site.pages()[address], "html.parser")


def test_all_that_a_question_has_is_on_its_page(bank: Site) -> None:
    page = article(bank, ADDRESS).select_one("article")
    assert page is not None
    folds = [fold.get_text() for fold in page.select("article > details")]
    shown = [p.get_text() for p in page.select("article > p, .clock")]
    given = written()
    assert "eight ranks under DDP" in words(shown[1])
    assert "Start the clock" in shown[2], "the clock comes first"
    for text in (
        given["weak"]["answer"],
        given["weak"]["why"],
        given["say"],
        given["pushbacks"][0]["then"][0]["reply"],
        given["evidence"]["tests"][0].partition("::")[2],
        given["changed"],
        "Large language models answered and judged here, and no people",
        "two fell short",
        "four preferred ours",
    ):
        assert [f for f in folds if words(text) in words(f)], text
        assert words(text) not in words("".join(shown))
    links_said = {words(a.get_text()) for a in page.select("a")}
    section = "Memory: what fills a GPU: The obvious way: count the state"
    assert section in links_said
    links = {str(link["href"]) for link in page.select("a[href]")}
    assert {
        "../../../concepts/memory/#state",
        "../../../concepts/collectives/in-depth/#wire",
        "../../labs/lab-03-sharding/",
        "../../drills/drill-2-distributed/",
        "../../find-the-bug/#list",
        "https://github.com/pytorch/pytorch/issues/1",
        "https://github.com/pytorch/pytorch/issues/2",
    } <= links
    assert any(x.startswith("../../../planner/?ask=memory&") for x in links)
    assert any(x.endswith("/tests/practice/test_bank.py") for x in links)
    assert any(
        x.endswith("/lockstep/experiments/benchmarks/background_saving.json")
        for x in links
    )


def test_all_that_a_core_question_has_is_on_its_page(bank: Site) -> None:
    """Asked in the open, all else folded; its proof is listed, its trap linked,
    and so is each place that asks it."""
    page = article(bank, CORE).article
    assert page is not None
    folds = words(" ".join(one.get_text() for one in page.select("details")))
    given = written(CORE_FILE)
    for text in (
        *given["ask_back"],
        "because it is three quarters of that",
        "A bar of sixteen bytes",
        given["pushbacks"][0]["then"][0]["reply"],
        given["weak"]["answer"],
        given["principal"],
        given["scored"]["staff"],
        given["trials"]["heard"]["reason"],
        "The public one, with ours read first. It is shorter.",
    ):
        assert words(text) in folds, text
    links = {str(link["href"]) for link in page.select("a[href]")}
    assert {"../specimen/", "https://c.example/questions"} <= links
    assert "../../../concepts/memory/#state" in links
    assert page.select_one("#proof-list")
    first = article(bank, "practice/questions/").select_one("tbody tr")
    assert first is not None
    assert given["title"] in first.get_text()
    assert first.select_one('a[href="core-specimen/"]')


def words(text: str) -> str:
    return " ".join(text.split())


def test_the_index_leads_to_each_by_topic_and_level(bank: Site) -> None:
    page = article(bank, "practice/questions/")
    rows = [
        [cell.get_text() for cell in row.select("td")]
        for row in page.select("#list ~ div tr, #list ~ table tr")
    ]
    title = written()["title"]
    assert rows[1:3] == [
        ["Memory", title, "Trap", "senior", "2 min"],
        ["Memory", "Another", "Trap", "staff", "2 min"],
    ]
    assert page.select_one('a[href="specimen/"]')


def test_a_browser_gets_all_of_it(bank: Site) -> None:
    """All that is asked in one file, and what is said in answer in one for
    each question."""

    def read(name: str) -> Any:
        return json.loads(
            (bank.folder / f"{questions.BUNDLE}{name}").read_text()
        )

    found = read(".json")
    assert next(iter(found["topics"])) == "memory"
    assert found["topics"] == TOPICS
    assert found["levels"] == ["senior", "staff", "principal"]
    scored = rubric.load()
    assert [s["id"] for s in found["stages"]] == [s.id for s in scored.stages]
    assert found["stages"][0]["minutes"].keys() == {"45", "60"}
    for line, written_line in zip(found["lines"], scored.lines, strict=True):
        assert line["from"] == written_line.level
        assert line["marks"] == [*written_line.marks]
    core, second, first = found["questions"]
    assert (core["id"], core["tier"]) == ("core-specimen", "core")
    told = {one["id"]: read(f"/{one['id']}.json") for one in found["questions"]}
    assert told[core["id"]]["parts"][0][0] == "Answer"
    assert "✓" not in json.dumps(told, ensure_ascii=False)
    assert (second["id"], second["tier"]) == ("a-second", "traps")
    assert first["page"] == ADDRESS
    assert (first["topic"], first["level"]) == ("memory", "senior")
    said = told[first["id"]]
    parts = dict(said["parts"])
    why = "<p>Sharding by eight leaves far less than half.</p>"
    assert parts["Why it falls short"] == why
    assert 'href="concepts/memory/#state"' in parts["Strong"]
    assert 'href="planner/?ask=memory&amp;' in parts["Strong"]
    assert first["pushed"] == 2
    [push] = said["pushbacks"]
    assert push["ask"] == "<p>And on 16 ranks?</p>"
    assert push["then"] == [
        {"ask": "<p>Still?</p>", "reply": "<p>Still.</p>", "then": []}
    ]
    html = re.findall(r'href="([^"#?]*)', json.dumps(told).replace('\\"', '"'))
    inside = {x for x in html if not x.startswith("https://")}
    assert inside
    for link in inside | {x.partition("#")[0] for x in links_of(found)}:
        assert (bank.folder / link / "index.html").is_file(), link


def links_of(found: dict[str, Any]) -> Iterator[str]:
    for line in found["lines"]:
        yield from line["links"]
    yield from (one["page"] for one in found["questions"])


def test_a_question_is_found_by_search(bank: Site) -> None:
    assert ADDRESS in searched(bank.folder)


def test_the_clock_runs_down(browser: Browser, bank: Site) -> None:  # noqa: F811
    with Visit(browser, bank) as visit:
        visit.page.clock.install()
        page = visit.open(ADDRESS)
        clock = page.locator(".clock")
        box = clock.bounding_box()
        start = page.get_by_role("button", name="Start the clock")
        expect(page.get_by_role("timer")).to_have_text("90 s")
        start.focus()
        page.keyboard.press("Enter")
        page.clock.run_for(30_000)
        expect(page.get_by_role("timer")).to_have_text("60 s")
        page.clock.run_for(59_000)
        expect(page.get_by_role("timer")).to_have_text("1 s")
        expect(page.get_by_role("status")).to_have_text("Answer aloud.")
        page.clock.run_for(2_000)
        expect(page.get_by_role("timer")).to_have_text("0 s")
        expect(page.get_by_role("status")).to_have_text("Time. Now unfold.")
        assert clock.bounding_box() == box, "it moved the text"
        start.click()
        page.clock.run_for(1_000)
        expect(page.get_by_role("timer")).to_have_text("89 s")
        visit.assert_clean("clock")


def turn(page: Page, ask: str) -> Locator:
    """A pushback that can be unfolded."""
    return page.locator("summary", has_text=ask)


def test_turns_unfold_one_by_one_by_keyboard(
    browser: Browser,  # noqa: F811
    bank: Site,
) -> None:
    with Visit(browser, bank) as visit:
        page = visit.open(ADDRESS)
        reply = page.get_by_text("Each of the 16 holds as much.")
        expect(reply).to_be_hidden()
        expect(turn(page, "Still?")).to_be_hidden()
        turn(page, "And on 16 ranks?").focus()
        page.keyboard.press("Enter")
        expect(reply).to_be_visible()
        page.keyboard.press("Tab")
        expect(turn(page, "Still?")).to_be_focused()
        expect(page.get_by_text("Still.", exact=True)).to_be_hidden()
        page.keyboard.press("Space")
        expect(page.get_by_text("Still.", exact=True)).to_be_visible()
        expect(page.get_by_text("My metric is bytes.")).to_be_hidden()


LIST = "practice/questions/"


def listed(page: Page) -> list[str]:
    """The titles that the list shows."""
    return page.locator("tbody tr:visible a").all_inner_texts()


def test_the_list_is_narrowed_and_the_address_keeps_how(
    browser: Browser,  # noqa: F811
    bank: Site,
) -> None:
    """By kind, level and words, those of the question itself among them, by
    keyboard; an address that was sent shows the same."""
    core, trap = written(CORE_FILE)["title"], written()["title"]
    with Visit(browser, bank, viewport=PHONE) as visit:
        page = visit.open(LIST)
        expect(page.get_by_role("status")).to_have_text("3 of 3 questions")
        page.get_by_label("Kind").focus()
        page.keyboard.type("Est")
        expect(page.get_by_role("status")).to_have_text("1 of 3 questions")
        assert listed(page) == [core]
        page.get_by_label("Kind").select_option("")
        page.get_by_label("Level").select_option("senior")
        assert listed(page) == [core, trap]
        page.get_by_label("Words").fill("memory WHO halves")
        expect(page.get_by_role("status")).to_have_text("1 of 3 questions")
        assert listed(page) == [trap]
        sent = page.url
        assert "level=senior" in sent
        page.goto("about:blank")
        page.goto(sent)
        expect(page.get_by_label("Words")).to_have_value("memory WHO halves")
        expect(page.get_by_role("status")).to_have_text("1 of 3 questions")
        page.get_by_label("Words").fill("nothing of the kind")
        expect(page.get_by_role("button", name="Ask me one")).to_be_disabled()
        visit.assert_clean("list")


def test_one_is_asked_that_was_not_answered_yet(
    browser: Browser,  # noqa: F811
    bank: Site,
) -> None:
    """Of those shown, one that has no card in this browser; then the one whose
    card is the oldest."""
    script = "(state) => localStorage.setItem('lockstep.cards', state)"
    with Visit(browser, bank) as visit:
        page = visit.open(LIST)
        for days, drawn in (
            ({1: "core-specimen", 2: "specimen"}, "a-second"),
            (
                {3: "core-specimen", 1: "specimen", 2: "a-second"},
                "specimen",
            ),
        ):
            cards = {
                name: {"last_review": f"2026-11-0{day}T09:00:00Z"}
                for day, name in days.items()
            }
            page.evaluate(script, json.dumps({"cards": cards}))
            page.get_by_role("button", name="Ask me one").click()
            page.wait_for_url(f"**/{drawn}/")
            page.go_back()
            expect(page.get_by_role("status")).to_be_visible()


def test_without_scripts_the_list_is_plain(
    browser: Browser,  # noqa: F811
    bank: Site,
) -> None:
    with Visit(browser, bank, java_script_enabled=False) as visit:
        page = visit.page
        page.goto(bank.address + LIST)
        assert len(listed(page)) == 3
        expect(page.get_by_role("button", name="Ask me one")).to_have_count(0)


def test_without_scripts_all_unfolds_and_there_is_no_clock(
    browser: Browser,  # noqa: F811
    bank: Site,
) -> None:
    with Visit(browser, bank, java_script_enabled=False) as visit:
        page = visit.page
        page.goto(bank.address + ADDRESS)
        expect(page.get_by_role("button", name="clock")).to_be_hidden()
        expect(page.get_by_role("timer")).to_be_hidden()
        turn(page, "A strong answer").click()
        expect(page.get_by_text("A save takes")).to_be_visible()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_it_is_accessible_and_fits_a_phone(
    browser: Browser,  # noqa: F811
    bank: Site,
    scheme: Any,
) -> None:
    with Visit(browser, bank, color_scheme=scheme, viewport=PHONE) as visit:
        axe = ROOT / "node_modules" / "axe-core" / "axe.min.js"
        visit.context.add_init_script(path=axe)
        for address in (ADDRESS, CORE, "practice/questions/"):
            page = visit.open(address)
            visit.assert_clean(address)
            assert page.evaluate("window.shift") < 0.1
            page.evaluate(
                """document.querySelectorAll("details")
                   .forEach((folded) => { folded.open = true; })"""
            )
            wide = WIDER_THAN_THE_SCREEN.replace("391", "361")
            assert page.evaluate(wide) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= 360
            assert violations(page, scheme) == []


def test_a_question_with_a_fault_stops_the_build_in_a_line(
    repository: Path,
) -> None:
    home = repository / "code" / "lockstep" / "practice" / "traps"
    bad = home / "bad.yml"
    bad.write_text(yaml.safe_dump(written(id="bad", say="It holds 32 GB.")))
    result = run("mkdocs", "build", "--strict", cwd=repository)
    bad.unlink()
    assert result.returncode != 0
    assert "questions: bad.yml: say: 32 is typed; " in result.stderr
    assert "Traceback" not in result.stderr


def test_only_the_page_of_a_changed_question_is_written_anew(
    bank: Site, repository: Path
) -> None:
    def rebuilt() -> set[str]:
        pages = sorted((bank.folder / questions.HOME).rglob("index.html"))
        before = {page: page.stat().st_mtime_ns for page in pages}
        result = run("mkdocs", "build", "--dirty", cwd=repository)
        assert result.returncode == 0, result.stderr
        return {
            page.parent.name
            for page, written in before.items()
            if page.stat().st_mtime_ns != written
        }

    assert rebuilt() == set()
    home = repository / "code" / "lockstep" / "practice" / "traps"
    path = home / "a-second.yml"
    text = path.read_text("utf-8")
    path.write_text(text.replace("say: ", "say: Now, ", 1))
    assert rebuilt() == {"a-second"}
    path.write_text(text)


def test_published_answers_are_told_as_what_they_are() -> None:
    trials = written()["trials"]
    for number, answer in enumerate(trials["answers"]):
        answer["url"] = f"https://github.com/a/b/issues/{number}"
    one = specimen(
        trials__by="published text", trials__answers=trials["answers"]
    )
    text = questions.page(one, None, [], lambda text: text, "")
    assert "Others' published texts answered here" in text
    first = "*Fell short, [b #0](https://github.com/a/b/issues/0).* Half of it."
    assert first in text
    assert "“" not in text.partition("## Tests and sources")[2]


def test_an_index_without_questions_has_no_empty_list() -> None:
    for found, has in (([], False), ([specimen()], True)):
        text = questions.index([], found, [])
        assert ("| topic |" in text) == has
        assert ("No question has passed" in text) != has
    assert "Estimate | senior |" in questions.index([core_specimen()], [], [])


def test_a_core_question_names_traps_that_are_there() -> None:
    with pytest.raises(ValueError, match="there is no question gone"):
        questions.beside([core_specimen(sharpened=["gone"])], {})


def test_a_trap_and_the_core_question_lead_to_each_other(bank: Site) -> None:
    core, trap = written(CORE_FILE)["id"], written()["id"]
    assert article(bank, f"{LIST}{core}/").select_one(f'a[href="../{trap}/"]')
    assert article(bank, f"{LIST}{trap}/").select_one(f'a[href="../{core}/"]')


def test_without_its_place_in_the_navigation_nothing_is_published() -> None:
    files, config = Files([]), MkDocsConfig()
    config.nav = [{"Practice": ["practice/cards.md"]}]
    questions.publish(files, config, "")
    assert len(files) == 0
