"""The linter names each fault, and where it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import mermaidx
import psutil
import pytest
from bs4 import BeautifulSoup

from lockstep.site.build import hooks
from lockstep.site.pages import diagrams
from lockstep.site.verify.check import problems
from tests.conftest import daily

from .conftest import Project, fence, include

RECORDED = "docs/recorded/out.txt"
EXPECTED = "<!--pytest-codeblocks:expected-output-->"
DIAGRAM = """\
flowchart TD
  accTitle: Two ranks
  accDescr: Rank 0 sends to rank 1.
  A[Rank 0] --> B[Rank 1]"""


def found(project: Project) -> str:
    return "\n".join(problems(project.root))


@pytest.mark.parametrize(
    ("path", "text", "says"),
    [
        ("code/__init__.py", "", "code/__init__.py: makes `code` a package"),
        ("code/a/queue.py", "", "code/a/queue.py: hides the standard"),
        (
            "code/a/b.py",
            "# --8<-- [start:x]\n",
            "code/a/b.py:1: section 'x' is never closed",
        ),
        (
            "labs/b.py",
            "# --8<-- [end:x]\n",
            "labs/b.py:1: [end: x] closes no open section",
        ),
        (RECORDED, "1\n", f"{RECORDED}: no page shows this output"),
    ],
)
def test_fault_in_a_source_is_named(
    project: Project, path: str, text: str, says: str
) -> None:
    assert found(project) == ""
    project.write(path, text)
    assert says in found(project)


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ([include("code/b.py")], "docs/index.md:1: code/b.py names no file"),
        ([include("code/a.py:1:2")], "a file or a section, not"),
        ([f"{include('code/a.py')} "], "index.md:1: pymdownx does not read"),
        ([fence("py", "x = 1")], "docs/index.md:2: line 3 is typed by hand"),
        (["~~~python", "x = 1", "~~~"], "index.md:1: a fence of tildes"),
        (["<!--pytest.mark.skip-->", fence("sh", "true")], "says why"),
        ([fence("text", include(RECORDED))], "no command's expected output"),
        (
            [
                '<!--pytest.mark.skip(reason="slow")-->',
                fence("sh", "true"),
                EXPECTED,
                fence("text", include(RECORDED)),
            ],
            "no command's expected output",
        ),
    ],
)
def test_fault_on_a_page_is_named(
    project: Project, parts: list[str], says: str
) -> None:
    project.write("code/a.py", "x = 1\n")
    project.write(RECORDED, "1\n")
    project.page(*parts)
    assert says in found(project)


def test_recorded_output_may_be_shown_on_a_second_page(
    project: Project,
) -> None:
    shown = fence("text", include(RECORDED))
    project.write(RECORDED, "1\n")
    project.page(fence("sh", "echo 1"), EXPECTED, shown)
    project.write("docs/second.md", shown)
    assert found(project) == ""


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("", "", None),
        ("  accTitle: Two ranks\n", "", "has no accTitle"),
        ("accTitle: Two ranks", "accTitle:", "has no accDescr"),
        ("  accDescr: Rank 0 sends to rank 1.\n", "", "has no accDescr"),
        ("A[Rank 0]", "A[Rank 0", "syntax error"),
        *daily(
            [
                ("A[Rank 0] -->", "A[Rank 0] ->", "syntax error"),
                ("flowchart TD", "flowchat TD", "syntax error"),
            ]
        ),
        ("A[Rank 0]", 'A["Rank<br>0"]', "an HTML tag"),
        ("B[Rank 1]", "B & C & D & E & F & G", "smaller than 12 px on a phone"),
        ("flowchart TD", "flowchart LR", None),
    ],
)
def test_diagram_is_drawn_and_can_be_read_aloud(
    project: Project, old: str, new: str, says: str | None
) -> None:
    assert old in DIAGRAM
    project.page(fence("mermaid", DIAGRAM.replace(old, new, 1)))
    if says is None:
        assert found(project) == ""
    else:
        assert says in found(project)
        assert "docs/index.md:2: " in found(project)


def test_drawing_is_kept_from_build_to_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagrams, "CACHE", tmp_path / "kept")
    diagrams.draw.cache_clear()
    drawn = diagrams.draw(DIAGRAM)
    diagrams.draw.cache_clear()
    monkeypatch.delattr(diagrams, "_drawn")
    assert diagrams.draw(DIAGRAM) == drawn
    with pytest.raises(NameError):
        diagrams.draw(f"{DIAGRAM} --> C")


def test_what_was_drawn_before_changes_no_size() -> None:
    """Mermaid is loaded once, and draws one diagram after the other."""
    others = [
        "flowchart TD\n  A --> B\n  B --> C\n  C --> A",
        "sequenceDiagram\n  A->>B: sent\n  B-->>A: heard",
        "flowchart LR\n  A[not closed",
        "stateDiagram-v2\n  [*] --> Runs\n  Runs --> [*]",
    ]
    alone = boxes(diagrams._drawn(DIAGRAM))
    for other in others:
        with suppress(RuntimeError):
            diagrams._drawn(other)
        assert boxes(diagrams._drawn(DIAGRAM)) == alone
    assert boxes(mermaidx.render(DIAGRAM).svg()) == alone


def boxes(svg: str) -> list[str]:
    """The sizes that a drawing states."""
    found = re.findall('viewBox="([^"]+)"', svg)
    assert found
    return found


def test_a_diagram_is_drawn_ahead_by_a_process_that_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where the process keeps what it draws
    monkeypatch.setattr(diagrams, "_drawn", None)  # not here
    monkeypatch.setattr(hooks, "_drawings", ahead := diagrams.Ahead())
    ahead.ask(new := f"{DIAGRAM}\n  B --> {tmp_path.name}")
    ahead.ask(wrong := "flowchart TD\n  A[not closed")
    assert ahead._pool
    drawers = [*ahead._pool._processes.values()]
    ahead.wait(new)
    assert diagrams.size(new) > (0, 0)
    with pytest.raises(RuntimeError, match="Parse error"):
        ahead.wait(wrong)
    hooks.on_build_error()
    assert drawers
    assert not any(drawer.is_alive() for drawer in drawers)


def test_who_draws_ahead_ends_with_who_asks(tmp_path: Path) -> None:
    asks = tmp_path / "asks.py"
    asks.write_text(
        "import os\n"
        "from lockstep.site.pages import diagrams\n"
        "if __name__ == '__main__':\n"
        "    ahead = diagrams.Ahead()\n"
        f"    ahead.ask({DIAGRAM!r})\n"
        f"    ahead.wait({DIAGRAM!r})\n"
        "    print(*ahead._pool._processes, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    ended = subprocess.run(
        [sys.executable, asks], cwd=tmp_path, capture_output=True, text=True
    )
    assert ended.returncode == -9, ended.stderr
    for pid in map(int, ended.stdout.split()):
        with suppress(psutil.NoSuchProcess):
            psutil.Process(pid).wait(30)


def test_a_drawing_has_neither_colors_nor_ids_of_its_own() -> None:
    html = diagrams.picture(f"{DIAGRAM}\n  B -.-> C[wide\nlabel]", "one")
    svg = BeautifulSoup(html, "html.parser").select_one(".diagram > svg")
    assert svg is not None
    assert svg["role"] == "img"
    assert svg["aria-labelledby"] == "one-title one-desc"
    assert svg.find(id="one-title").get_text() == "Two ranks"  # type: ignore[union-attr]
    assert svg.find(id="one-desc").get_text().endswith("to rank 1.")  # type: ignore[union-attr]
    labels = [label.get_text("|") for label in svg.select(".nodeLabel")]
    assert labels == ["Rank 0", "Rank 1", "wide|label"]
    [marker] = svg.select("marker")
    for edge in svg.select(".flowchart-link"):
        assert edge["marker-end"] == f"url(#{marker['id']})"
    assert not re.search(r"my-svg|data-|style|#[0-9a-f]{3}", html)
    assert html.replace("one-", "two-") == diagrams.picture(
        f"{DIAGRAM}\n  B -.-> C[wide\nlabel]", "two"
    )
