"""Write the notebooks: `labs/NAME.ipynb` from the source `labs/NAME.py`.

    python -m lockstep.site.labs

A source is a py:percent file, which jupytext reads. A line `--8<-- "…"` of a
cell is an include, as on a page; in a code cell it stands in a comment, so
that the source is Python to ruff.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from hashlib import sha256
from pathlib import Path

import jupytext

from lockstep.site.snippets import expand

_INCLUDE = re.compile(r"^# (?=--8<--)", re.M)


def notebook(source: Path, root: Path) -> str:
    """The notebook of a source, as a file's text, without outputs.

    Raises:
        BadInclude: a cell includes what is not there.
    """
    written = jupytext.read(source, fmt="py:percent")
    del written.metadata["jupytext"]  # how the source is laid out
    seen: Counter[str] = Counter()
    for cell in written.cells:
        cell.metadata.pop("lines_to_next_cell", None)
        cell.source = expand(_INCLUDE.sub("", cell.source), root).rstrip()
        # jupytext draws ids anew each time; a cell keeps its own.
        content = f"{cell.cell_type}\n{cell.source}"
        seen[content] += 1
        key = f"{content}\n{seen[content]}"
        cell.id = sha256(key.encode()).hexdigest()[:12]
    return str(jupytext.writes(written, fmt="ipynb")).rstrip("\n") + "\n"


def main() -> int:
    """Write every notebook of the site in the current directory."""
    for source in sorted(Path("labs").glob("*.py")):
        target = source.with_suffix(".ipynb")
        target.write_text(notebook(source, Path.cwd()), encoding="utf-8")
        print(f"wrote {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
