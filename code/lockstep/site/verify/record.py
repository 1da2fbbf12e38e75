"""Run what the pages show and write down what it printed.

    python -m lockstep.site.verify.record [PAGE ...]

A file whose content differs only in what may differ between runs (see
`normalize`) keeps its old content, so that a record changes with a reason.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from lockstep.site.pages.blocks import blocks, pages
from lockstep.site.pages.snippets import BadInclude
from lockstep.site.verify.execute import BlockFailed, Terminal, output
from lockstep.site.verify.normalize import normalize


def record(chosen: Iterable[Path]) -> list[Path]:
    """Rewrite the changed outputs of these pages, and return their files."""
    changed = []
    for page in chosen:
        found = blocks(page)
        terminal = Terminal(found)
        try:
            for block in found:
                target = block.recorded
                if target is None or not block.runs:
                    continue
                printed = output(block, terminal)
                before = target.read_text("utf-8") if target.exists() else None
                if before is None or normalize(before, block.text) != normalize(
                    printed, block.text
                ):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_text(printed, encoding="utf-8")
                    changed.append(target)
        finally:
            terminal.close()
    return changed


def main(names: list[str]) -> int:
    """Record the outputs of all pages in the current directory, or of some."""
    root = Path.cwd()
    chosen = [Path(name).resolve() for name in names] or pages(root)
    try:
        changed = record(chosen)
    except (BlockFailed, BadInclude) as failure:
        print(failure, file=sys.stderr)
        return 1
    for path in changed:
        print(f"wrote {path.relative_to(root)}")
    print(f"{len(changed)} recorded outputs changed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
