"""Each way that a page was seen to go wrong unseen makes a check fail."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from lockstep.grading.mutants import replaced
from tests.conftest import daily

from .conftest import run

PAGE = "docs/specimen.md"
MODULE = "code/lockstep/specimen.py"

CHECKS = {
    "blocks": (
        # Named here and not found by entry point, which may not be this copy.
        *("pytest", "--disable-plugin-autoload"),
        *(
            "-p",
            "pytest_codeblocks.plugin",
            "-p",
            "lockstep.site.verify.codeblocks",
        ),
        *("-p", "no:cacheprovider", "--codeblocks", PAGE),
    ),
    "check": ("lockstep.site.verify.check",),
    "build": ("mkdocs", "build", "--strict"),
}


class Mutation(NamedTuple):
    """One edit of the scratch copy, the check that sees it, what it says."""

    edit: Callable[[Path], None]
    check: str
    says: str


def replace(path: str, old: str, new: str) -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        file = root / path
        text = replaced(file.read_text("utf-8"), [(old, new)])
        file.write_text(text, "utf-8")

    return edit


def both(*edits: Callable[[Path], None]) -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        for one in edits:
            one(root)

    return edit


def make_package(root: Path) -> None:
    (root / "code" / "__init__.py").touch()


DEMO = f'--8<-- "{MODULE}:demo"'
MUTATIONS = {
    "section renamed": Mutation(
        replace(MODULE, "[start:demo]", "[start:trial]"),
        "blocks",
        r"\[end: demo\] closes no open section",
    ),
    "section renamed throughout": Mutation(
        both(
            replace(MODULE, "[start:demo]", "[start:trial]"),
            replace(MODULE, "[end:demo]", "[end:trial]"),
        ),
        "build",
        "could not be located",
    ),
    "end marker deleted": Mutation(
        replace(MODULE, "    # --8<-- [end:inside]\n", ""),
        "blocks",
        "section 'inside' is never closed",
    ),
    "space after an include": Mutation(
        replace(PAGE, DEMO, f"{DEMO} "),
        "blocks",
        "pymdownx does not read this include",
    ),
    "line range past the end": Mutation(
        replace(PAGE, f'"{MODULE}:demo"', f'"{MODULE}:900:910"'),
        "blocks",
        "names a file or a section",
    ),
    "runtime error in a shown section": Mutation(
        replace(MODULE, "world=_STEP,", "word=_STEP,"),
        "blocks",
        "unexpected keyword argument 'word'",
    ),
    "runtime error in a shown module": Mutation(
        replace(MODULE, "\n_STEP = 2\n", "\n_STEP = 1 // 0\n"),
        "blocks",
        "ZeroDivisionError",
    ),
    "wrong expected output": Mutation(
        replace("docs/recorded/specimen.txt", "8 samples", "9 samples"),
        "blocks",
        r"-a step takes 9 samples\n.*\+a step takes 8 samples",
    ),
    "block typed by hand": Mutation(
        replace(PAGE, DEMO, 'print("a step takes 8 samples")'),
        "blocks",
        "is typed by hand",
    ),
    "Mermaid syntax error": Mutation(
        replace(PAGE, "ranks[Ranks] -->", "ranks[Ranks -->"),
        "check",
        "specimen.md:3: the diagram has a syntax error",
    ),
    "broken anchor": Mutation(
        replace(PAGE, "(#whole)", "(#hole)"), "build", "no such anchor"
    ),
    "code/__init__.py added": Mutation(
        make_package, "check", "hides the standard library's module"
    ),
}


# One for each of what checks pages runs every day.
DAILY = "section renamed", "wrong expected output", "broken anchor"


@pytest.mark.parametrize("name", daily(MUTATIONS, *DAILY))
def test_mutation_is_caught(
    name: str, scratch: Path, node_modules: Path
) -> None:
    mutation = MUTATIONS[name]
    mutation.edit(scratch)
    result = run(*CHECKS[mutation.check], cwd=scratch)
    printed = result.stdout + result.stderr
    assert result.returncode != 0, printed
    assert re.search(mutation.says, printed, re.S), printed


@pytest.mark.parametrize("check", CHECKS)
def test_unmutated_copy_passes(
    check: str, scratch: Path, node_modules: Path
) -> None:
    result = run(*CHECKS[check], cwd=scratch)
    assert result.returncode == 0, result.stdout + result.stderr
