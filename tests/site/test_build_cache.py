"""What the build keeps is what it would have made."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import markdown
import pytest
from jinja2 import Environment
from material.plugins.search.plugin import SearchIndex
from mkdocs.config import load_config
from mkdocs.structure.pages import Page
from mkdocstrings_handlers.python._internal import rendering
from pymdownx.highlight import Highlight

from lockstep.site.build import build_cache
from lockstep.site.build.build_cache import (
    KeptNavigation,
    Store,
    keep_compiled,
    keep_formatted,
    keep_highlighted,
)

from .conftest import ROOT


def page(url: str) -> Any:
    return SimpleNamespace(url=url)


PAGES = [page(x) for x in ("", "a/", "a/one/", "a/two/", "b/", "b/one/")]


def test_a_part_is_rendered_once_for_the_pages_of_a_folder() -> None:
    made: list[str] = []

    def render(item: Any, path: str, level: int, parent: Any) -> str:
        made.append(path)
        return f"{path} {len(made)}"

    navigation = KeptNavigation(PAGES)
    parent = SimpleNamespace(active=False)

    def part(of: Page | None, path: str, active: bool = False) -> str:
        item = SimpleNamespace(active=active)
        return navigation.part(render, of, item, path, 2, parent)

    _, above, one, two, _, other = PAGES
    first = part(one, "x")
    assert part(two, "x") == first
    assert part(two, "y") != first
    assert part(other, "x") != first  # other addresses
    assert part(above, "x") != part(above, "x")  # above the pages of its folder
    assert part(two, "x", active=True) != first
    assert part(None, "x") != first  # 404.html
    parent.active = True  # its items are sections
    assert part(one, "x") != first


def test_material_asks_for_each_part(monkeypatch: pytest.MonkeyPatch) -> None:
    env = load_config(str(ROOT / "mkdocs.yml")).theme.get_env()
    KeptNavigation([]).install(env)
    assert env.loader
    source, _, _ = env.loader.get_source(env, build_cache._NAV_ITEM)
    assert source.count("{{ kept(render, page, item, ") == 1


def test_what_was_made_is_kept_for_the_next_build_while_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kept"

    def build(*sources: str) -> list[str]:
        made: list[str] = []

        def make(source: str) -> str:
            made.append(source)
            return source * 2

        store = Store(path, "jinja2")
        for source in sources:
            found = store.get(source, lambda source=source: make(source))
            assert found == source * 2
        store.close()
        return made

    assert build("a", "b", "a") == ["a", "b"]
    assert build("b") == []
    assert build("a", "b") == ["a"]
    monkeypatch.setattr(build_cache, "version", lambda tool: "0")
    assert build("a", "b") == ["a", "b"]
    path.write_bytes(b"half")
    assert build("a") == ["a"]


def test_code_and_texts_are_what_they_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Highlight, "highlight", Highlight.highlight)
    text = "```python\nx = 1\n```\n\n```python\ny = 2\n```\n\n`#!python z`\n"
    extensions = ["pymdownx.superfences", "pymdownx.inlinehilite"]
    plain = markdown.markdown(text, extensions=extensions)
    for _ in range(2):
        store = Store(tmp_path / "code", "pygments")
        keep_highlighted(store)
        assert markdown.markdown(text, extensions=extensions) == plain
        env = Environment()
        keep_compiled(store, env)
        assert env.from_string("{{ a }}").render(a=1) == "1"
        assert len(store._now) == 3
        store.close()


def test_signatures_are_what_they_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendering, "_get_formatter", rendering._get_formatter)
    code = "def f(one: int, other: int) -> None: pass"
    plain = [rendering.do_format_code(code, n) for n in (20, 30)]
    assert len({code, *plain}) == 3
    for _ in range(2):
        store = Store(tmp_path / "signatures", "black")
        keep_formatted(store)
        found = [rendering.do_format_code(code, n) for n in (20, 30)]
        assert found == plain
        assert len(store._now) == 2
        store.close()


def test_sections_of_a_page_are_divided_once_for_the_same_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    add = SearchIndex.add_entry_from_context
    monkeypatch.setattr(SearchIndex, "add_entry_from_context", add)
    made: list[str] = []

    def divided(self: SearchIndex, page: Any) -> None:
        made.append(page.content)
        add(self, page)

    monkeypatch.setattr(SearchIndex, "add_entry_from_context", divided)

    def entries(html: str, **meta: object) -> list[dict[str, Any]]:
        store = Store(tmp_path / "kept", "mkdocs-material")
        build_cache.keep_sections(store)
        index = SearchIndex()
        index.entries = [{"location": "before/"}]
        page = SimpleNamespace(
            url="a/", title="A", meta=meta, content=html, toc=[]
        )
        index.add_entry_from_context(page)
        store.close()
        return index.entries

    html = '<h1 id="a">A</h1><p>one</p><h2 id="b">B</h2><p>two</p>'
    first = entries(html)
    assert [one["location"] for one in first] == ["before/", "a/", "a/#b"]
    assert entries(html) == first
    assert made == [html]
    assert entries(html, tags=["c"])[1]["tags"] == ["c"]
    assert entries(html.replace("two", "2"))[2]["text"] == "<p>2</p>"
    assert entries(html, search={"exclude": True}) == first[:1]
    assert len(made) == 4
