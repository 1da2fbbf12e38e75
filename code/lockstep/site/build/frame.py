"""The frame of the pages: where each stands in the navigation, which pages come
before and after it, and how long it takes to read.

Readers walk from core to core; the depth is a side door.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from bs4 import BeautifulSoup, Tag
from mkdocs.structure.files import Files
from mkdocs.structure.nav import Link, Navigation, Section
from mkdocs.structure.pages import Page
from mkdocs.utils import meta

from lockstep.site.pages.chapters import core_of, depth_of
from lockstep.site.pages.generated import Groups

WORDS_PER_MINUTE = 220
_NOT_READ = "pre", "details", "figure", "svg"


def place(nav: Navigation, made: Groups, files: Files) -> None:
    """Put pages that the build makes below their index page.

    Args:
        nav: The navigation of `mkdocs.yml`, which names the index pages.
        made: By index page, its groups; addresses are paths below `docs`.
        files: All files of the site.
    """
    for index in [page for page in nav.pages if page.file.src_uri in made]:
        sections = [
            Section(title, [_page(files, uri) for uri in uris])
            for title, uris in made[index.file.src_uri].items()
        ]
        within = index.parent
        siblings = within.children if within else nav.items
        whole = Section(str(index.title), [index, *sections])
        siblings[siblings.index(index)] = whole
        whole.parent = within
        _adopt(whole)
    nav.pages[:] = _pages(nav.items)


def share(nav: Navigation, files: Files) -> None:
    """Put a shared depth next to each core that is alone in its section, so
    that the section's arrow opens something."""
    for page in nav.pages:
        section = page.parent
        if section and section.children == [page]:
            front_matter = meta.get_data(page.file.content_string)[1]
            uri = depth_of(page.file.src_uri, front_matter)
            if depth := files.get_file_from_path(uri):
                section.children.append(Link("In depth", depth.url))
                _adopt(section)


def walk(nav: Navigation) -> None:
    """Lead from core to core, and from a depth back to its core and on."""
    order = [page for page in nav.pages if not core_of(page.file.src_uri)]
    for page in order:
        page.previous_page = page.next_page = None
    for before, after in pairwise(order):
        before.next_page, after.previous_page = after, before
    cores = {page.file.src_uri: page for page in order}
    for page in nav.pages:
        if core := cores.get(core_of(page.file.src_uri)):
            page.previous_page, page.next_page = core, core.next_page


def opened(html: str, page: Page, files: Files) -> str:
    """Say at the top of a core how long it takes, and link to its depth."""
    depth = files.get_file_from_path(depth_of(page.file.src_uri, page.meta))
    if not depth:
        return html
    minutes = max(1, round(words(html) / WORDS_PER_MINUTE))
    line = (
        f'<p class="reading-time">{minutes} minutes · '
        f'<a href="{depth.url_relative_to(page.file)}">In depth</a></p>'
    )
    return html.replace("</h1>", f"</h1>\n{line}", 1)


def words(html: str) -> int:
    """Count the running words of a page: no code, folds or pictures."""
    text = BeautifulSoup(html, "html.parser")
    for part in text.find_all(_is_not_read):
        part.extract()
    return len(text.get_text(" ").split())


def _is_not_read(part: Tag) -> bool:
    return (
        part.name in _NOT_READ
        or "highlight" in part.get_attribute_list("class")
        or part.has_attr("hidden")
    )


def _page(files: Files, uri: str) -> Page:
    file = files.get_file_from_path(uri)
    assert file
    assert file.page
    return file.page


def _adopt(section: Section) -> None:
    for child in section.children:
        child.parent = section
        if isinstance(child, Section):
            _adopt(child)


def _pages(items: Iterable[object]) -> Iterator[Page]:
    for item in items:
        if isinstance(item, Page):
            yield item
        elif isinstance(item, Section):
            yield from _pages(item.children)
