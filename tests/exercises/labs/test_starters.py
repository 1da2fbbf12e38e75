"""Starters: the solutions' signatures and docstrings, without the bodies."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.exercises.labs import Lab, labs
from lockstep.exercises.labs.starters import generated, starter

LABS = list(labs().values())
GENERATED = [lab for lab in LABS if not lab.file("starter").exists()]
SOUND = '''\
"""Tells everything."""

import os
from typing import NamedTuple

from torch import Tensor

from lockstep.parallel.collectives import Group, place

Row = list[int]


class Given(NamedTuple):
    """A class without anything to do."""

    rows: Row  # by rank

    def first(self) -> int:
        return self.rows[0]


class Secret(NamedTuple):
    """What only the solution knows."""

    answer: int


def helper() -> Secret:
    return Secret(42)


class Half(Tensor):
    """A class with something to do."""

    # How it is done.
    def __init__(self) -> None:
        super().__init__()
        self.answer = helper()

    def hidden(self) -> int:
        return len(os.sep)

    @property
    def shown(self) -> Given:
        # How it is done.
        return Given([place()[0]])


def joined(secret: Secret, group: Group = None) -> Tensor:
    """Join.

    Returns:
        All of it.
    """
    # How it is done.
    raise KeyError(group)
'''
STARTER = '''\
"""Do it."""

from typing import NamedTuple

import torch.distributed as dist
from torch import Tensor

Group = dist.ProcessGroup | None
Row = list[int]


class Given(NamedTuple):
    """A class without anything to do."""

    rows: Row  # by rank

    def first(self) -> int:
        return self.rows[0]


class Secret(NamedTuple):
    """What only the solution knows."""

    # TODO: yours


class Half(Tensor):
    """A class with something to do."""

    def __init__(self) -> None:
        super().__init__()
        raise NotImplementedError

    @property
    def shown(self) -> Given:
        raise NotImplementedError  # TODO: one line


def joined(secret: Secret, group: Group = None) -> Tensor:
    """Join.

    Returns:
        All of it.
    """
    raise NotImplementedError  # TODO: a few lines
'''


def test_a_starter_has_signatures_and_what_they_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "tells_everything.py").write_text(SOUND)
    solution = tmp_path / "solution.py"
    solution.write_text(
        '"""Quoted."""\n\nfrom tells_everything import Half, joined\n'
    )
    todo = {
        "Secret": "yours",
        "Half.__init__": "",
        "Half.shown": "one line",
        "joined": "a few lines",
    }
    assert generated("Do it.", todo, solution) == STARTER


@pytest.mark.parametrize("lab", GENERATED, ids=lambda lab: lab.name)
def test_a_generated_starter_leaves_open_all_that_its_lab_names(
    lab: Lab,
) -> None:
    """Its public names are the solution's, and it imports nothing of ours."""
    tree = ast.parse(starter(lab))
    named: set[str] = set()
    left: set[str] = set()
    for node in tree.body:
        for one in (node, *getattr(node, "body", [])):
            if isinstance(one, ast.FunctionDef | ast.ClassDef):
                outer = f"{node.name}." if one is not node else ""
                named.add(name := outer + one.name)
                end = ast.unparse(one.body[-1])
                empty = isinstance(one, ast.ClassDef) and end.startswith("'")
                if empty or end == "raise NotImplementedError":
                    left.add(name)
    *_, public = ast.parse(lab.file("solution").read_text()).body
    assert isinstance(public, ast.Assign)
    assert named >= {*ast.literal_eval(public.value)}
    assert left == lab.module.TODO.keys()
    homes = {getattr(node, "module", None) for node in tree.body}
    assert not any(str(home).startswith("lockstep") for home in homes)


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_a_starter_is_formatted(lab: Lab) -> None:
    """Ruff has nothing to change, and every line fits into 80 columns."""
    ruff = [sys.executable, "-m", "ruff"]
    for command in (
        [*ruff, "format", "--diff", "--stdin-filename=starter.py", "-"],
        [*ruff, "check", "--ignore=D1", "--stdin-filename=starter.py", "-"],
    ):
        done = subprocess.run(
            command, input=starter(lab), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
