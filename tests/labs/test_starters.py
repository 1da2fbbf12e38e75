"""Starters: the solutions' signatures and docstrings, without the bodies."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from lockstep.labs import Lab, labs
from lockstep.labs.starters import starter

LABS = list(labs().values())
GENERATED = [lab for lab in LABS if not lab.file("starter").exists()]
Definition = ast.FunctionDef | ast.ClassDef


def definitions(text: str) -> dict[str, Definition]:
    """Its functions and classes, and their methods, by name."""
    found: dict[str, Definition] = {}
    for node in ast.parse(text).body:
        if isinstance(node, Definition):
            inner = [one for one in node.body if isinstance(one, Definition)]
            found |= {f"{node.name}.{one.name}": one for one in inner}
            found[node.name] = node
    return found


def head(node: Definition) -> list[str]:
    """Decorators and arguments, or bases."""
    if isinstance(node, ast.ClassDef):
        return [ast.unparse(one) for one in node.bases]
    parts = [*node.decorator_list, node.args, node.returns or ast.Constant(0)]
    return [ast.unparse(one) for one in parts]


@pytest.mark.parametrize("lab", GENERATED, ids=lambda lab: lab.name)
def test_a_starter_is_its_solution_without_the_bodies_that_its_lab_names(
    lab: Lab,
) -> None:
    """It has the solution's public names and nothing that is imported from this
    project. Signatures and docstrings are the solution's, and so is the body
    of what is not left to the reader."""
    solution = import_module(f"{lab.module.__name__}.solution")
    home = import_module(getattr(solution, solution.__all__[-1]).__module__)
    sound = definitions(Path(str(home.__file__)).read_text("utf-8"))
    text, todo = starter(lab), lab.module.TODO
    found = definitions(text)
    assert found.keys() >= {*solution.__all__, *todo}
    assert "lockstep." not in "".join(
        line for line in text.splitlines() if line.startswith("from ")
    )
    for name, node in found.items():
        original = sound[name]
        assert ast.get_docstring(node) == ast.get_docstring(original)
        assert head(node) == head(original)
        if name in todo and isinstance(node, ast.FunctionDef):
            assert ast.unparse(node.body[-1]) == "raise NotImplementedError"
            assert len(node.body) <= 3  # a docstring, super().__init__()
        elif name not in todo and not any(f"{name}." in one for one in todo):
            assert ast.unparse(node) == ast.unparse(original)


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_a_starter_is_formatted(lab: Lab) -> None:
    """Ruff has nothing to change, and every line fits into 80 columns."""
    for command in ["format", "--diff"], ["check", "--ignore=D1,D401"]:
        ruff = [sys.executable, "-m", "ruff", *command, "-"]
        done = subprocess.run(
            ruff, input=starter(lab), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
