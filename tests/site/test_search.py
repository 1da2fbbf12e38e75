"""The search box leads to the right page, and fetches little."""

from __future__ import annotations

import json
import string
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Browser, expect

from lockstep.site.build.addresses import address
from lockstep.site.build.search import STOP_WORDS, words
from lockstep.site.verify.budgets import compressed

from .conftest import Site, searched
from .test_browser import Visit, browser  # noqa: F401 - a fixture

QUERIES = yaml.safe_load(
    Path(__file__).with_name("search.yml").read_text("utf-8")
)
WORKER = Path("docs/assets/search-worker.js")
# What the worker answers Material, and which query.
LISTEN = """
window.Worker = class extends Worker {
  constructor(...given) {
    super(...given)
    this.addEventListener("message", ({ data: { type, data } }) => {
      if (type === 3) window.answer?.(data.query, data.items)
    })
  }
}
"""
SHOWN = ".md-search-result__item p:visible"  # others are folded or empty
ASK = """
async (query) => {
  const box = document.querySelector("[data-md-component=search-query]")
  const items = await new Promise(resolve => {
    window.answer = (asked, items) => asked === query && resolve(items)
    box.focus()
    box.value = query
    box.dispatchEvent(new Event("keyup"))
  })
  return items.map(([first]) => first.location.split("#")[0])
}
"""
Search = Callable[[str], list[str]]

pytestmark = pytest.mark.xdist_group("site")


@pytest.fixture(scope="module")
def visit(browser: Browser, site: Site) -> Iterator[Visit]:  # noqa: F811
    with Visit(browser, site) as visit:
        visit.context.add_init_script(LISTEN)
        visit.open("plain/")
        yield visit


@pytest.fixture(scope="module")
def search(visit: Visit) -> Search:
    """Types into the search box; the pages that it lists, best first."""
    return lambda query: [str(a) for a in visit.page.evaluate(ASK, query)]


def test_subject_in_few_words_finds_its_page_first(search: Search) -> None:
    wrong = {}
    for page, queries in QUERIES["first"].items():
        for query in queries:
            found = search(query)
            if found[:1] != [address(page)]:
                wrong[query] = (page, found[:3])
    assert not wrong, wrong


def test_sentences_and_pasted_messages_find_a_page_among_three(
    search: Search, site: Site
) -> None:
    """At least 95 % of the queries that some page answers."""
    titles = {
        url: sections[0][1].casefold()
        for url, sections in searched(site.folder).items()
    }
    wrong, answerable = {}, 0
    for query, *right in QUERIES["sentences"] + pasted():
        pages = {address(each) for each in right if each.endswith(".md")}
        assert pages <= titles.keys(), f"no page: {pages - titles.keys()}"
        phrase = str(right[-1]).casefold()
        pages |= {each for each, title in titles.items() if phrase in title}
        if pages:
            answerable += 1
            found = search(query)[:3]
            if not pages.intersection(found):
                wrong[query] = found
    assert len(wrong) <= 0.05 * answerable, wrong


def test_queries_are_half_sentences_and_half_messages() -> None:
    assert len(QUERIES["sentences"]) >= 60
    assert len(pasted()) >= 60


def test_every_beginning_of_a_word_is_answered(search: Search) -> None:
    characters = string.ascii_lowercase + string.digits
    assert [each for each in characters if not search(each)] == []


def test_quotes_signs_and_unknown_words_of_a_query_are_left_out(
    search: Search,
) -> None:
    plain = search("exitcode pid")
    assert plain
    assert search('"exitcode:*" ~zyxw -(pid) +exitcode, "pid"') == plain


def test_query_fetches_at_most_300_kilobytes(visit: Visit, site: Site) -> None:
    fetched: list[str] = []
    visit.page.on("requestfinished", lambda sent: fetched.append(sent.url))
    for query, *_ in [*pasted(), ["training hangs"]]:
        page = visit.open("plain/")
        fetched.clear()
        page.evaluate(ASK, query)
        expect(page.locator(SHOWN).first).to_be_visible()
        size = sum(
            len(compressed((site.folder / path).read_bytes()))
            for url in fetched
            if "search" in (path := url.removeprefix(site.address))
        )
        assert 0 < size <= 300_000, (query, size)


def test_worker_divides_words_as_the_index_does(site: Site) -> None:
    pages = searched(site.folder).values()
    texts = [title for sections in pages for _, title, _ in sections]
    texts += ["DDP's all-reduce, no_sync() and fine-tuned 1F1B; classes, axes"]
    script = (
        "globalThis.location = 'https://a/b/c/d.js';"
        f"globalThis.addEventListener = () => {{}};{WORKER.read_text('utf-8')}"
        f";console.log(JSON.stringify({json.dumps(texts)}.map(words)))"
    )
    done = subprocess.run(
        ["node"], input=script, capture_output=True, text=True, check=True
    )
    for text, found in zip(texts, json.loads(done.stdout), strict=True):
        assert [w for w in found if w not in STOP_WORDS] == words(text), text


def pasted() -> list[list[str]]:
    return [*QUERIES["messages"], *QUERIES["unanswered"]]
