"""Notebooks are what their sources generate, and every cell keeps its id."""

import ast
import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import pytest

from lockstep.debugging.bugs import Bug, bugs
from lockstep.labs import labs as all_labs
from lockstep.site.pages import labs
from lockstep.site.pages.snippets import BadInclude

from .conftest import ROOT, Project

SOURCE = """\
# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# Say {say}
#
# --8<-- "labs/say.md:one"

# %%
# %%writefile -a module.py

# --8<-- "code/module.py:half"

# %% cellView="form"
# !torchrun module.py
def here():
    pass


# %% [markdown]
# again

# %% [markdown]
# again
"""


@pytest.fixture
def source(project: Project) -> Path:
    """A source with includes, magics and two cells of the same content."""
    project.write(
        "labs/say.md",
        "<!-- --8<-- [start:one] -->\nthis\n<!-- --8<-- [end:one] -->\n",
    )
    project.write(
        "code/module.py",
        "a = 1\n# --8<-- [start:half]\nb = 2\n# --8<-- [end:half]\n",
    )
    return project.write("labs/one.py", SOURCE.format(say="it"))


def cells(source: Path) -> list[dict[str, Any]]:
    written = json.loads(labs.notebook(source.read_text(), source.parents[1]))
    nbformat.validate(written)
    return [
        cell | {"source": "".join(cell["source"])} for cell in written["cells"]
    ]


def test_includes_are_expanded_and_magics_are_no_comments(
    source: Path,
) -> None:
    assert [cell["source"] for cell in cells(source)] == [
        "Say it\n\nthis",
        "%%writefile -a module.py\n\nb = 2",
        "!torchrun module.py\ndef here():\n    pass",
        "again",
        "again",
    ]


def test_a_cell_has_its_metadata_and_no_more(source: Path) -> None:
    metadata = [cell["metadata"] for cell in cells(source)]
    assert metadata == [{}, {}, {"cellView": "form"}, {}, {}]


def test_a_cell_keeps_its_id_while_another_changes(source: Path) -> None:
    before = [cell["id"] for cell in cells(source)]
    assert len(set(before)) == 5
    source.write_text(SOURCE.format(say="otherwise"))
    after = [cell["id"] for cell in cells(source)]
    assert after[0] != before[0]
    assert after[1:] == before[1:]


def test_a_missing_include_is_an_error(source: Path) -> None:
    source.write_text(SOURCE.replace("code/module.py:half", "code/none.py"))
    with pytest.raises(BadInclude, match="names no file"):
        labs.notebook(source.read_text(), source.parents[1])


def test_the_command_writes_a_notebook_beside_each_source(
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(source.parents[1])
    assert labs.main() == 0
    assert capsys.readouterr().out == (
        "wrote labs/one.ipynb: run `make record-labs`\n"
    )
    written = source.with_suffix(".ipynb").read_text()
    assert written == labs.notebook(source.read_text(), source.parents[1])


NOTEBOOKS = sorted((ROOT / "labs").glob("*.ipynb"))
one_worker = pytest.mark.xdist_group("notebooks")  # generates them for all


@cache
def generated() -> dict[Path, str]:
    return dict(labs.notebooks(ROOT))


@one_worker
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_committed_notebook_is_what_its_source_generates(path: Path) -> None:
    assert labs.unrun(path) == generated()[path], "run `make labs`"
    printed = [
        output
        for cell in json.loads(path.read_text())["cells"]
        for output in cell.get("outputs", [])
    ]
    assert printed, "run `make record-labs`"
    assert "Traceback" not in json.dumps(printed)


@one_worker
def test_every_notebook_has_its_source() -> None:
    assert generated().keys() == set(NOTEBOOKS)


def test_a_notebook_imports_torch_and_numpy_alone() -> None:
    allowed = {"torch", "numpy", "lockstep", *sys.stdlib_module_names}
    for path in labs.closure(*labs.exercises(), code=ROOT / "code"):
        found: set[str] = set()
        for node in ast.walk(ast.parse((ROOT / "code" / path).read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                found.add(str(node.module).split(".")[0])
        assert found <= allowed, path


def test_a_lab_names_no_device() -> None:
    """Its ranks are more than the GPUs of a reader's machine."""
    stand_in = "lockstep/instruments/fake_gpu.py"  # it takes the place of one
    files = {*labs.closure(*all_labs().values(), code=ROOT / "code")}
    assert stand_in in files
    for path in files - {stand_in}:
        text = (ROOT / "code" / path).read_text()
        assert not re.search(r"torch\.cuda|[\"']cuda", text), path


@pytest.mark.parametrize("bug", bugs().values(), ids=lambda bug: bug.name)
def test_a_notebook_of_a_bug_gives_nothing_away(bug: Bug) -> None:
    """The trainer is that of `lockstep bug start`, and what was printed names
    criteria and marks; the story is folded."""
    written = json.loads((ROOT / f"labs/{bug.notebook}.ipynb").read_text())
    sources = ["".join(cell["source"]) for cell in written["cells"]]
    assert f"%%writefile trainer.py\n{bug.broken().rstrip()}" in sources
    text = "\n".join(
        source
        for cell, source in zip(written["cells"], sources, strict=True)
        if cell["cell_type"] == "markdown"
    )
    unfolded = re.sub("<details>.*?</details>", "", text, flags=re.S)
    for told in *bug.constant("HINTS"), bug.strong(), bug.fix():
        assert told in text
        assert told not in unfolded
    *files, starter, strong = [
        "".join("".join(output["text"]) for output in cell["outputs"])
        for cell in written["cells"]
        if cell.get("outputs")
    ]
    assert files == ["Writing trainer.py\n", "Writing answer.py\n"]
    assert "trainer.py is as it was" in starter
    assert starter.endswith("0 of 100\n")
    assert strong == "100 of 100\n"


HOURS = {
    "an hour and a half": 1.5,
    "an hour": 1,
    "90 minutes": 1.5,
    "two hours": 2,
    "three hours": 3,
    "five minutes a scenario": 24 * 5 / 60,
}


def test_the_index_of_labs_gives_the_hours_that_each_page_plans() -> None:
    folder = ROOT / "docs/practice/labs"
    row = re.compile(r"^\| \[\d\d [^]]+\]\((.+?)\) \|.*\| ([\d.]+) \|$", re.M)
    rows = row.findall((folder / "index.md").read_text())
    assert len(rows) == 12
    for page, hours in rows:
        text = " ".join((folder / page).read_text().split())
        planned = re.search(f"[Pp]lan ({'|'.join(HOURS)})", text)
        assert planned, page
        assert HOURS[planned[1]] == float(hours), page
