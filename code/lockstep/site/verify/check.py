"""A linter for what neither a strict build nor running the blocks can see.

    python -m lockstep.site.verify.check

Prints one line for each fault and exits 1 when there is one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from lockstep.site.pages import diagrams
from lockstep.site.pages.blocks import Block, blocks, pages, violations
from lockstep.site.pages.snippets import (
    BadInclude,
    expand,
    parse,
    sections,
    site_config,
)

# Not the tests, which quote broken markers; one that a page includes is
# checked with that page.
SOURCES = ("code", "labs", "launch")


def problems(root: Path) -> Iterator[str]:
    """Every fault in the sources and the pages below `root`."""
    yield from _layout(root)
    yield from _sections(root)
    verified: set[Path] = set()
    shown: set[Path] = set()
    for page in pages(root):
        yield from _page(page, root, shown, verified)
    yield from _recorded(root, shown, verified)


def _layout(root: Path) -> Iterator[str]:
    if (root / "code" / "__init__.py").exists():
        yield (
            "code/__init__.py: makes `code` a package, which hides the "
            "standard library's module of that name and breaks pdb"
        )
    for source in sorted((root / "code").rglob("*.py")):
        # A script's own folder comes first on sys.path.
        if source.stem in sys.stdlib_module_names - {"__main__"}:
            yield (
                f"{source.relative_to(root)}: hides the standard library's "
                f"module {source.stem!r} from scripts beside it"
            )


def _sections(root: Path) -> Iterator[str]:
    for folder in SOURCES:
        for source in sorted((root / folder).rglob("*")):
            if source.suffix in (".py", ".sh", ".toml", ".yaml", ".yml"):
                try:
                    sections(source)
                except BadInclude as error:
                    yield f"{source.parent.relative_to(root)}/{error}"


def _page(
    page: Path, root: Path, shown: set[Path], verified: set[Path]
) -> Iterator[str]:
    name = page.relative_to(root)
    text = page.read_text(encoding="utf-8")
    if page.is_relative_to(site_config(root).docs_dir):
        for number, line in enumerate(text.splitlines(), 1):
            try:
                if include := parse(line):
                    shown.add(root / include.path)
                    expand(line.strip(), root)
            except BadInclude as error:
                yield f"{name}:{number}: {error}"
    for match in re.finditer(r"^[ \t]*~~~", text, re.M):
        number = text.count("\n", 0, match.start()) + 1
        yield f"{name}:{number}: a fence of tildes is not verified; use ```"
    for block in blocks(page):
        yield from _block(block)
        if block.recorded and block.runs:
            verified.add(block.recorded)


def _block(block: Block) -> Iterator[str]:
    for violation in violations(block):
        yield f"{block.where}: {violation}"
    if block.language == "mermaid":
        for violation in diagrams.violations(block.text):
            yield f"{block.where}: {violation}"


def _recorded(
    root: Path, shown: set[Path], verified: set[Path]
) -> Iterator[str]:
    folder = Path(site_config(root).docs_dir) / "recorded"
    files = {path for path in folder.rglob("*") if path.is_file()}
    for path in sorted(files - shown):
        yield f"{path.relative_to(root)}: no page shows this output"
    for path in sorted((files & shown) - verified):
        yield (
            f"{path.relative_to(root)}: no command's expected output, so no "
            "run is compared with it"
        )


def main() -> int:
    """Check the site in the current directory."""
    found = sorted(set(problems(Path.cwd())))
    for problem in found:
        print(problem)
    print(f"{len(found)} faults in pages and their sources")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
