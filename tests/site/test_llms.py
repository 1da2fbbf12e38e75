"""llms.txt names every page, and a page's Markdown stands by itself."""

from __future__ import annotations

import re

import pytest
from bs4 import BeautifulSoup
from mkdocs.config import load_config
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File
from mkdocs.structure.pages import Page

from lockstep.site.pages import llms
from lockstep.site.pages.snippets import includes, site_config

from .conftest import ROOT, Project, Site, fence, include

FENCED = re.compile(r"^( *)(`{3,}).*?^\1\2 *$", re.M | re.S)
INCLUDE = re.compile(r'^\s*--8<-- "', re.M)
ITEM = re.compile(r"^- \[(.+?)\]\((\S+)\): (.+)$")


def page_of(project: Project, text: str) -> tuple[Page, MkDocsConfig]:
    """A page as the build has it before it becomes HTML."""
    project.write("docs/index.md", text)
    config = load_config(str(project.root / "mkdocs.yml"))
    config.site_url = "http://here/"
    file = File("index.md", config.docs_dir, config.site_dir, True)
    page = Page(None, file, config)
    page.read_source(config)
    return page, config


def shown(project: Project, text: str) -> str:
    """The file that becomes of a page, without its first line."""
    page, config = page_of(project, text)
    rules, _, rest = llms.text(page, config).partition("\n\n")
    assert rules == f"> {llms.RULES}"
    return rest


def test_code_is_included_and_its_markers_are_not(project: Project) -> None:
    project.write(
        "code/one.py",
        "x = 1\n# --8<-- [start:two]\ny = 2\n# --8<-- [end:two]\n",
    )
    found = shown(
        project, "# T\n" + fence("python", include("code/one.py:two"))
    )
    assert found == "# T\n\n```python\ny = 2\n```\n"


def test_a_file_that_is_not_there_is_refused(project: Project) -> None:
    page, config = page_of(project, include("code/none.py"))
    with pytest.raises(ValueError, match=r"code/none\.py"):
        llms.text(page, config)


def test_what_only_a_browser_or_a_test_reads_is_left_out(
    project: Project,
) -> None:
    wide = "<option>wide</option>" * 40
    found = shown(
        project,
        "# T { #t }\n\n<!--pytest-codeblocks:expected-output-->\n"
        'It is <a class="figure" href="../planner/?a=1">7.5\N{NO-BREAK SPACE}'
        "GB</a>.\n\n[Open in Colab](http://c/x.ipynb){ .md-button }\n"
        '<a class="md-button" href="x" download>Download</a>\n'
        "[Read it here](x.ipynb){ .md-button }\n{ .notebook }\n\n"
        f"<form><select>{wide}</select></form>\n\n"
        f"<details><summary>How</summary><code>{'= 1 ' * 200}</code></details>"
        "\n\n"
        + fence(
            "html", '<a class="figure" href="x">code stays</a>', "<!--x-->"
        ),
    )
    assert "# T { #t }" in found
    assert "It is 7.5\N{NO-BREAK SPACE}GB." in found
    assert "> [Open in Colab](http://c/x.ipynb)\n" in found
    assert "A form, on [the page](http://here/)." in found
    assert "```text\nHow\n= 1 = 1" in found
    for gone in (
        "pytest",
        "Download",
        "Read it",
        "md-button",
        "wide",
        "select",
    ):
        assert gone not in found
    assert '<a class="figure" href="x">code stays</a>\n<!--x-->' in found


def test_a_block_that_includes_a_block_has_a_longer_fence(
    project: Project,
) -> None:
    project.write("code/log.txt", "a\n```sh\nb\n```\nc\n")
    block = fence("python", include("code/log.txt"))
    found = shown(project, f"# T\n\n{block}\nEnd.")
    assert "````python\na\n```sh\nb\n```\nc\n````\n\nEnd." in found


def test_charts_and_widgets_are_told_in_words(project: Project) -> None:
    found = shown(
        project,
        '# T\n\n<figure><svg aria-label="Flat."><path d="M0"/></svg></figure>\n'
        '\n<svg><title>A</title><desc>Steep.</desc><path d="M1"/></svg>\n\n'
        "<details><summary>How</summary>Short.</details>\n\n"
        '<div class="clock">\n<button>Start</button>\n</div>\n\n'
        '<div class="grid cards" markdown>\n\n- A card.\n\n</div>\n\n'
        '<div class="practice" data-tool="cards" markdown="0"></div>\n',
    )
    assert "A chart. Flat.\n\nA chart. Steep." in found
    assert "```text\nHow\nShort.\n```\n\n- A card.\n\nA form, on" in found


def test_a_module_is_its_source(project: Project) -> None:
    found = shown(
        project, "::: lockstep.trainer.order\n    options:\n      a: true\n"
    )
    assert found.startswith('# lockstep.trainer.order\n\n```python\n"""Which')
    assert "def permute(" in found
    assert "--8<--" not in found
    assert "options:" not in found
    with pytest.raises(ValueError, match=r"there is no module lockstep\.nope"):
        shown(project, "::: lockstep.nope\n")


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("# T\n\n**A [b](c.md) 2.5 `d`\ne.** More.", "A b 2.5 d e."),
        ("> rules\n\n# T\n\n- a\n\n!!! note\n\nIs it? Yes.", "Is it?"),
        ("# T\n\n```text\nNo. No.\n```\n\nNo stop", "No stop"),
        ('# m\n\n```python\n"""What: it. Is.\n\nMore."""\n```', "What: it."),
        ("# T", ""),
    ],
)
def test_the_first_sentence_is_the_note(text: str, first: str) -> None:
    assert llms.first_sentence(text) == first


def test_sections_are_the_navigations() -> None:
    nav = [
        {"Home": "index.md"},
        {"A": ["a/index.md", {"B": [{"one": "a/b/1.md"}, "a/b/2.md"]}]},
        "z.md",
    ]
    assert llms.sections(nav) == [
        ("Start", [((), "index.md"), ((), "z.md")]),
        ("A", [((), "a/index.md"), (("B",), "a/b/1.md"), (("B",), "a/b/2.md")]),
    ]
    assert llms.sections(None) == []


def pages(nav: list) -> list[str]:
    return [uri for _, inside in llms.sections(nav) for _, uri in inside]


@pytest.mark.xdist_group("site")
def test_every_page_of_the_navigation_is_listed_with_a_note(site: Site) -> None:
    text = (site.folder / "llms.txt").read_text("utf-8")
    title, quote, rules, *_ = text.split("\n\n")
    config = site_config(ROOT)
    assert title == f"# {config.site_name}"
    assert quote == f"> {config.site_description}"
    assert rules == llms.RULES
    lines = [x for x in text.splitlines() if x.startswith("- ")]
    items = [match for line in lines if (match := ITEM.match(line))]
    assert len(items) == len(lines), "a page without a note"
    listed = [item[2].removeprefix(site.address) for item in items]
    assert sorted(listed) == sorted([*pages(config.nav or []), "plain.md"])
    for item in items:
        assert 10 < len(item[3]) < 300, item[0]
    for address in listed:
        assert (site.folder / address).is_file()


@pytest.mark.xdist_group("site")
def test_every_page_stands_by_itself(site: Site) -> None:
    found = sorted(site.folder.rglob("*.md"))
    assert len(found) > 90
    for path in found:
        text = path.read_text("utf-8")
        where = path.relative_to(site.folder)
        assert text.startswith(f"> {llms.RULES}\n\n"), where
        assert re.search(r"^# ", text, re.M), where
        prose = FENCED.sub("", text)
        assert not INCLUDE.search(text), where
        for left in (
            "{{",
            "{%",
            'class="figure"',
            "pytest-codeblocks",
            "<form",
        ):
            assert left not in prose, (where, left)
        assert not re.search(r"^:::", prose, re.M), where


@pytest.mark.xdist_group("site")
def test_figures_and_code_are_those_of_the_page(site: Site) -> None:
    for name in (
        "concepts/memory/in-depth",
        "handbook",
        "reliability/checkpointing/in-depth",
    ):
        text = (site.folder / f"{name}.md").read_text("utf-8")
        html = (site.folder / name / "index.html").read_text("utf-8")
        soup = BeautifulSoup(html, "html.parser")
        for figure in soup.select("article a.figure"):
            assert figure.get_text() in text
        written = (ROOT / "docs" / f"{name}.md").read_text("utf-8")
        assert includes(written)
        for code in soup.select("article .highlight pre > code"):
            for line in code.get_text().splitlines():
                assert line.strip() in text


@pytest.mark.xdist_group("site")
def test_a_page_names_its_markdown_and_links_lead_on(site: Site) -> None:
    for address, html in site.pages().items():
        soup = BeautifulSoup(html.partition("</head>")[0], "html.parser")
        named = soup.select('head > link[type="text/markdown"]')
        if not named:
            assert address.startswith("labs/") or "<article" not in html
            continue
        [link] = named
        assert link["rel"] == ["alternate"]
        path = site.folder / str(link["href"]).removeprefix(site.address)
        assert path.is_file(), address
        prose = FENCED.sub("", path.read_text("utf-8"))
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+\.md)", prose):
            assert (path.parent / target).resolve().is_file(), (path, target)
