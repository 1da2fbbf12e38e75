"""Running what a page shows: Python in its module's context, commands in order.

Commands of one page share a scratch directory, because a resume follows a
kill follows a launch. Whoever asks for a block's output gets the blocks before
it run first, once, so any selection or distribution of tests gives the same
result.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import linecache
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_codeblocks.main import stdout_io

from lockstep.site.pages.blocks import SHELL, Block
from lockstep.site.pages.snippets import Include, expand, sections
from lockstep.site.verify.normalize import tidy
from lockstep.site.verify.warm import WARM

TIMEOUT_SECONDS = 120.0


class BlockFailed(Exception):
    """A shown block does not do what the page says."""


class Terminal:
    """The commands of one page, run in order in one scratch directory."""

    def __init__(self, blocks: list[Block]) -> None:
        self.blocks = [b for b in blocks if b.language in SHELL and b.runs]
        self.scratch = Path(tempfile.mkdtemp(prefix="lockstep-")).resolve()
        self._outputs: dict[int, str | BlockFailed] = {}
        self._groups: list[int] = []

    def output(self, block: Block) -> str:
        """Return the standard output of a shell block, every one before it run.

        Raises:
            BlockFailed: it, or a command it builds on, failed.
        """
        for earlier in self.blocks:
            if earlier.line not in self._outputs:
                self._outputs[earlier.line] = self._attempt(earlier)
            found = self._outputs[earlier.line]
            if isinstance(found, BlockFailed):
                raise found
            if earlier.line == block.line:
                return found
        raise ValueError(f"{block.where} is no shell block that is run")

    def run(self, command: str, block: Block) -> str:
        """Run one command line in the scratch directory, as a reader would."""
        wanted = block.mark("exit_code")
        limit = block.mark("timeout")
        # Before pytest-timeout, so that the failure shows what was printed.
        seconds = 0.9 * (limit.args[0] if limit else TIMEOUT_SECONDS)
        # Files and not pipes: a job left in the background holds a pipe open.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", command],
                cwd=self.scratch,
                env=_environment(block.root, cold=bool(block.mark("cold"))),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
            self._groups.append(process.pid)
            try:
                code: int | str = process.wait(seconds)
            except subprocess.TimeoutExpired:
                code = f"none after {seconds:g} s"
                self.stop()
            stdout, stderr = (_read(stream) for stream in (out, err))
        expected = wanted.args[0] if wanted else 0
        if code != expected:
            raise BlockFailed(
                f"{block.where}: exit code {code}, not {expected}\n"
                f"{command}\n--- stdout\n{stdout}\n--- stderr\n{stderr}"
            )
        return tidy(stdout, self.scratch)

    def stop(self) -> None:
        """End every process that a command left behind."""
        for group in self._groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)

    def close(self) -> None:
        """Stop what still runs and remove the scratch directory."""
        self.stop()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _attempt(self, block: Block) -> str | BlockFailed:
        try:
            return self.run(_command(block), block)
        except BlockFailed as failure:
            return failure


def output(block: Block, terminal: Terminal) -> str:
    """Run a block in the way that its language and marks ask for."""
    if block.language in SHELL:
        return terminal.output(block)
    ranks = block.mark("torchrun")
    if ranks:
        return _launched(block, ranks.args[0], terminal)
    for include in block.sources:
        if include.section:  # what its import prints is not its output
            _module(include.path, block.root)
    with stdout_io() as printed:
        _run_python(block)
    return str(printed.getvalue())


def _command(block: Block) -> str:
    if block.language != "console":
        return block.text
    return "\n".join(
        line.removeprefix("$ ") for line in block.text.splitlines()
    )


def untested() -> dict[str, str]:
    """Return the environment of a process that covers no line."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("COVERAGE_", "COV_CORE_", "PYTEST_"))
    }


def _environment(root: Path, cold: bool) -> dict[str, str]:
    kept = untested()
    path = [str(Path(sys.executable).parent), kept["PATH"]]
    if (warm := kept.get(WARM)) and not cold:
        path.insert(0, warm)
    return kept | {
        "PATH": os.pathsep.join(path),
        "PYTHONPATH": str(root / "code"),
        "COLUMNS": "80",
        "NO_COLOR": "1",
        "OMP_NUM_THREADS": kept.get("OMP_NUM_THREADS", "1"),
    }


def _read(stream: Any) -> str:
    stream.seek(0)
    return str(stream.read().decode(errors="replace"))


# Python -----------------------------------------------------------------


def _run_python(block: Block) -> None:
    """Run each include where it belongs: a file as its module, a section
    among its module's names."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for include in block.sources:
        text = expand(f'--8<-- "{include}"', block.root)
        code_for = _Shown(text, f"{block.where} ({include})")
        if include.section is None:
            _as_module(include, block.root, code_for)
        elif block.mark("fragment"):
            _as_fragment(include, block.root, code_for)
        else:
            names |= vars(_module(include.path, block.root))
            code_for.run(names)


class _Shown:
    """Text from a page, with its place in every traceback."""

    def __init__(self, text: str, place: str) -> None:
        self.text = text
        self.name = f"<{place}>"
        lines = text.splitlines(keepends=True)
        linecache.cache[self.name] = (len(text), None, lines, self.name)

    def run(self, names: dict[str, Any]) -> None:
        exec(compile(self.text, self.name, "exec"), names)


def _dotted(path: str) -> str | None:
    parts = Path(path).with_suffix("").parts
    if parts[0] != "code":
        return None
    return ".".join(p for p in parts[1:] if p != "__init__")


@cache
def _module(path: str, root: Path) -> ModuleType:
    """Return the module that a file is, imported once."""
    dotted = _dotted(path)
    if dotted:
        return importlib.import_module(dotted)
    module = _fresh(path, root)
    exec(
        compile((root / path).read_text("utf-8"), str(root / path), "exec"),
        vars(module),
    )
    return module


def _fresh(path: str, root: Path) -> ModuleType:
    dotted = _dotted(path)
    spec = (
        importlib.util.find_spec(dotted)
        if dotted
        else importlib.util.spec_from_file_location(
            Path(path).stem, root / path
        )
    )
    if spec is None:
        raise BlockFailed(f"{path} is no module that Python can import")
    return importlib.util.module_from_spec(spec)


def _as_module(include: Include, root: Path, shown: _Shown) -> None:
    """Run a whole file under its own name, beside the module imported before.

    Dataclasses and pickling look a module up by name while it runs, so it
    takes the name for that long and no longer.
    """
    module = _fresh(include.path, root)
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module
    try:
        shown.run(vars(module))
    finally:
        if before is None:
            del sys.modules[module.__name__]
        else:
            sys.modules[module.__name__] = before


def _as_fragment(include: Include, root: Path, shown: _Shown) -> None:
    """Check a section cut out of a function's body, which cannot run alone.

    Its module runs whole; that tests reach its lines is held elsewhere.
    """
    tree = ast.parse((root / include.path).read_text(encoding="utf-8"))
    span = sections(root / include.path)[include.section or ""]
    inside = any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body[0].lineno <= span.start
        and span.stop - 1 <= (node.end_lineno or 0) + 1
        for node in ast.walk(tree)
    )
    if not inside:
        raise BlockFailed(f"{include} is no fragment of a function: run it")
    body = textwrap.indent(shown.text, "    ")
    compile(f"async def fragment():\n{body}", shown.name, "exec")
    whole = _Shown(expand(f'--8<-- "{include.path}"', root), include.path)
    _as_module(Include(include.path), root, whole)


_LAUNCHED = """\
import importlib
for name in {modules!r}:
    module = importlib.import_module(name)
    __package__ = module.__package__
    globals().update(
        {{k: v for k, v in vars(module).items() if not k.startswith("__")}}
    )
exec(compile({text!r}, {place!r}, "exec"))
"""


def _launched(block: Block, ranks: int, terminal: Terminal) -> str:
    """Run a Python block as the script of `ranks` processes."""
    modules = [name for i in block.sources if (name := _dotted(i.path))]
    script = terminal.scratch / f"line{block.line}.py"
    script.write_text(
        _LAUNCHED.format(modules=modules, text=block.text, place=block.where),
        encoding="utf-8",
    )
    launch = ["torchrun", "--standalone", f"--nproc-per-node={ranks}"]
    return terminal.run(shlex.join([*launch, str(script)]), block)
