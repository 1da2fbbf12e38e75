"""Run what the pages show and write down what it printed.

    python -m lockstep.site.record

A file whose content differs only in what may differ between runs (see
`normalise`) keeps its old content, so that a record changes with a reason.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lockstep.site.execute import BlockFailed, Terminal, output
from lockstep.site.normalise import normalise
from lockstep.site.pages import blocks, pages
from lockstep.site.snippets import BadInclude


def record(root: Path) -> list[Path]:
    """Write anew each recorded output that has changed; return those files."""
    changed = []
    for page in pages(root):
        found = blocks(page)
        terminal = Terminal(found)
        try:
            for block in found:
                target = block.recorded
                if target is None or not block.runs:
                    continue
                printed = output(block, terminal)
                before = target.read_text("utf-8") if target.exists() else None
                if before is None or normalise(before) != normalise(printed):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_text(printed, encoding="utf-8")
                    changed.append(target)
        finally:
            terminal.close()
    return changed


def main() -> int:
    """Record the outputs of the site in the current directory."""
    root = Path.cwd()
    try:
        changed = record(root)
    except (BlockFailed, BadInclude) as failure:
        print(failure, file=sys.stderr)
        return 1
    for path in changed:
        print(f"wrote {path.relative_to(root)}")
    print(f"{len(changed)} recorded outputs changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
