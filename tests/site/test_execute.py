"""Shown code runs where it belongs, and shown commands in order."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from select import select

import pytest

from lockstep.site.pages.blocks import Block
from lockstep.site.verify.execute import BlockFailed, Terminal, output

from .conftest import Project, fence, include

SOURCE = """\
from dataclasses import dataclass, fields

from ._names import NAME

_GREETING = "hello"


# --8<-- [start:pair]
@dataclass
class Pair:
    left: int = 1
    # --8<-- [start:method]
    def sum(self) -> int:
        return self.left + 1
    # --8<-- [end:method]
# --8<-- [end:pair]


# --8<-- [start:greet]
print(_GREETING, NAME, [field.name for field in fields(Pair())])
# --8<-- [end:greet]


def broken() -> None:
    # --8<-- [start:inside]
    value = undefined
    return value
    # --8<-- [end:inside]
"""
MODULE = "code/shown_package/module.py"


@pytest.fixture
def package(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Project]:
    project.write("code/shown_package/__init__.py", "")
    project.write("code/shown_package/_names.py", 'NAME = "you"\n')
    project.write(MODULE, SOURCE)
    monkeypatch.syspath_prepend(project.root / "code")
    yield project
    for name in [n for n in sys.modules if n.startswith("shown_package")]:
        del sys.modules[name]


def printed(page: list[Block]) -> str:
    """What the last block of a page prints."""
    terminal = Terminal(page)
    try:
        return output(page[-1], terminal)
    finally:
        terminal.close()


# Python -----------------------------------------------------------------


def test_section_finds_its_modules_names(package: Project) -> None:
    page = package.page(fence("py", include(f"{MODULE}:greet")))
    assert printed(page) == "hello you ['left']\n"


@pytest.mark.parametrize("section", ["pair", "method"])
def test_class_and_method_run_as_they_are_shown(
    package: Project, section: str
) -> None:
    page = package.page(fence("py", include(f"{MODULE}:{section}")))
    assert printed(page) == ""


def test_whole_module_runs_beside_the_imported_one(package: Project) -> None:
    import shown_package.module as imported

    page = package.page(fence("python", include(MODULE)))
    assert printed(page) == "hello you ['left']\n"
    assert sys.modules["shown_package.module"] is imported
    assert imported.Pair().__class__ is imported.Pair


def test_whole_module_that_fails_fails(package: Project) -> None:
    import shown_package.module  # noqa: F401

    package.write(MODULE, SOURCE.replace("_GREETING, NAME", "_GREETING / 0"))
    with pytest.raises(TypeError):
        printed(package.page(fence("python", include(MODULE))))


def test_error_is_traced_to_the_page(package: Project) -> None:
    package.write(MODULE, SOURCE.replace("print(_GR", "print(1 / 0, _GR"))
    with pytest.raises(ZeroDivisionError) as caught:
        printed(package.page("", fence("python", include(MODULE))))
    trace = "".join(traceback.format_exception(caught.value))
    assert f'File "<docs/index.md:3 ({MODULE})>", line' in trace
    assert "\n    print(1 / 0, _GREETING" in trace


def test_fragment_must_be_marked_and_be_one(package: Project) -> None:
    inside = fence("py", include(f"{MODULE}:inside"))
    mark = "<!--pytest.mark.fragment-->"
    with pytest.raises(SyntaxError):
        printed(package.page(inside))
    assert "hello" in printed(package.page(mark, inside))
    whole = fence("py", include(f"{MODULE}:pair"))
    with pytest.raises(BlockFailed, match="is no fragment"):
        printed(package.page(mark, whole))


def test_marked_block_runs_on_ranks(package: Project) -> None:
    package.write(
        "code/shown_package/ranks.py",
        """\
import os

# --8<-- [start:rank]
rank, ranks = os.environ['RANK'], os.environ['WORLD_SIZE']
# In one write: two ranks share the output.
print(f"rank {rank} of {ranks} {__name__}\\n", end="")
# --8<-- [end:rank]
""",
    )
    page = package.page(
        "<!--pytest.mark.torchrun(2)-->",
        fence("python", include("code/shown_package/ranks.py:rank")),
    )
    assert sorted(set(printed(page).splitlines())) == [
        "rank 0 of 2 __main__",
        "rank 0 of 2 shown_package.ranks",
        "rank 1 of 2 __main__",
        "rank 1 of 2 shown_package.ranks",
    ]


# Commands ---------------------------------------------------------------


def test_commands_of_a_page_follow_one_another(project: Project) -> None:
    page = project.page(
        fence("sh", "mkdir runs", "echo 40 > runs/step"),
        fence("console", "$ cat runs/step", "$ pwd"),
    )
    # Asked for alone, the last block brings the first with it.
    assert printed(page) == "40\n.\n"


def test_commands_run_once(project: Project) -> None:
    page = project.page(
        fence("sh", "echo x >> log"), fence("sh", "cat log"), fence("sh", "ls")
    )
    terminal = Terminal(page)
    try:
        assert output(page[2], terminal) == "log\n"
        assert output(page[0], terminal) == ""
        assert output(page[1], terminal) == "x\n"
    finally:
        terminal.close()
    assert not terminal.scratch.exists()


def test_failing_command_shows_what_it_printed(project: Project) -> None:
    page = project.page(fence("sh", "echo out; echo err >&2; exit 4", "true"))
    with pytest.raises(BlockFailed) as caught:
        printed(page)
    message = str(caught.value)
    for part in ("docs/index.md:2", "exit code 4, not 0", "out\n", "err\n"):
        assert part in message


@pytest.mark.parametrize(
    "parts",
    [
        [fence("sh", "false"), fence("sh", "true")],
        [fence("sh", "false", "true")],
        [fence("sh", "false | true")],
        [fence("console", "$ echo $unset")],
    ],
)
def test_what_fails_on_the_way_fails_the_block(
    project: Project, parts: list[str]
) -> None:
    with pytest.raises(BlockFailed, match=r"index\.md:2: exit code 1"):
        printed(project.page(*parts))


@pytest.mark.parametrize(("code", "passes"), [(3, True), (0, False)])
def test_exit_code_is_the_one_marked(
    project: Project, code: int, passes: bool
) -> None:
    mark = "<!--pytest.mark.exit_code(3)-->"
    page = project.page(mark, fence("sh", f"exit {code}"))
    if passes:
        assert printed(page) == ""
    else:
        with pytest.raises(BlockFailed, match="exit code 0, not 3"):
            printed(page)


def test_skipped_command_is_not_run(project: Project) -> None:
    skip = '<!--pytest.mark.skip(reason="slow")-->'
    page = project.page(skip, fence("sh", "touch run"), fence("sh", "ls"))
    assert printed(page) == ""


def test_endless_command_ends(project: Project) -> None:
    mark = "<!--pytest.mark.timeout(1)-->"
    page = project.page(mark, fence("sh", "echo begun; sleep 60"))
    with pytest.raises(BlockFailed, match=r"none after 0.9 s(.|\n)*begun"):
        printed(page)


def test_job_left_behind_is_ended(project: Project) -> None:
    page = project.page(fence("sh", "sleep 60 & echo $!"))
    terminal = Terminal(page)
    job = os.pidfd_open(int(output(page[0], terminal)))
    try:
        assert not select([job], [], [], 0)[0], "it ended with its block"
        terminal.close()
        assert select([job], [], [], 10)[0]
    finally:
        os.close(job)


def test_commands_are_this_environments(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COVERAGE_PROCESS_START", "a")
    page = project.page(
        fence(
            "sh",
            "python -c 'import sys; print(sys.prefix)'",
            "command -v torchrun",
            "echo ${COVERAGE_PROCESS_START-none}",
        )
    )
    assert printed(page) == ".venv\n.venv/bin/torchrun\nnone\n"
