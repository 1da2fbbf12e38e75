"""What the build adds to the pages, and what it does without."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from mkdocs.config import load_config
from nbformat.v4 import (
    new_code_cell,
    new_markdown_cell,
    new_notebook,
    new_output,
)

from lockstep import explore, planner
from lockstep.practice.figures import computed
from lockstep.site.pages import notebook_pages

from .conftest import ROOT, Site, run, searched

CODE = ROOT / "code"
DIAGRAM = re.compile(r'<div class="diagram">.*?</svg></div>', re.S)


def test_missing_node_modules_is_one_clear_line(scratch: Path) -> None:
    (scratch / "node_modules").unlink()
    built = scratch / "site" / "index.html"
    built.parent.mkdir()
    built.touch()
    result = run("mkdocs", "build", "--strict", cwd=scratch)
    assert result.returncode != 0
    assert "Traceback" not in result.stderr
    [line] = [x for x in result.stderr.splitlines() if "no @micropython/" in x]
    assert "`make serve`" in line
    assert "`npm ci`" in line
    assert built.exists(), "the last build is gone"


@pytest.mark.xdist_group("site")
def test_a_page_holds_the_drawing_of_each_diagram_and_no_script_draws(
    site: Site,
) -> None:
    assert not list(site.folder.rglob("*mermaid*"))
    pages = site.pages()
    for address, html in pages.items():
        assert 'class="mermaid"' not in html, address
        found = DIAGRAM.findall(html)
        assert len(found) == html.count('<div class="diagram">'), address
        for one in found:
            [svg] = BeautifulSoup(one, "html.parser").select(".diagram > svg")
            assert svg["role"] == "img"
            for name in str(svg["aria-labelledby"]).split():
                told = svg.find(id=name)
                assert told, address
                assert told.get_text(strip=True), address
            for named in svg.select("[id]"):
                assert html.count(f' id="{named["id"]}"') == 1, address
            assert svg.select("marker"), address
            assert not svg.select("style, [style]"), address
    assert pages["handbook/"].count('<div class="diagram">') > 1


@pytest.mark.xdist_group("site")
def test_build_publishes_the_planner_and_what_runs_it(
    site: Site, node_modules: Path
) -> None:
    assets = site.folder / "assets"
    sources = json.loads((assets / "python-files.json").read_text())
    assert (
        sources.pop("lockstep/__init__.py") == ""
    )  # the package's has imports
    assert sources == {
        name: (CODE / name).read_text("utf-8") for name in sources
    }
    for room in planner, explore:
        (folder,) = room.__path__
        for path in Path(folder).glob("*.py"):
            assert path.relative_to(CODE).as_posix() in sources
    package = node_modules / "@micropython/micropython-webassembly-pyscript"
    published = {p.name: p.read_bytes() for p in assets.glob("micropython/*")}
    assert {"micropython.mjs", "micropython.wasm"} < set(published)
    assert all(
        (package / name).read_bytes() == data
        for name, data in published.items()
    )


@pytest.mark.xdist_group("site")
def test_what_is_for_tests_is_not_published(site: Site) -> None:
    assert not list(site.folder.rglob("recorded"))
    assert not list(site.folder.rglob("coverage.yml"))


@pytest.mark.xdist_group("site")
def test_a_token_of_code_is_set_apart_where_it_has_a_color(site: Site) -> None:
    """A long page has thousands that have not, and a browser styles each."""
    html = site.pages()["handbook/"]
    assert '<span class="k">' in html
    assert not re.search('<span class="[nopw]">|<span id="__span', html)


def test_search_reads_a_diagrams_words_and_not_its_syntax(
    scratch: Path, node_modules: Path
) -> None:
    html = built(scratch)
    [svg] = BeautifulSoup(html, "html.parser").select(".diagram > svg")
    found = str(searched(scratch / "site"))
    for said in svg.select("title, desc, foreignObject"):
        assert said.get_text(strip=True) in found
    assert "flowchart" not in found
    assert "accTitle" not in found


def test_a_notebook_is_opened_given_and_shown_in_the_sites_own_style(
    scratch: Path, node_modules: Path
) -> None:
    cells = [
        new_markdown_cell("# A `lab` of one\n\nDo it."),
        new_code_cell(
            "# @title What it needs\nFILES = {}",
            metadata={"tags": ["folded"]},
        ),
        new_code_cell(
            "1 < 2", outputs=[new_output("stream", text="yes & no\n")]
        ),
    ]
    notebook = nbformat.writes(new_notebook(cells=cells))
    (scratch / "labs" / "first.ipynb").write_text(notebook)
    name(scratch, "first")
    repository = "https://github.com/someone/lockstep"
    page = BeautifulSoup(built(scratch, REPO_URL=repository), "html.parser")
    title, buttons = page.select("article > h1, article > p.notebook")
    assert title.get_text().startswith("Specimen")
    colab, download, read = buttons.select("a.md-button")
    assert colab["href"] == (
        "https://colab.research.google.com/github/someone/lockstep"
        "/blob/main/labs/first.ipynb"
    )
    assert download.has_attr("download")
    specimen = scratch / "site" / "specimen"
    assert (specimen / str(download["href"])).read_text() == notebook

    html = (specimen / str(read["href"]) / "index.html").read_text()
    shown = BeautifulSoup(html, "html.parser").select_one("article")
    assert shown is not None
    skip = BeautifulSoup(html, "html.parser").select_one("a.md-skip")
    assert skip is not None
    assert shown.select_one(str(skip["href"])), "its heading has another id"
    assert shown.select("script, style, [class^=jp-], [tabindex]") == []
    said = shown.select("p:not(.report)")
    assert [p.get_text() for p in said] == ["Do it."]
    folded, code, printed = shown.select(".highlight > pre > code")
    assert folded.find_parent("details") is not None
    assert folded.get_text() == "FILES = {}"
    assert code.get_text().strip() == "1 < 2"
    assert code.select("span.mi")  # colored as any code
    assert printed.get_text() == "yes & no\n"
    places = searched(scratch / "site")
    assert not any("labs/first" in each for each in places), "it is found"


PAGE = "---\ncomputed: true\n---\n# Sum\n\n"
STATE = 'plan("memory", params=7.5e9, dp=64, zero_stage=1).total_bytes'


def test_a_notebooks_page_is_kept_while_what_makes_it_is_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """mkdocs-jupyter looks it up by the notebook alone."""

    def place() -> str:
        config = load_config(str(ROOT / "mkdocs.yml"))
        notebook_pages.prepare(config)
        return str(config.plugins["mkdocs-jupyter"].config["cache_dir"])

    first = place()
    assert place() == first
    templates = tmp_path / "templates"
    shutil.copytree(notebook_pages.TEMPLATES, templates)
    monkeypatch.setattr(notebook_pages, "TEMPLATES", templates)
    assert place() == first
    [template] = templates.rglob("notebook.html.j2")
    template.write_text(template.read_text("utf-8") + " ", "utf-8")
    assert place() != first
    monkeypatch.undo()
    monkeypatch.setattr(notebook_pages, "version", lambda tool: "0")
    assert place() != first


def test_a_figure_in_the_text_is_computed_and_asks_the_planner(
    scratch: Path, node_modules: Path
) -> None:
    text = "{{ STATE }}, {{ STATE.binary }}".replace("STATE", STATE)
    (scratch / "docs" / "specimen.md").write_text(PAGE + text)
    links = BeautifulSoup(built(scratch), "html.parser").select("a.figure")
    assert [link.get_text() for link in links] == [
        "31.41\N{NO-BREAK SPACE}GB",
        "29.25\N{NO-BREAK SPACE}GiB",
    ]
    address = "../planner/?ask=memory&params=7500000000&dp=64&zero_stage=1"
    address += "&show=total_bytes"
    assert {link["href"] for link in links} == {address}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{{ plan("memory", params=-1).total_bytes }}', "--params is -1; it"),
        ('{{ plan("memory").total_bytes }}', "--params is missing"),
        ('{{ plan("memory", params=1, zero=2).total_bytes }}', "--zero is no"),
        ('{{ plan("sum") }}', "there is no question sum; ask one of"),
        ('{{ plan("memory", params=1).sum }}', "has no attribute 'sum'"),
        ("{{ ", "unexpected 'end of template'"),
    ],
)
def test_a_figure_that_cannot_be_computed_is_refused(
    text: str, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        computed(text, "")


def test_a_predicted_time_says_what_it_leaves_out() -> None:
    """A time from `plan run` on a page carries the share of the peak that it
    assumes and what the planner leaves out; bytes don't."""
    asked = 'plan("run", preset="llama3-8b", gpus=8, sequence=8192,'
    asked += " global_batch=8, zero_stage=3, efficiency=0.45)"
    step, held = (
        BeautifulSoup(computed(f"{{{{ {asked}.{key} }}}}", ""), "html.parser").a
        for key in ("step_seconds", "total_bytes")
    )
    assert step is not None
    assert held is not None
    said = "At 45 % of the peak. It leaves out stragglers"
    assert str(step["title"]).startswith(said)
    assert "title" not in held.attrs


def test_page_that_names_no_notebook_is_refused(
    scratch: Path, node_modules: Path
) -> None:
    name(scratch, "second")
    result = run("mkdocs", "build", "--strict", cwd=scratch)
    assert result.returncode != 0
    assert "specimen.md: there is no labs/second.ipynb" in result.stderr
    assert "Traceback" not in result.stderr


def name(root: Path, notebook: str) -> None:
    """Name a notebook on the specimen page."""
    page = root / "docs" / "specimen.md"
    text = page.read_text("utf-8")
    page.write_text(f"---\nnotebook: {notebook}\n---\n\n{text}", "utf-8")


def built(root: Path, **environ: str) -> str:
    """Build the site strictly and return the specimen page's HTML."""
    result = run("mkdocs", "build", "--strict", cwd=root, **environ)
    assert result.returncode == 0, result.stdout + result.stderr
    return (root / "site" / "specimen" / "index.html").read_text("utf-8")
