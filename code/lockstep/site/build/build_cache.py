"""What a build would make more than once, or has made before.

Material renders the whole navigation for each page. In each build pymdownx
highlights each block of code, Jinja compiles each text with figures, Black lays
out each long signature, and the search plugin divides each page into sections.
All that is a quarter of a build.
"""

from __future__ import annotations

import marshal
import pickle
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import CodeType
from typing import Any

from jinja2 import ChoiceLoader, DictLoader, Environment
from material.plugins.search.plugin import SearchIndex
from mkdocs.structure.pages import Page
from mkdocstrings_handlers.python._internal import rendering
from pygments.token import STANDARD_TYPES
from pymdownx.highlight import Highlight

_NAV_ITEM = "partials/nav-item.html"
_RENDERS = 'render(item, path ~ "_" ~ loop.index, level + 1, nav_item)'
_KEPT = _RENDERS.replace("render(", "kept(render, page, ")


class KeptNavigation:
    """The parts of the navigation that a page is not in. Only their addresses
    differ from page to page, and those are equal for the pages of a folder."""

    def __init__(self, pages: Iterable[Page]) -> None:
        # A folder's own page stands above the others, and its addresses differ.
        self._above = {_folder(page) for page in pages}
        self._parts: dict[tuple, str] = {}

    def install(self, env: Environment) -> None:
        """Have Material's template ask for each part here."""
        assert env.loader
        source, _, _ = env.loader.get_source(env, _NAV_ITEM)
        changed = DictLoader({_NAV_ITEM: source.replace(_RENDERS, _KEPT)})
        env.loader = ChoiceLoader([changed, env.loader])
        env.globals["kept"] = self.part

    def part(
        self,
        render: Callable[..., str],
        page: Page | None,
        item: Any,
        path: str,
        level: int,
        parent: Any,
    ) -> str:
        """Render an item of the navigation, or return what another page has."""
        if page is None or item.active or page.url in self._above:
            return render(item, path, level, parent)
        key = _folder(page), page.url.count("/"), path, bool(parent.active)
        if key not in self._parts:
            self._parts[key] = render(item, path, level, parent)
        return self._parts[key]


def _folder(page: Page) -> str:
    return page.url.rstrip("/").rpartition("/")[0] + "/"


class Store:
    """What is costly to make, kept from build to build by what it is made of.

    Args:
        path: The file to keep it in.
        tools: The packages that make it. What other versions made is not used.
    """

    def __init__(self, path: Path, *tools: str) -> None:
        self._path = path
        self._tools = sys.version, str(STANDARD_TYPES), *map(version, tools)
        self._before: dict[bytes, Any] = {}
        self._now: dict[bytes, Any] = {}
        with suppress(OSError, EOFError, pickle.UnpicklingError):
            self._before = pickle.loads(path.read_bytes())

    def get(self, source: str, make: Callable[[], Any]) -> Any:
        """Return what was made of `source`, or make it."""
        key = sha256(f"{self._tools} {source}".encode()).digest()
        if key not in self._now:
            found = self._before.get(key)
            self._now[key] = make() if found is None else found
        return self._now[key]

    def close(self) -> None:
        """Write down what this build has used, if that is new."""
        if self._now.keys() == self._before.keys():
            return
        with NamedTemporaryFile(dir=self._path.parent, delete=False) as file:
            pickle.dump(self._now, file)
        Path(file.name).rename(self._path)


def keep_highlighted(store: Store) -> None:
    """Have each block of code looked up before it is highlighted."""
    original: Any = getattr(Highlight.highlight, "original", None)
    original = original or Highlight.highlight

    def highlight(self: Highlight, *args: Any, **options: Any) -> Any:
        if options.get("inline"):  # an element, which its page will change
            return original(self, *args, **options)
        settings = {name: x for name, x in vars(self).items() if name != "md"}
        return store.get(
            repr((args, sorted(options.items()), settings)),
            lambda: original(self, *args, **options),
        )

    highlight.original = original  # type: ignore[attr-defined]
    Highlight.highlight = highlight


def keep_formatted(store: Store) -> None:
    """Have each signature looked up before it is laid out."""
    # Of a package without types: what lays out, or what this has put there.
    module: Any = rendering
    original = getattr(module._get_formatter, "original", module._get_formatter)

    def formatted(code: str, line_length: int) -> Any:
        return store.get(
            f"{line_length} {code}", lambda: original()(code, line_length)
        )

    def get_formatter() -> Callable[[str, int], str]:
        return formatted

    get_formatter.original = original  # type: ignore[attr-defined]
    module._get_formatter = get_formatter


def keep_compiled(store: Store, env: Environment) -> None:
    """Have each text with figures looked up before it is compiled."""

    def compiled(source: str) -> CodeType:
        code = store.get(
            source, lambda: marshal.dumps(Environment.compile(env, source))
        )
        return marshal.loads(code)

    env.compile = compiled  # type: ignore[method-assign, assignment]


def keep_sections(store: Store) -> None:
    """Have each page looked up before the search plugin divides it."""
    add: Any = SearchIndex.add_entry_from_context
    original = getattr(add, "original", add)

    def keep(self: Any, page: Page) -> None:
        def divided() -> list[dict[str, Any]]:
            others, self.entries = self.entries, []
            original(self, page)
            own, self.entries = self.entries, others
            return own

        said = [page.meta.get(name) for name in ("title", "tags", "search")]
        source = repr((page.url, page.title, said, page.content))
        self.entries += store.get(source, divided)

    keep.original = original  # type: ignore[attr-defined]
    SearchIndex.add_entry_from_context = keep
