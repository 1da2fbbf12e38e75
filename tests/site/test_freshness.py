"""What is built again after a change, when not everything is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .conftest import run

PAGES = ("specimen", "described", "lonely")


def rebuilt(root: Path, dirty: bool = True) -> set[str]:
    """Build, and return the pages that were written."""
    found = {name: root / "site" / name / "index.html" for name in PAGES}
    before = {name: written(page) for name, page in found.items()}
    result = run("mkdocs", "build", *["--dirty"] * dirty, cwd=root)
    assert result.returncode == 0, result.stderr
    return {name for name in PAGES if written(found[name]) != before[name]}


def written(page: Path) -> int:
    return page.stat().st_mtime_ns if page.exists() else 0


def change(path: Path, root: Path) -> None:
    """Change a source after all pages were built, whatever the clock says."""
    for file in filter(Path.is_file, root.rglob("*")):
        built = (root / "site") in file.parents
        os.utime(file, (2000, 2000) if built else (1000, 1000))
    path.write_text(path.read_text("utf-8") + "\n", "utf-8")
    os.utime(path, (3000, 3000))


@pytest.mark.weekly
@pytest.mark.timeout(300)
def test_a_change_reaches_the_pages_that_show_it(scratch: Path) -> None:
    docs = scratch / "docs"
    (docs / "described.md").write_text("# One\n\n::: lockstep.specimen\n")
    (docs / "lonely.md").write_text("# Two\n\nWords.\n")
    assert rebuilt(scratch, dirty=False) == set(PAGES)
    assert rebuilt(scratch) == set()
    kept = (scratch / "site/specimen.md").read_text("utf-8")
    assert "```python" in kept
    change(docs / "lonely.md", scratch)
    assert rebuilt(scratch) == {"lonely"}
    assert (scratch / "site/specimen.md").read_text("utf-8") == kept
    change(scratch / "code/lockstep/specimen.py", scratch)
    assert rebuilt(scratch) == {"specimen", "described"}
    change(docs / "recorded/specimen.txt", scratch)
    assert rebuilt(scratch) == {"specimen"}
    change(scratch / "mkdocs.yml", scratch)
    assert rebuilt(scratch) == set(PAGES)
