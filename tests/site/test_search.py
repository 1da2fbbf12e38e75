"""The search box leads to the right page first."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Browser

from lockstep.site.build.addresses import address

from .conftest import Site
from .test_browser import Visit, browser  # noqa: F401 - a fixture

PAGES: dict[str, list[str]] = yaml.safe_load(
    Path(__file__).with_name("search.yml").read_text("utf-8")
)
# What Material asks its worker, and what it is answered.
LISTEN = """
const asked = []
window.Worker = class extends Worker {
  constructor(...given) {
    super(...given)
    this.addEventListener("message", ({ data }) => {
      if (data.type !== 3) return
      const query = asked.shift()
      window.answer?.(query, data.data.items)
    })
  }
  postMessage(message) {
    if (message.type === 2) asked.push(message.data)
    super.postMessage(message)
  }
}
"""
ASK = """
async (query) => {
  const box = document.querySelector("[data-md-component=search-query]")
  const items = await new Promise(resolve => {
    window.answer = (asked, items) => asked === query && resolve(items)
    box.focus()
    box.value = query
    box.dispatchEvent(new Event("keyup"))
  })
  return items.map(([first]) => first.location)
}
"""

pytestmark = pytest.mark.xdist_group("site")


@pytest.fixture(scope="module")
def search(
    browser: Browser,  # noqa: F811
    site: Site,
) -> Iterator[Callable[[str], list[str]]]:
    """Types into the search box; the addresses that it lists, best first."""
    with Visit(browser, site) as visit:
        visit.context.add_init_script(LISTEN)
        page = visit.open("plain/")
        yield lambda query: [str(a) for a in page.evaluate(ASK, query)]


def test_the_right_page_is_found_first(
    search: Callable[[str], list[str]],
) -> None:
    wrong = {}
    for page, queries in PAGES.items():
        for query in queries:
            found = [place.partition("#")[0] for place in search(query)]
            if found[:1] != [address(page)]:
                wrong[query] = (page, found[:3])
    assert not wrong, wrong


def test_every_beginning_of_a_word_is_answered(
    search: Callable[[str], list[str]],
) -> None:
    """A letter asks for every word that begins with it, also for one that the
    index made up, which would leave the query without an answer."""
    characters = string.ascii_lowercase + string.digits
    assert [each for each in characters if not search(each)] == []
