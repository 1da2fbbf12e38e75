"""Which pages a change of the sources reaches.

`mkdocs serve --dirty` writes a page again when its Markdown has changed. Ours
also show code, outputs and docstrings, and all are made by `mkdocs.yml` and the
theme, so those count as well.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.structure.files import Files

_INCLUDED = re.compile(r'--8<-- "(?P<path>[^":]+)')
_DESCRIBED = re.compile(r"^::: (?P<name>[\w.]+)$", re.M)


def outdate(files: Files, root: Path) -> None:
    """Make a built page look as old as it is: older than what it shows."""
    shared = max(_changed(path) for path in _shared(root))
    for file in files.documentation_pages():
        built = Path(file.abs_dest_path)
        if file.abs_src_path is None or not built.exists():
            continue
        text = Path(file.abs_src_path).read_text("utf-8")
        changed = [_changed(path) for path in _sources(text, root)]
        if max([shared, *changed]) > _changed(built):
            os.utime(built, (0, 0))


def _shared(root: Path) -> Iterator[Path]:
    yield root / "mkdocs.yml"
    for kind in ("*.py", "*.html"):
        yield from (root / "code/lockstep/site").rglob(kind)


def _sources(text: str, root: Path) -> Iterator[Path]:
    for found in _INCLUDED.finditer(text):
        yield root / found["path"]
    for found in _DESCRIBED.finditer(text):
        module = root / "code" / found["name"].replace(".", "/")
        yield module.with_suffix(".py")
        yield module / "__init__.py"


def _changed(path: Path) -> float:
    return path.stat().st_mtime if path.exists() else 0.0
