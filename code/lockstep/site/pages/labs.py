"""Write the notebooks: `labs/NAME.ipynb` from the source `labs/NAME.py`.

    python -m lockstep.site.pages.labs

A source is a py:percent file, which jupytext reads. A line `--8<-- "…"` of a
cell is an include, as on a page; in a code cell it stands in a comment, so
that the source is Python to ruff.

The sources of labs, drills and bugs are made from `labs/templates/KIND.py`:
Jinja templates, whose statements are lines that begin with `#:`.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from modulefinder import ModuleFinder
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from lockstep.debugging.bugs import COST, CUT, Bug, bugs, plain
from lockstep.drills import Drill, drills
from lockstep.grading.exercise import Exercise
from lockstep.labs import Lab, labs
from lockstep.labs.starters import starter
from lockstep.site.pages.snippets import expand

PROGRAM = "lockstep.grading.__main__"  # that a notebook grades with
# Of the instruments, the two that lab 11 asks for.
MEASURED = "/phase_timer.py", "/trace_breakdown.py"
GIVEN = "/slow_trainers.py"  # what it is about
_INCLUDE = re.compile(r"^# (?=--8<--)", re.M)


def notebook(source: str, root: Path) -> str:
    """Make a source's notebook, as a file's text; no cell has run.

    Raises:
        BadInclude: a cell includes what is not there.
    """
    written = jupytext.reads(source, fmt="py:percent")
    del written.metadata["jupytext"]  # how the source is laid out
    # What stands before the first cell is for those who edit the source.
    written.cells = [c for c in written.cells if c.cell_type != "raw"]
    seen: Counter[str] = Counter()
    for cell in written.cells:
        cell.metadata.pop("lines_to_next_cell", None)
        cell.source = expand(_INCLUDE.sub("", cell.source), root).rstrip()
        # jupytext draws ids again each time; a cell keeps its own.
        content = f"{cell.cell_type}\n{cell.source}"
        seen[content] += 1
        key = f"{content}\n{seen[content]}"
        cell.id = sha256(key.encode()).hexdigest()[:12]
    return as_text(json.loads(jupytext.writes(written, fmt="ipynb")))


def exercises() -> Iterator[Exercise]:
    """All that have a notebook."""
    yield from labs().values()
    yield from drills().values()
    yield from bugs().values()


def needed(code: Path, *names: str) -> list[str]:
    """Return the files in the folder `code` that modules import, directly or
    not, and their own, relative to it."""
    code = code.resolve()
    finder = ModuleFinder(path=[str(code)])  # so it finds no others
    for name in names:
        finder.import_hook(name)
    # typeshed leaves out what a module has; a namespace has no file.
    files = [getattr(one, "__file__", None) for one in finder.modules.values()]
    return sorted(Path(f).relative_to(code).as_posix() for f in files if f)


def closure(*exercises: Exercise, code: Path) -> list[str]:
    """Return the files of the package that the exercises' notebooks need."""
    names = [name for one in exercises for name in (one.grader, *one.brings)]
    return needed(code, PROGRAM, *names)


def source_of(exercise: Exercise, root: Path) -> str:
    """Return the source of an exercise's notebook."""
    environment = Environment(
        line_statement_prefix="#:",
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        loader=FileSystemLoader(root / "labs" / "templates"),
    )
    kind = type(exercise).__name__.lower()
    code = root / "code"
    given: dict[str, Any] = {kind: exercise}
    files = closure(exercise, code=code)
    if isinstance(exercise, Lab):
        home = f"lockstep/labs/{exercise.name}"
        given["parts"] = [
            f
            for f in files
            if "/parallel/" in f
            or "/bio/" in f
            or f == f"{home}/sound.py"
            or f.endswith(MEASURED)
        ]
        given["given"] = [f for f in files if f.endswith(GIVEN)]
        cells = [*given["given"], f"{home}/solution.py"]  # of their own
        files = [f for f in files if f not in given["parts"] + cells]
        given["starter"] = starter(exercise)
    if isinstance(exercise, Drill):
        for part in "start", "solution":
            path = getattr(exercise, part).resolve()
            given[part] = path.relative_to(root.resolve()).as_posix()
    if isinstance(exercise, Bug):
        given["cost"] = COST
        # With its comments, which an include of it leaves out with the marks.
        given["texts"] = {
            "lockstep/interview.py": plain(CUT.read_text("utf-8"))
        }
    template = environment.get_template(f"{kind}.py")
    return template.render(given, grader=files)


def notebooks(root: Path) -> Iterator[tuple[Path, str]]:
    """Each notebook's path, and its text."""
    for source in sorted((root / "labs").glob("*.py")):
        text = notebook(source.read_text("utf-8"), root)
        yield source.with_suffix(".ipynb"), text
    templated = (root / "labs" / "templates").exists()
    for exercise in exercises() if templated else ():
        text = notebook(source_of(exercise, root), root)
        yield root / "labs" / f"{exercise.notebook}.ipynb", text


def unrun(path: Path) -> str:
    """Return a notebook's text without the outputs of its cells."""
    found = json.loads(path.read_text("utf-8"))
    for cell in found["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = []
    return as_text(found)


def as_text(cells: dict[str, Any]) -> str:
    """Format a notebook as its file has it."""
    return nbformat.writes(nbformat.from_dict(cells)) + "\n"


def main() -> int:
    """Write every notebook of the site in the current directory; one that is
    what its source makes keeps its outputs."""
    for target, text in notebooks(Path()):
        if not target.exists() or unrun(target) != text:
            target.write_text(text, encoding="utf-8")
            print(f"wrote {target}: run `make record-labs`")
    return 0


if __name__ == "__main__":
    sys.exit(main())
