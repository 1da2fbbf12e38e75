"""The built site in a browser: clean, self-contained, readable, accessible."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import (
    Browser,
    Locator,
    Page,
    Request,
    ViewportSize,
    expect,
    sync_playwright,
)

from lockstep.explain import catalog
from lockstep.explain.page import explained
from lockstep.explain.report import html as explained_html
from lockstep.explore import planner_page as planner
from lockstep.planner.figures import plain, short
from lockstep.planner.questions import ask
from lockstep.site.verify.budgets import compressed
from tests.conftest import need

from .conftest import ROOT, SPECIMEN, Site

SCHEMES = {"light": "default", "dark": "slate"}
PHONE: Any = {"width": 360, "height": 800}
FIRST_LOAD = 350_000  # bytes that travel, but for the explorables' Python
# A page of each kind: every template, and whatever only some pages have. They
# stand for all on every day but one of a week.
SAMPLE = {
    "",
    "biotech/sequence-and-structure/",  # formulas and a chart
    "cheat-sheet/",
    "concepts/parallelism/",  # the most diagrams
    "handbook/",  # the longest
    "labs/lab-03-sharding/",  # a notebook
    "performance/profiling/",  # traces, recorded outputs
    "planner/",
    "plain/",
    "practice/cards/",
    "practice/drills/drill-2-distributed/",
    "practice/estimation/",
    "practice/find-the-bug/",
    "practice/interview-map/",  # wide tables
    "practice/labs/lab-09-interview-scenarios/",
    "practice/mock-interview/",
    "practice/questions/",
    "practice/questions/significance-of-five-seeds/",
    "reference/api/",
    "reference/api/trainer/step/",
    "reference/glossary/",
    "reliability/errors/",
    "reliability/errors/unsupported-global-add-safe-globals/",
    "reliability/silent-failures/in-depth/",  # the most folds
}
DARK = {  # those of them with colors of their own
    "biotech/sequence-and-structure/",
    "concepts/parallelism/",
    "labs/lab-03-sharding/",
    "performance/profiling/",
    "plain/",
    "planner/",
    "practice/questions/significance-of-five-seeds/",
}
NARROW = {  # those of them that a phone lays out in a different way
    "",
    "concepts/parallelism/",
    "plain/",
    "planner/",
    "practice/interview-map/",
    "practice/questions/",
}
whole = pytest.mark.parametrize(
    "whole",
    [False, pytest.param(True, marks=pytest.mark.weekly)],
    ids=["sample", "all"],
)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
INIT = """
window.shift = 0;
new PerformanceObserver((list) => {
  for (const { value } of list.getEntries()) window.shift += value;
}).observe({ type: "layout-shift", buffered: true });
"""
INDEX = "search/search_index.json"
MODULE = (SPECIMEN / "module.py").read_text("utf-8")

expect.set_options(timeout=20_000)  # 5 s are few on a busy machine
pytestmark = [pytest.mark.timeout(1200), pytest.mark.xdist_group("site-walks")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    need(bool(path), "Chromium (`apt-get install chromium`)")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=path, args=FLAGS, chromium_sandbox=False
        )
        yield chromium
        chromium.close()


class Visit:
    """A tab that remembers whatever went wrong in it."""

    def __init__(self, browser: Browser, site: Site, **options: Any) -> None:
        self.site = site
        self.context = browser.new_context(**options)
        self.context.add_init_script(INIT)
        self.page: Page = self.context.new_page()
        self.faults: list[str] = []
        self.requests: list[str] = []
        page = self.page
        page.on("console", self._console)
        page.on("pageerror", lambda e: self.faults.append(f"error: {e}"))
        page.on("request", lambda r: self.requests.append(r.url))
        page.on("response", self._response)
        page.on("requestfailed", self._failed)

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def open(self, address: str) -> Page:
        self.page.goto(self.site.address + address)
        return self.page

    def until(self, condition: str, given: Any = None) -> None:
        """Wait for a condition, a function in JavaScript, as the page's policy
        keeps Playwright from evaluating one again and again."""
        self.page.evaluate(
            f"""async (given) => {{
              while (!await ({condition})(given))
                await new Promise(requestAnimationFrame);
            }}""",
            given,
        )

    def pages(self, whole: bool, sample: set[str] = SAMPLE) -> dict[str, str]:
        """The HTML of each page by address: all of them, or the sample's."""
        found = self.site.pages()
        assert found.keys() >= sample
        return found if whole else {one: found[one] for one in sorted(sample)}

    def walk(
        self, whole: bool, sample: set[str] = SAMPLE
    ) -> Iterator[tuple[str, str]]:
        """Each page's address and HTML, once a click has led there."""
        pages = self.pages(whole, sample)
        self.open("plain/")
        self.page.evaluate("window.kept = true")
        for address, html in [*pages.items(), ("plain/", pages["plain/"])]:
            # By script, since on a phone the links wait in a drawer, and not
            # every page is in the navigation.
            self.page.evaluate(
                """(to) => {
                  const link = document.createElement("a");
                  link.href = to;
                  document.querySelector("article").append(link);
                  link.click();
                }""",
                self.site.address + address,
            )
            self.until(
                "(to) => document.querySelector('[rel=canonical]').href === to",
                self.site.address + address,
            )
            yield address, html
        assert self.page.evaluate("window.kept"), "a page was loaded anew"

    def weight(self) -> int:
        """Bytes that came with the page, as they travel, but for the Python of
        its explorables."""
        local = self.site.address
        paths = {
            url.removeprefix(local).partition("?")[0]
            for url in self.requests
            if url.startswith(local)
            and not re.search(r"/assets/(micropython/|python-)", url)
        }
        files = [
            self.site.folder / path / "index.html"
            if path.endswith("/") or not path
            else self.site.folder / path
            for path in paths
        ]
        return sum(len(compressed(file.read_bytes())) for file in files)

    def _failed(self, request: Request) -> None:
        # A page that is left while it fetches breaks that off, and may.
        if request.failure != "net::ERR_ABORTED":
            self.faults.append(f"failed: {request.url} {request.failure}")

    def assert_clean(self, where: str) -> None:
        self.page.wait_for_load_state("networkidle")
        local = ("data:", "blob:", self.site.address)
        away = [url for url in self.requests if not url.startswith(local)]
        assert away == [], f"{where or 'home'}: requests to others"
        # Each is told once, by whatever looks next: a late one is not lost.
        faults, self.faults = self.faults, []
        assert faults == [], where or "home"

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"console {message.type}: {message.text}")

    def _response(self, response: Any) -> None:
        if response.status >= 400:
            self.faults.append(f"{response.status}: {response.url}")


@whole
def test_every_page_loads_clean_and_light_and_keeps_its_place(
    browser: Browser, site: Site, subtests: pytest.Subtests, whole: bool
) -> None:
    with Visit(browser, site) as visit:
        for address, html in visit.pages(whole).items():
            with subtests.test(address):
                loads_clean(visit, address, html)


def loads_clean(visit: Visit, address: str, html: str) -> None:
    visit.requests.clear()
    page = visit.open(address)
    assert drawings(page) == html.count('<div class="diagram">')
    visit.assert_clean(address)
    assert visit.site.address + INDEX not in visit.requests
    assert visit.weight() <= FIRST_LOAD
    # A browser that got no time may paint half a page; what is the page's
    # comes again.
    for _ in range(5):
        if page.evaluate("window.shift") > 0.02:
            visit.open(address)
            visit.assert_clean(address)
    assert page.evaluate("window.shift") <= 0.02
    narrow = page.locator(".admonition-title").evaluate_all(
        "all => all.filter(bar =>"
        " bar.clientWidth !== bar.parentElement.clientWidth).length"
    )
    assert narrow == 0


def test_a_page_runs_no_script_that_was_not_built(
    browser: Browser, site: Site
) -> None:
    ran = "document.documentElement.dataset.ran = 1"
    with Visit(browser, site) as visit:
        page = visit.open("plain/")
        page.evaluate(
            """(text) => {
              const script = document.createElement("script");
              script.textContent = text;
              document.body.append(script);
              const button = document.createElement("button");
              button.setAttribute("onclick", text);
              document.body.append(button);
              button.click();
              setTimeout(text);
            }""",
            ran,
        )
        page.evaluate("() => new Promise(setTimeout)")
        assert page.locator("html").get_attribute("data-ran") is None
        assert len(visit.faults) == 3, visit.faults
        assert all("Security Policy" in fault for fault in visit.faults)


def test_a_page_reaches_no_other_host(browser: Browser, site: Site) -> None:
    with Visit(browser, site) as visit:
        page = visit.open("plain/")
        refused = page.evaluate(
            """() => Promise.allSettled([
              fetch("https://example.org/"),
              import("https://example.org/x.mjs"),
              WebAssembly.compile(
                new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])),
              new Promise((done, failed) => {
                const picture = new Image();
                picture.onload = done;
                picture.onerror = failed;
                picture.src = "https://example.org/x.png";
              }),
            ]).then((all) => all.map((one) => one.status))"""
        )
        assert refused == ["rejected"] * 4
        blocked = [x for x in visit.faults if "Content Security" in x]
        assert len(blocked) >= 3, visit.faults


@whole
@pytest.mark.parametrize("scheme", SCHEMES)
def test_instant_navigation_is_clean_and_every_page_accessible(
    browser: Browser,
    site: Site,
    subtests: pytest.Subtests,
    scheme: Any,
    whole: bool,
) -> None:
    with Visit(browser, site, color_scheme=scheme) as visit:
        axe = ROOT / "node_modules" / "axe-core" / "axe.min.js"
        visit.context.add_init_script(path=axe)
        page = visit.page
        sample = DARK if scheme == "dark" else SAMPLE
        for address, html in visit.walk(whole, sample):
            with subtests.test(address):
                body = page.locator("body")
                shown = body.get_attribute("data-md-color-scheme")
                assert shown == SCHEMES[scheme]
                assert drawings(page) == html.count('<div class="diagram">')
                page.evaluate(UNFOLD)
                assert violations(page, scheme) == []
        visit.assert_clean("after them all")


def drawings(page: Page) -> int:
    """How many diagrams of the page are seen: with room, and edges in the color
    of its scheme."""
    return page.evaluate(
        """[...document.querySelectorAll(".diagram > svg")].filter((svg) => {
          const edge = svg.querySelector("[marker-end]");
          const color = getComputedStyle(document.body)
            .getPropertyValue("--md-code-fg-color");
          const probe = svg.parentElement.appendChild(
            document.createElement("i"));
          probe.style.color = color;
          const expected = getComputedStyle(probe).color;
          probe.remove();
          return svg.getBoundingClientRect().height > 50
            && getComputedStyle(edge).stroke === expected;
        }).length"""
    )


def violations(page: Page, scheme: str) -> list[Any]:
    """What axe-core finds: the rule, the element, and how to fix it. Once all
    rules, and again those that see colors."""
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if scheme == "dark":
        options["runOnly"] = ["color-contrast", "link-in-text-block"]
    page.evaluate(SETTLED)
    found = page.evaluate("(options) => axe.run(options)", options)
    assert found["passes"], "axe-core looked at nothing"
    return [
        (fault["id"], node["html"][:200], node["failureSummary"])
        for fault in found["violations"]
        for node in fault["nodes"]
    ]


@whole
def test_every_page_can_be_read_on_a_phone(
    browser: Browser, site: Site, subtests: pytest.Subtests, whole: bool
) -> None:
    phone: Any = {"viewport": PHONE, "has_touch": True}
    assert NARROW < SAMPLE
    with Visit(browser, site, **phone) as visit:
        axe = ROOT / "node_modules" / "axe-core" / "axe.min.js"
        visit.context.add_init_script(path=axe)
        page = visit.page
        for address, _ in visit.walk(whole):
            with subtests.test(address):
                page.evaluate(UNFOLD)
                assert page.evaluate(WIDER_THAN_THE_SCREEN) == []
                wide = page.evaluate("document.documentElement.scrollWidth")
                assert wide <= PHONE["width"]
                assert page.evaluate(SIDEWAYS) == []
                if whole or address in NARROW:
                    assert violations(page, "light") == []
                assert page.evaluate(SHOWN_BY_HOVER) == []
                small = page.evaluate(SMALLEST_TEXT)
                assert small["prose"] >= 16, small
                assert small["code"] >= 12, small
                assert small["label"] >= 12, small


# What is named or made reachable in the next frame is, and nothing fades.
SETTLED = """() => {
  const frame = () => new Promise((next) => requestAnimationFrame(next));
  const ended = () => Promise.allSettled(
    document.getAnimations().map((one) => one.finished));
  const late = new Promise((next) => setTimeout(next, 2000));
  return frame().then(frame).then(() => Promise.race([ended(), late]));
}"""
# What a rule shows under a mouse alone, and neither by focus nor by a link.
# On a page that somebody touches it is there, or it is not needed.
SHOWN_BY_HOVER = """() => {
  const rules = (from) => [...from].flatMap((rule) =>
    rule.cssRules?.length ? rules(rule.cssRules) : [rule]);
  const shows = ({ opacity, visibility, display, maxHeight }) =>
    opacity === "1" || visibility === "visible" || maxHeight
    || (display && display !== "none");
  return [...document.styleSheets].flatMap((sheet) => rules(sheet.cssRules))
    .filter((rule) => rule.selectorText?.includes(":hover"))
    .filter((rule) => shows(rule.style))
    .filter((rule) => !/:focus|:target/.test(rule.selectorText))
    .map((rule) => rule.cssText);
}"""
UNFOLD = """document.querySelectorAll("details")
  .forEach((folded) => { folded.open = true; })"""
# A wide table stacks; code scrolls in its own box.
SIDEWAYS = """
[...document.querySelectorAll(".md-typeset__scrollwrap")]
  .filter((wrap) => wrap.scrollWidth > wrap.clientWidth)
  .map((wrap) => wrap.textContent.trim().slice(0, 80))
"""
# What scrolls must fit, and what it holds need not.
WIDER_THAN_THE_SCREEN = """
[...document.querySelectorAll("body, main, main *")]
  .filter((e) => e.getBoundingClientRect().right > 361
    && !e.closest("[hidden]")
    && ![...ancestors(e)].some((a) =>
      ["auto", "scroll"].includes(getComputedStyle(a).overflowX)))
  .map((e) => e.outerHTML.slice(0, 120));
function* ancestors(e) {
  while ((e = e.parentElement) && e.tagName !== "MAIN") yield e;
}
"""
# In CSS pixels, as drawn: a diagram is scaled to the screen with its labels.
SMALLEST_TEXT = """
(() => {
  const shown = (e) => e.getClientRects().length && e.textContent.trim();
  const size = (e) => parseFloat(getComputedStyle(e).fontSize);
  const least = (found) => Math.min(100, ...found);
  const all = (root, query) => [...root.querySelectorAll(query)].filter(shown);
  const drawn = [...document.querySelectorAll(".diagram > svg")]
    .filter(shown);
  return {
    prose: least(all(document, "article > p, article > ul > li").map(size)),
    code: least(all(document, "article pre > code").map(size)),
    label: least(drawn.flatMap((svg) => {
      const scale = svg.getBoundingClientRect().width
        / svg.viewBox.baseVal.width;
      return all(svg, "text, foreignObject span, foreignObject p")
        .map((label) => size(label) * scale);
    })),
  };
})()
"""


def folded(page: Page) -> Locator:
    """A line of code that stands in a closed note of the plain page."""
    return page.get_by_role("main").get_by_text("Samples in a step.")


@whole
def test_without_scripts_every_page_can_be_read(
    browser: Browser, site: Site, whole: bool
) -> None:
    with Visit(browser, site, java_script_enabled=False) as visit:
        page = visit.page
        for address in visit.pages(whole):
            page.goto(site.address + address)
            assert page.locator("article").evaluate(UNSEEN) == [], address
        page.goto(site.address + "plain/")
        expect(folded(page)).to_be_hidden()
        page.locator("summary", has_text="Folded").first.click()
        expect(folded(page)).to_be_visible()
        page.goto(site.address + "reliability/resume-exam/in-depth/")
        tabs = page.locator(".tabbed-block")
        expect(tabs.nth(1)).to_be_hidden()
        page.locator(".tabbed-labels label").nth(1).click()
        expect(tabs.nth(1)).to_be_visible()
        page.get_by_role("link", name="Learn", exact=True).first.click()
        expect(page).to_have_url(site.address + "concepts/")
        page.set_viewport_size(PHONE)
        page.locator("label[for=__drawer]:visible").first.click()
        drawer = page.locator(".md-sidebar--primary")
        expect(drawer.get_by_role("link", name="Practice")).to_be_in_viewport()


def test_a_core_draws_its_picture_on_the_first_screen(
    browser: Browser, site: Site
) -> None:
    """On a laptop, the picture of each core begins above y = 900."""
    cores = [x for x, html in site.pages().items() if "reading-time" in html]
    assert cores
    with Visit(browser, site, viewport={"width": 1440, "height": 900}) as visit:
        for address in cores:
            page = visit.open(address)
            picture = page.locator("article :is(.chart, .explore) svg:visible")
            box = picture.first.bounding_box()
            assert box, address
            assert box["y"] <= 900, address


# What a reader would miss: nothing but what a click unfolds, what is marked as
# hidden and what waits for scripts by the page's own word.
UNSEEN = """
(article) => [...article.querySelectorAll("p, li, pre, td, th, h1, h2, h3")]
  .filter((e) => e.textContent.trim() && !e.getClientRects().length
    && !e.closest("details:not([open]), .tabbed-block, [hidden], form,"
      + " .planner-ask"))
  .map((e) => e.outerHTML.slice(0, 120))
"""


def test_search_finds_what_is_folded_and_opens_it(
    browser: Browser, site: Site
) -> None:
    with Visit(browser, site) as visit:
        page = visit.open("")
        page.evaluate("window.kept = true")
        page.keyboard.press("/")
        page.keyboard.type("palimpsest")
        # What the first letters alone find is listed on the way.
        expect(page.locator(".md-search-result__link").first).to_contain_text(
            "Plain"
        )
        page.keyboard.press("Control+a")
        page.keyboard.type("specimen Shape quoted")  # in the code alone
        page.locator(".md-search-result__link[href*='#inside']").first.click()
        expect(folded(page)).to_be_visible()
        assert page.evaluate("window.kept"), "the page was loaded anew"
        visit.assert_clean("search")


def test_a_link_and_a_printer_open_what_is_folded(
    browser: Browser, site: Site
) -> None:
    with Visit(browser, site) as visit:
        page = visit.open("plain/")
        expect(folded(page)).to_be_hidden()
        visit.assert_clean("plain")  # and ready
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        expect(folded(page)).to_be_visible()
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        expect(folded(page)).to_be_hidden()
        visit.open("plain/#inside")
        expect(folded(page)).to_be_visible()
        expect(page.locator("#inside")).to_be_in_viewport()


def test_code_is_copied_as_it_stands(browser: Browser, site: Site) -> None:
    granted = ["clipboard-read", "clipboard-write"]
    with Visit(browser, site, permissions=granted) as visit:
        page = visit.open("plain/#inside")
        page.get_by_role("button", name="Copy to clipboard").click()
        visit.until("() => navigator.clipboard.readText()")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.strip() == included(MODULE)


def included(source: str) -> str:
    """What a page shows of a module: all but the markers of sections."""
    lines = source.splitlines()
    return "\n".join(x for x in lines if "--8<--" not in x).strip()


def planner_says(page: Page, name: str, **given: Any) -> None:
    """The planner's page shows what the planner's files say in CPython."""
    # An answer that is under way replaces what has the focus.
    expect(page.locator(".planner[aria-busy=true]")).to_have_count(0)
    answer = page.locator(f"[data-ask={name}] .planner-answer")
    expected = BeautifulSoup(planner.answer(name, given), "html.parser")
    expect(answer).to_have_text(expected.get_text())
    expect(answer).to_be_visible()


def test_the_planner_answers_as_somebody_types(
    browser: Browser, site: Site
) -> None:
    """In Chromium the planner's page shows CPython's answers for what is typed,
    and names what is wrong with what is not a number."""
    with Visit(browser, site) as visit:
        page = visit.open("planner/?ask=memory&params=7.5e9&dp=64&zero_stage=1")
        given: dict[str, Any] = {"params": 7.5e9, "dp": 64, "zero_stage": 1}
        planner_says(page, "memory", **given)
        shown = page.locator(".planner-shown")
        ranks = shown.get_by_label("data parallel")
        ranks.fill("48")
        planner_says(page, "memory", **given | {"dp": 48})
        asked = page.url
        assert asked.endswith("?ask=memory&params=7.5e9&dp=48&zero_stage=1")
        ranks.fill("two")
        refused = page.get_by_role("alert")
        expect(refused).to_have_text("--dp is two; it must be a number")
        assert page.url == asked
        ranks.fill("<b>")
        expect(refused).to_have_text("--dp is <b>; it must be a number")
        page.reload()
        planner_says(page, "memory", **given | {"dp": 48})
        visit.assert_clean("planner")


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_the_planner_shows_its_verdict_first(
    browser: Browser, site: Site, width: int, height: int
) -> None:
    """The verdict is on the first screen, and stays there as the last input
    comes into view."""
    size: ViewportSize = {"width": width, "height": height}
    with Visit(browser, site, viewport=size) as visit:
        page = visit.open("planner/")
        shown = page.locator(".planner-shown")
        verdict = shown.locator(".planner-verdict")
        for _ in range(2):
            box = verdict.bounding_box()
            assert box
            assert box["y"] > 0
            assert box["y"] + box["height"] < height
            shown.get_by_label("tokens in all").scroll_into_view_if_needed()


def test_the_planner_searches_and_opens_a_layout(
    browser: Browser, site: Site
) -> None:
    """A row of the search leads to that layout, asked for."""
    with Visit(browser, site) as visit:
        page = visit.open("planner/")
        page.get_by_label("Ask for").select_option("search")
        given = dict(planner.EXAMPLES[1][2]) | {"gpus": 64}
        shown = page.locator(".planner-shown")
        shown.get_by_label("GPUs", exact=True).fill("64")
        planner_says(page, "search", **given)
        row = shown.locator("tbody tr").first
        step = row.locator("td").nth(1).inner_text()
        row.locator("a").click()
        answer = page.locator("[data-ask=run] .planner-answer")
        expect(answer).to_contain_text(f"One step: {step}")


def test_the_planner_is_used_by_keyboard(browser: Browser, site: Site) -> None:
    with Visit(browser, site) as visit:
        page = visit.open("planner/")
        example = dict(planner.EXAMPLES[0][2])
        planner_says(page, "run", **example)
        page.get_by_label("Ask for").focus()
        page.keyboard.press("End")
        planner_says(page, "goodput", **dict(planner.EXAMPLES[-1][2]))
        page.keyboard.press("Home")
        planner_says(page, "run", **example)
        step = page.locator("#run-step_seconds")
        expect(step).to_be_hidden()
        shown = page.locator(".planner-shown")
        name = page.get_by_text("step", exact=True)
        shown.locator("summary", has=name).focus()
        page.keyboard.press("Enter")
        seconds = plain(ask("run", example)["step_seconds"])
        expect(step).to_contain_text(f"= {short(seconds)} s")
        bubble = page.locator("#run-bubble_overhead")
        expect(bubble).to_be_hidden()
        shown.locator("summary", has_text="idle: the bubble").focus()
        page.keyboard.press("Space")
        page.locator("#run-bubble_seconds a", has_text="overhead").focus()
        page.keyboard.press("Enter")
        expect(bubble).to_be_in_viewport()
        shown.get_by_label("GPUs", exact=True).fill("256")
        planner_says(page, "run", **example | {"gpus": 256})
        expect(step).to_be_visible()  # what was unfolded stays so


PASTE = """\
[rank1]:[E1128 03:12:07.1 P.cpp:632] [Rank 1] Some NCCL operations have failed \
or timed out. Due to the asynchronous nature of CUDA kernels
[rank5]: Traceback (most recent call last):
[rank5]:   File "/srv/run/train.py", line 212, in main
[rank5]:     train(cfg)
[rank5]: KeyError: '<img src=x>'
"""


def test_a_pasted_log_is_explained_in_the_page(
    browser: Browser, site: Site
) -> None:
    """By keyboard alone, a reader pastes a log into the box; the verdict is the
    one of CPython, the log's text is shown as text, and nothing is sent."""
    with Visit(browser, site) as visit:
        page = visit.open("reliability/explain/")
        log = page.get_by_label("Paste the last lines of your log")
        log.focus()
        page.keyboard.insert_text(PASTE)
        visit.requests.clear()
        page.keyboard.press("Control+Enter")
        answer = page.locator(".explain-answer")
        headline = answer.locator(".explain-headline")
        expect(headline).to_have_text(
            "First fault: rank 5: KeyError: '<img src=x>'"
        )
        expected = explained(catalog.index(), PASTE)
        text = BeautifulSoup(explained_html(expected), "html.parser")
        expect(answer).to_have_text(text.get_text())
        assert answer.locator("img").count() == 0
        log.fill("[rank0]: step 1 loss 2.31")
        page.get_by_role("button", name="Explain").press("Enter")
        expect(headline).to_contain_text("First fault not found")
        expect(answer.locator("ol > li")).to_have_count(4)
        log.fill(" ")
        page.get_by_role("button", name="Explain").click()
        expect(page.get_by_role("alert")).to_have_text(
            "paste some lines of a log first"
        )
        visit.assert_clean("the box")
        posted = [url for url in visit.requests if "?" in url]
        assert posted == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_verdict_is_readable_on_a_phone(
    browser: Browser, site: Site, scheme: Any
) -> None:
    """On a phone, in both schemes, the box and its verdict are accessible and
    no wider than the screen."""
    with Visit(browser, site, color_scheme=scheme, viewport=PHONE) as visit:
        axe = ROOT / "node_modules" / "axe-core" / "axe.min.js"
        visit.context.add_init_script(path=axe)
        page = visit.open("reliability/explain/")
        log = page.get_by_label("Paste the last lines of your log")
        log.fill(PASTE + "x" * 500)
        page.get_by_role("button", name="Explain").click()
        expect(page.locator(".explain-headline")).to_be_visible()
        assert violations(page, scheme) == []
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= PHONE["width"]
        visit.assert_clean("the box on a phone")


def test_a_figure_on_another_page_asks_the_planner(
    browser: Browser, site: Site
) -> None:
    with Visit(browser, site) as visit:
        page = visit.open("concepts/memory/")
        figure = page.locator("a.figure").first
        shown = figure.inner_text()
        page.evaluate("window.kept = true")
        figure.click()
        answer = page.locator(".planner-shown .planner-answer")
        expect(answer).to_contain_text(shown)
        unfolded = page.locator(".planner-shown details[open] p")
        expect(unfolded).to_contain_text("= " + shown)
        expect(unfolded).to_be_in_viewport()
        assert "?ask=" in page.url
        assert page.evaluate("window.kept"), "the planner was loaded anew"


def test_without_scripts_the_planner_shows_its_examples(
    browser: Browser, site: Site
) -> None:
    with Visit(browser, site, java_script_enabled=False) as visit:
        visit.page.goto(site.address + "planner/")
        for name, _, given in planner.EXAMPLES:
            planner_says(visit.page, name, **dict(given))
        assert not any(
            one.is_visible()
            for one in visit.page.locator(".planner form").all()
        )
