"""The built site in a browser: clean, self-contained, readable, accessible."""

from __future__ import annotations

import functools
import os
import shutil
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from .conftest import copy_repository, need, run

SCHEMES = ("light", "dark")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
# Material draws a diagram into a closed shadow root; open it to look inside.
OPEN_SHADOWS = """
const attach = Element.prototype.attachShadow;
Element.prototype.attachShadow = function (options) {
  return attach.call(this, { ...options, mode: "open" });
};
"""
PLAIN = "# Plain\n\nA page with no diagram, and the word palimpsest.\n"

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("browser")]


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


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing: the page's own failures are what counts."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, node_modules: Path) -> Path:
    """Where the site comes to lie."""
    root = tmp_path_factory.mktemp("browser")
    copy_repository(root, "plain.md")
    (root / "docs" / "plain.md").write_text(PLAIN)
    return root / "site"


@pytest.fixture(scope="module")
def site(built: Path) -> Iterator[str]:
    """The address of the site, built strictly for it and served there."""
    handler = functools.partial(Quiet, directory=str(built))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        address = f"http://127.0.0.1:{server.server_port}/"
        build = ("mkdocs", "build", "--strict")
        result = run(*build, cwd=built.parent, SITE_URL=address)
        assert result.returncode == 0, result.stdout + result.stderr
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield address
        server.shutdown()


@pytest.fixture(scope="module")
def addresses(built: Path, site: str) -> list[str]:
    """Every page of the site, relative to its root."""
    found = [p.parent.relative_to(built) for p in built.rglob("index.html")]
    assert len(found) >= 3
    return ["" if p == Path() else f"{p.as_posix()}/" for p in sorted(found)]


class Visit:
    """A tab that remembers whatever went wrong in it."""

    def __init__(self, browser: Browser, site: str, **options: Any) -> None:
        self.site = site
        self.context = browser.new_context(**options)
        self.context.add_init_script(OPEN_SHADOWS)
        self.page: Page = self.context.new_page()
        self.faults: list[str] = []
        self.requests: list[str] = []
        page = self.page
        page.on("console", self._console)
        page.on("pageerror", lambda e: self.faults.append(f"error: {e}"))
        page.on("request", lambda r: self.requests.append(r.url))
        page.on("response", self._response)
        page.on(
            "requestfailed",
            lambda r: self.faults.append(f"failed: {r.url} {r.failure}"),
        )

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def open(self, address: str) -> Page:
        self.page.goto(self.site + address, wait_until="networkidle")
        self.drawn()
        return self.page

    def drawn(self) -> None:
        """Wait until every diagram of the page has become a drawing."""
        self.page.wait_for_function("!document.querySelector('pre.mermaid')")

    def assert_clean(self) -> None:
        local = ("data:", "blob:", self.site)
        away = [url for url in self.requests if not url.startswith(local)]
        assert not away, "requests to others"
        assert not self.faults

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"console {message.type}: {message.text}")

    def _response(self, response: Any) -> None:
        if response.status >= 400:
            self.faults.append(f"{response.status}: {response.url}")


def drawings(page: Page) -> int:
    return page.evaluate(
        """[...document.querySelectorAll("div.mermaid")]
           .filter((d) => d.shadowRoot.querySelector("svg")).length"""
    )


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_page_is_clean_drawn_and_accessible(
    browser: Browser,
    site: str,
    built: Path,
    addresses: list[str],
    node_modules: Path,
    scheme: Any,
) -> None:
    total = 0
    for address in addresses:
        with Visit(browser, site, color_scheme=scheme) as visit:
            page = visit.open(address)
            shown = page.locator("body").get_attribute("data-md-color-scheme")
            assert shown == {"light": "default", "dark": "slate"}[scheme]
            html = (built / address / "index.html").read_text("utf-8")
            wanted = html.count('class="mermaid"')
            assert drawings(page) == wanted, address
            total += wanted
            visit.assert_clean()
            page.add_script_tag(path=node_modules / "axe-core" / "axe.min.js")
            assert axe(page) == [], address
    assert total > 0


def axe(page: Page) -> list[Any]:
    """What axe-core finds: the rule, the element, and how to mend it."""
    found = page.evaluate("axe.run()")
    assert found["passes"], "axe-core looked at nothing"
    return [
        (fault["id"], node["html"][:200], node["failureSummary"])
        for fault in found["violations"]
        for node in fault["nodes"]
    ]


def test_diagram_after_instant_navigation(browser: Browser, site: str) -> None:
    with Visit(browser, site) as visit:
        page = visit.open("plain/")
        assert not any("mermaid/" in url for url in visit.requests)
        page.evaluate("window.kept = true")
        page.get_by_role("link", name="Home").first.click()
        page.wait_for_selector("div.mermaid")
        assert page.evaluate("window.kept"), "the page was loaded anew"
        assert drawings(page) > 0
        visit.assert_clean()


def test_diagram_moves_no_text(browser: Browser, site: str) -> None:
    with Visit(browser, site) as visit:
        visit.context.add_init_script(
            """window.shift = 0;
            new PerformanceObserver((list) => {
              for (const { value } of list.getEntries()) window.shift += value;
            }).observe({ type: "layout-shift", buffered: true });"""
        )
        page = visit.open("")
        assert drawings(page) > 0
        page.wait_for_timeout(200)
        # 0.1 is where a shift begins to be called bad.
        assert page.evaluate("window.shift") < 0.02


def test_search_finds_a_term(browser: Browser, site: str) -> None:
    with Visit(browser, site) as visit:
        page = visit.open("")
        page.keyboard.press("/")
        page.keyboard.type("palimpsest")
        result = page.locator(".md-search-result__link").first
        result.wait_for()
        assert "Plain" in result.inner_text()
        visit.assert_clean()


def test_no_page_scrolls_sideways_on_a_phone(
    browser: Browser, site: str, addresses: list[str]
) -> None:
    size: Any = {"width": 390, "height": 844}
    for address in addresses:
        with Visit(browser, site, viewport=size) as visit:
            page = visit.open(address)
            wide = page.evaluate(
                """[document.documentElement, document.body,
                    ...document.querySelectorAll("main *")]
                  .filter((e) => e.getBoundingClientRect().right > 391
                    && !e.closest("pre, table, .highlight, [hidden]"))
                  .map((e) => e.outerHTML.slice(0, 120))"""
            )
            assert wide == [], address
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
