"""MkDocs hooks: figures, questions, diagrams, notebooks, policy."""

from __future__ import annotations

import gc
import random
import re
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from itertools import count
from json import dumps
from pathlib import Path

from jinja2 import Environment, FileSystemBytecodeCache
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page
from mkdocs.structure.toc import AnchorLink
from mkdocs.utils import get_relative_url
from pygments.token import (
    STANDARD_TYPES,
    Name,
    Operator,
    Punctuation,
    Whitespace,
)

from lockstep.debugging.bugs import bugs
from lockstep.experiments.benchmarks import timeline
from lockstep.explain import catalog
from lockstep.explain import page as explain_page
from lockstep.explore import page as explore_page
from lockstep.explore import planner_page
from lockstep.practice import estimates
from lockstep.practice.figures import ENVIRONMENT, computed
from lockstep.site.build import bundles, frame, preview
from lockstep.site.build.build_cache import (
    KeptNavigation,
    Store,
    keep_compiled,
    keep_formatted,
    keep_highlighted,
    keep_sections,
)
from lockstep.site.build.content_security_policy import protect
from lockstep.site.build.freshness import outdate
from lockstep.site.pages import (
    api,
    errors,
    generated,
    glossary,
    llms,
    notebook_pages,
    proof_marks,
    published_runs,
    questions,
    rounds,
    torch_claims,
)
from lockstep.site.pages.diagrams import Ahead, picture
from lockstep.site.pages.number_box import number_box
from lockstep.site.pages.phone_tables import stackable
from lockstep.site.pages.pictures import chart

_MICROPYTHON = "@micropython/micropython-webassembly-pyscript"
_CARDS = "ts-fsrs/dist/index.mjs"
_DIAGRAM = re.compile(
    r'<pre\s+class="mermaid"><code>(?P<source>.*?)\n?</code></pre>', re.S
)
_EXPLAIN = re.compile(r"^<!-- explain-box -->$", re.M)
_EXPLORABLE = re.compile(r"^<!-- explorable: (?P<name>[\w-]+) -->$", re.M)
# What has the color of text anyway. A browser has to style each token, and of
# ten thousand on a long page most are of these.
_UNCOLORED = (Name, Operator, Punctuation, Whitespace)
_AWAY = re.compile(r'<a(?=\s[^>]*href="https?://)')
_COLAB = "https://colab.research.google.com/github"
_BRANCH = "main"  # what is published is built from it
_serving = _dirty = False
_drawings = Ahead()
_stores: list[Store] = []
_made: generated.Groups = {}  # pages below their index, in this build
_BUTTONS = """

[Open in Colab]({colab}){{ .md-button }}
<a class="md-button" href="{file}" download>Download</a>
[Read the notebook]({page}){{ .md-button }}
{{ .notebook }}
"""


def on_startup(command: str, dirty: bool) -> None:
    """Note whether the pages are for publishing, and whether all are built.
    Look for garbage less often, or never where the process ends with the build:
    a build makes little, of very many objects."""
    global _serving, _dirty
    _serving, _dirty = command == "serve", dirty
    gc.set_threshold(20_000 if _serving else 0, 20, 100)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Refuse to build without what a browser gets, before the last build is
    removed. Code is set in fewer tokens."""
    STANDARD_TYPES.update(dict.fromkeys(_UNCOLORED, ""))
    for name in (f"{_MICROPYTHON}/micropython.mjs", _CARDS):
        if not (_modules(config) / name).is_file():
            package = name.rpartition("/")[0].removesuffix("/dist")
            raise PluginError(
                f"node_modules has no {package}: run `make serve`, or `npm ci`"
            )
    notebook_pages.prepare(config)
    api.read_only(config)
    kept = _root(config) / ".cache"
    kept.mkdir(exist_ok=True)
    code = Store(kept / "code.pickle", "pygments", "pymdown-extensions")
    texts = Store(kept / "texts.pickle", "jinja2")
    signatures = Store(kept / "signatures.pickle", "black")
    sections = Store(kept / "sections.pickle", "mkdocs-material")
    keep_sections(sections)
    keep_highlighted(code)
    keep_compiled(texts, ENVIRONMENT)
    keep_formatted(signatures)
    _stores[:] = code, texts, signatures, sections
    # It would parse each page that says `mermaid`, to load what draws in a
    # browser. Its fence is what we use.
    mermaid2 = config.plugins["mermaid2"]
    config.plugins.events["post_page"].remove(mermaid2.on_post_page)
    return config


@event_priority(100)  # mkdocs-jupyter makes pages of the notebooks after it
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Publish the notebooks; the planner's files, and MicroPython to run them;
    what schedules cards; with the licenses. Join style sheets and scripts.
    Publish the recorded traces. Add the pages that are made at build time."""
    api.publish(files, config)
    bundles.join(files, config)
    modules = _modules(config)
    for name in ("micropython.mjs", "micropython.wasm", "package.json"):
        path = modules / _MICROPYTHON / name
        _publish(files, config, f"assets/micropython/{name}", path)
    for path in (modules / _CARDS, modules / "ts-fsrs" / "LICENSE"):
        _publish(files, config, f"assets/ts-fsrs/{path.name}", path)
    for path in sorted(timeline.FOLDER.glob("*.json")):
        _publish(files, config, f"performance/traces/{path.name}", path)
    if home := files.get_file_from_path("index.md"):
        drawn = preview.png(home.content_string)
        files.append(File.generated(config, preview.URI, content=drawn))
    bundle = "assets/python-files.json"
    files.append(File.generated(config, bundle, content=dumps(in_browser())))
    bundle = "assets/messages.json"
    files.append(File.generated(config, bundle, content=catalog.shipped()))
    root = _root(config)
    for path in sorted(root.glob("labs/*.ipynb")):
        inside = path.relative_to(root).as_posix()
        files.append(File(inside, str(root), config.site_dir, True))
    repository = (config.repo_url or "").rstrip("/")
    _made.clear()
    for made in (questions, rounds, errors):
        _made.update(
            made.publish(files, config, f"{repository}/blob/{_BRANCH}")
        )
    if _dirty:
        outdate(files, root)
    return files


def on_nav(nav: Navigation, files: Files, **_: object) -> Navigation:
    """Put questions and rounds below their index. Lead from core to core."""
    frame.place(nav, _made, files)
    frame.share(nav, files)
    frame.walk(nav)
    return nav


def on_page_markdown(
    markdown: str, page: Page, config: MkDocsConfig, files: Files
) -> str:
    """Compute the figures of a page that is `computed`; list what its proof
    marks name; put two buttons below the title of one that names a `notebook`.

    Raises:
        PluginError: a figure cannot be planned, a mark names what is not
            there, or there is no such notebook.
    """
    # mkdocstrings puts random words into code and has it highlighted. Here they
    # are the same in each build, so that its blocks are found again.
    random.seed(page.file.src_uri)
    sources = f"{config.repo_url or ''}/blob/{_BRANCH}"
    _, _, repository = (config.repo_url or "").rpartition("github.com/")
    colab = f"{_COLAB}/{repository.strip('/')}/blob/{_BRANCH}/labs"
    if page.file.src_uri == errors.INDEX:
        markdown = errors.listed(markdown)
    if page.meta.get("computed"):
        planner = get_relative_url("planner/", page.url)
        given: dict[str, object] = {"bugs": bugs().values(), "colab": colab}
        given |= {"glossary": glossary.load(), "checked": torch_claims.load()}
        given["sources"] = sources
        runs = get_relative_url(published_runs.PAGE, page.url)
        given["published"] = published_runs.Views(planner, runs)
        try:
            markdown = computed(
                markdown,
                planner,
                chart=chart,
                estimates=estimates,
                live=planner_page.page,
                number_box=number_box,
                **given,
            )
        except ValueError as error:
            raise PluginError(f"{page.file.src_uri}: {error}") from None
    markdown = _EXPLAIN.sub(explain_page.box(), markdown)
    try:
        first = page.is_homepage
        markdown = _EXPLORABLE.sub(
            lambda found: explore_page.figure(found["name"], first), markdown
        )
        markdown = proof_marks.marked(markdown, sources)
    except ValueError as error:
        raise PluginError(f"{page.file.src_uri}: {error}") from None
    if not (name := page.meta.get("notebook")):
        return markdown
    path = f"labs/{name}.ipynb"
    if files.get_file_from_path(path) is None:
        raise PluginError(f"{page.file.src_uri}: there is no {path}")
    buttons = _BUTTONS.format(
        colab=f"{colab}/{name}.ipynb",
        file=get_relative_url(f"labs/{name}/{name}.ipynb", page.url),
        page=get_relative_url(path, page.file.src_uri),
    )
    title, newline, text = markdown.partition("\n")
    return title + buttons + newline + text


def on_page_content(html: str, page: Page, files: Files, **_: object) -> str:
    """Give a notebook the site's style, and leave it to the search to find the
    page that tells of it. Label the cells of wide tables; mark the links whose
    address a printed page tells, and the words of the glossary."""
    if page.file.src_uri.endswith(".ipynb"):
        page.meta["search"] = {"exclude": True}
        return notebook_pages.plain(html, list(_ids(page.toc)))
    html = frame.opened(html, page, files)
    html = _AWAY.sub("<a data-away", stackable(html))
    if page.file.src_uri != glossary.PAGE:
        html = glossary.marked(html)
    for found in _DIAGRAM.finditer(html):
        _drawings.ask(found["source"])
    return html


def on_env(env: Environment, config: MkDocsConfig, files: Files) -> None:
    """Write llms.txt and each page's Markdown, now that all are there. Keep the
    theme's compiled templates from build to build."""
    made_by = f"jinja2-{version('jinja2')}-mkdocs-{version('mkdocs')}"
    kept = _root(config) / ".cache" / made_by
    kept.mkdir(exist_ok=True)
    env.bytecode_cache = FileSystemBytecodeCache(str(kept))
    KeptNavigation(x.page for x in files if x.page).install(env)
    try:
        llms.publish(files, config)
    except ValueError as error:
        raise PluginError(f"llms.txt: {error}") from None


@event_priority(100)  # search reads the page after it
def on_page_context(context: object, page: Page, **_: object) -> None:
    """Put each diagram's drawing in its place: as late as this, since most have
    been drawn by now.

    Raises:
        PluginError: a diagram has a syntax error.
    """
    numbers = count(1)

    def drawn(found: re.Match[str]) -> str:
        _drawings.wait(source := found["source"])
        return picture(source, f"diagram-{next(numbers)}")

    try:
        page.content = _DIAGRAM.sub(drawn, page.content or "")
    except RuntimeError as error:
        raise PluginError(
            f"{page.file.src_uri}: a diagram has a syntax error: {error}"
        ) from None


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Let a page name its Markdown."""
    return llms.linked(output, page, config)


@event_priority(-100)  # other plugins write pages as late as this
def on_post_build(config: MkDocsConfig) -> None:
    """Give the pages their Content-Security-Policy. `mkdocs serve` writes a
    script of its own into each, so that it can reload them: none there."""
    _drawings.end()
    for store in _stores:
        store.close()
    if not _serving:
        protect(Path(config.site_dir))


def on_build_error(**_: object) -> None:
    """Leave no process behind."""
    _drawings.end()


def in_browser() -> dict[str, str]:
    """Return what MicroPython runs, by its path: planner, estimates,
    explorables, and what explains a log."""
    practice = Path(estimates.__file__).parent
    paths = [practice / name for name in estimates.FILES]
    code = practice.parents[1]
    for room in "planner", "explore":
        paths += sorted((code / "lockstep" / room).glob("*.py"))
    explain = Path(explain_page.__file__).parent
    paths += [explain / name for name in explain_page.FILES]
    found = {
        path.relative_to(code).as_posix(): path.read_text("utf-8")
        for path in paths
    }
    return {"lockstep/__init__.py": ""} | found


def _ids(toc: Iterable[AnchorLink]) -> Iterator[str]:
    for heading in toc:
        yield heading.id
        yield from _ids(heading.children)


def _root(config: MkDocsConfig) -> Path:
    return Path(config.config_file_path).parent


def _modules(config: MkDocsConfig) -> Path:
    return _root(config) / "node_modules"


def _publish(files: Files, config: MkDocsConfig, uri: str, path: Path) -> None:
    files.append(File.generated(config, uri, abs_src_path=str(path)))
