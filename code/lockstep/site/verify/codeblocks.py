"""pytest plugin: with `--codeblocks`, what a page shows is what is verified.

pytest-codeblocks extracts the blocks, reads their marks and compares outputs;
left alone it sees the include line and not the code, and skips a fence that it
cannot name. Marks are comments above a block:

    <!--pytest.mark.skip(reason="serves until it is stopped")-->
    <!--pytest.mark.exit_code(1)-->       the code a shell block must end with
    <!--pytest.mark.torchrun(2)-->        run a Python block on two ranks
    <!--pytest.mark.fragment-->           part of a function: cannot run alone
    <!--pytest.mark.cold-->               start interpreters even with --warm
    <!--pytest-codeblocks:expected-output-->   the next block is the output
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Generator, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pytest_codeblocks.plugin import MarkdownFile, TestBlock

from lockstep.site.pages.blocks import SHELL, Block, blocks, pages, violations
from lockstep.site.pages.snippets import BadInclude, site_root
from lockstep.site.verify.execute import BlockFailed, Terminal, output
from lockstep.site.verify.normalize import normalize
from lockstep.site.verify.warm import WARM, served

SLOW = "slow_pages"


class Page(MarkdownFile):
    """A page whose blocks are verified as a reader sees them."""

    def collect(self) -> Iterable[ShownBlock]:
        """Yield an item for every Python and shell block."""
        found = blocks(self.path)
        slow = map(site_root(self.path).joinpath, self.config.getini(SLOW))
        is_slow = any(map(self.path.is_relative_to, slow))
        self.terminal = Terminal(found)
        for block in found:
            if block.language not in ("python", *SHELL):
                continue
            item: ShownBlock = ShownBlock.from_parent(
                self, name=f"line {block.line}"
            )
            item.obj = block
            item.add_marker("shell" if block.language in SHELL else "python")
            # Commands of a page build on one another: one worker runs them.
            item.add_marker(pytest.mark.xdist_group(str(self.path)))
            for mark in block.marks:
                item.add_marker(mark)
            if is_slow:
                item.add_marker("slow")
            yield item

    def teardown(self) -> None:
        """End whatever the page's commands left running."""
        self.terminal.close()
        super().teardown()


class ShownBlock(TestBlock):
    """One block of a page."""

    obj: Block
    parent: Page

    def runtest(self) -> None:
        """Refuse a block that breaks a rule; run it; compare its output."""
        if broken := list(violations(self.obj)):
            raise BlockFailed("\n".join(broken))
        printed = output(self.obj, self.parent.terminal)
        expected = self.obj.expected_text
        if expected is None:
            return
        shown, now = (
            normalize(text, self.obj.text) for text in (expected, printed)
        )
        if shown != now:
            raise BlockFailed(_difference(shown, now, self.obj))

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """Show a rule broken as its text, and an error with its traceback."""
        if isinstance(excinfo.value, BlockFailed | BadInclude):
            return f"{self.obj.where}\n{excinfo.value}"
        return pytest.Item.repr_failure(self, excinfo)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the block stands."""
        return self.path, self.obj.line - 1, self.obj.where


def _difference(shown: str, now: str, block: Block) -> str:
    lines = difflib.unified_diff(
        shown.splitlines(),
        now.splitlines(),
        "shown on the page",
        "printed now",
        lineterm="",
    )
    hint = "`make record` writes it anew" if block.recorded else ""
    return "\n".join(["the output has changed", *lines, hint])


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer what makes commands of pages start sooner."""
    parser.addini(SLOW, "pages that are marked `slow`", type="linelist")
    parser.addoption(
        "--warm",
        action="store_true",
        help="run commands of pages in forks of a Python that has torch loaded",
    )


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, Any, Any]:
    """With --warm, keep that Python until the last worker is done."""
    with ExitStack() as stack:
        if config.getoption("warm"):
            folder = stack.enter_context(
                served(pythonpath=config.rootpath / "code")
            )
            os.environ[WARM] = str(folder)
        return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """Name the marks that a page may use."""
    for line in (
        "shell: a shell block of a page",
        "python: a Python block of a page",
        "exit_code(n): the code that a shell block must end with",
        "torchrun(n): run a Python block on n ranks",
        "fragment: a Python block cut out of a function's body",
        "cold: start interpreters for a shell block even with --warm",
        "xdist_group(name): tests that one worker runs, in order",
    ):
        config.addinivalue_line("markers", line)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path,
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Put a `Page` in the place of each Markdown file of the site."""
    collectors = yield
    return [
        kept
        for collector in collectors
        if (kept := _page(collector, file_path)) is not None
    ]


def _page(collector: pytest.Collector, path: Path) -> pytest.Collector | None:
    if not isinstance(collector, MarkdownFile):
        return collector
    if path.resolve() not in pages(site_root(path)):
        return None
    page: Page = Page.from_parent(collector.parent, path=path)
    return page
