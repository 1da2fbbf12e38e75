"""Examine a peer, or show what was found.

python -m lockstep.experiments.peers --help
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tyro

from lockstep.exam.adapter import Launch, load
from lockstep.exam.examine import examine
from lockstep.experiments.peers import tables
from lockstep.experiments.record import about, write

HOME = Path(__file__).parent
FOLDER = Path(".cache/exam")
# Of two ranks everything is asked; of four, what more ranks could change.
FOUR = frozenset(
    {"repeat", "ranks-differ", "goes-on", "exactly-once", "order", "random",
     "kill"}
)  # fmt: skip


def run(
    peer: tyro.conf.Positional[str],
    python: str = sys.executable,
    only: tuple[str, ...] = (),
) -> int:
    """Examine a peer and write what was found into its folder.

    Args:
        peer: the name of a folder here.
        python: the interpreter of the peer's environment.
        only: ask these questions, print the answers and write nothing.
    """
    home, asked = HOME / peer, frozenset(only)
    found = found_of(home / "adapter.py", python, asked)
    if not only:
        write(found, home / "result.json")
    if (mended := home / "mended.py").exists():
        # What failed, or was not asked for what failed before.
        answers = found["ranks 2"]["questions"]
        open_ = {
            q["id"] for q in answers if q["answer"] in ("failed", "not run")
        }
        found = found_of(mended, python, asked or frozenset(open_))
        if not only:
            write(found, home / "mended.json")
    return 0 if only else render()


def found_of(
    adapter: Path, python: str, only: frozenset[str]
) -> dict[str, Any]:
    """What a result file holds: on two ranks, and briefly on four."""
    found = {**about(()), "versions": versions(adapter.parent, python)}
    found["ranks 2"] = examined(adapter, python, 2, only)
    if not only:
        found["ranks 4"] = examined(adapter, python, 4, FOUR)
    return found


def examined(
    adapter: Path, python: str, ranks: int, only: frozenset[str]
) -> dict[str, Any]:
    """The answers, also on the terminal."""
    launch = Launch(Path(), ranks=ranks, python=python)
    folder = (FOLDER / f"runs-{adapter.parent.name}").resolve()
    exam = examine(load(adapter), folder, launch, only, print)
    for result in exam.results.values():
        print(result.question.id, result.verdict.answer, result.verdict.said)
    return without_paths(exam.as_json(), folder)


def without_paths(found: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The same, wherever it was run."""
    text = json.dumps(found)
    for path, name in (
        (str(folder), "RUNS"),
        (str(Path.cwd()), "."),
        (str(Path.home()), "~"),
    ):
        text = text.replace(path, name)
    return json.loads(text)


def versions(home: Path, python: str) -> dict[str, str]:
    """Of the packages that the peer pins, as installed."""
    pins = home / "requirements.txt"
    lines = pins.read_text().splitlines() if pins.exists() else ["torch"]
    names = [line.partition("==")[0] for line in lines if line[:1].isalpha()]
    ask = (
        "import sys, platform; from importlib.metadata import version;"
        "print(platform.python_version(), *map(version, sys.argv[1:]))"
    )
    names = [name.partition("[")[0] for name in names]
    said = subprocess.check_output([python, "-c", ask, *names], text=True)
    number, *rest = said.split()
    return {"Python": number, **dict(zip(names, rest, strict=True))}


def render() -> int:
    """Write the sections of the page anew, from all results and notes."""
    (HOME / "result.md").write_text(tables.tables(tables.read(HOME)))
    return 0


if __name__ == "__main__":
    commands: dict[str, Callable[..., int]] = {"run": run, "render": render}
    sys.exit(
        tyro.extras.subcommand_cli_from_dict(
            commands, prog="lockstep.experiments.peers"
        )
    )
