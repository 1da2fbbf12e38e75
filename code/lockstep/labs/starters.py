"""A lab's starter: its solution, without the bodies that the reader writes.

The names that the lab's `solution.py` imports keep their signatures and
docstrings, and bring the imports and types that these need. The lab's own
module adds `STARTER`, the starter's docstring, and `TODO`, the functions that
lose their bodies, each with a hint. A class keeps the methods that `TODO`
names, or its whole body if `TODO` names none of them.

A starter that has little in common with its solution is a file, `starter.py`.
"""

from __future__ import annotations

import ast
import sys
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path

from lockstep.labs import Lab

Function = ast.FunctionDef
Imports = set[tuple[str, str]]  # a module, or nothing; what is imported


def starter(lab: Lab) -> str:
    """Return the text of the file that a lab's reader fills in."""
    if (file := lab.file("starter")).exists():
        return file.read_text("utf-8")
    given = lab.module
    return generated(given.STARTER, given.TODO, lab.file("solution"))


def generated(docstring: str, todo: dict[str, str], solution: Path) -> str:
    """Return the text of a starter that is made from a solution.

    Args:
        docstring: the starter's.
        todo: a hint for each function, method or class that loses its body.
        solution: a file that begins with a docstring, and then imports the
            lab's public names from one module.
    """
    public = ast.parse(solution.read_text("utf-8")).body[1]
    assert isinstance(public, ast.ImportFrom)
    source = Source(str(public.module), todo)
    imports, blocks = source.taken([one.name for one in public.names])
    aliases = list(takewhile(lambda block: "\n" not in block, blocks))
    top = [f'"""{docstring}"""', import_block(imports), "\n".join(aliases)]
    below = "\n\n\n".join(blocks[len(aliases) :])
    return "\n\n".join(filter(None, top)) + f"\n\n\n{below}\n"


class Source:
    """A module's source, by the names at its top level."""

    def __init__(self, module: str, todo: dict[str, str]) -> None:
        spec = find_spec(module)
        assert spec
        text = Path(str(spec.origin)).read_text("utf-8")
        self.lines, self.todo = text.splitlines(), todo
        self.defined: dict[str, ast.stmt] = {}
        self.imported: dict[str, tuple[str, str]] = {}
        for node in ast.parse(text).body:
            if isinstance(node, Function | ast.ClassDef):
                self.defined[node.name] = node
            elif isinstance(node, ast.Assign):
                self.defined[ast.unparse(node.targets[0])] = node
            elif isinstance(node, ast.Import | ast.ImportFrom):
                home = getattr(node, "module", "")
                for one in node.names:
                    name = one.asname or one.name
                    self.imported[name] = home, ast.unparse(one)

    def taken(self, names: list[str]) -> tuple[Imports, list[str]]:
        """Return the imports and definitions that these names stand for, and
        those that their signatures name."""
        imports: Imports = set()
        blocks: dict[str, str] = {}
        others: list[str] = []
        for name in (queue := [*names]):
            if name in self.defined and name not in blocks:
                blocks[name] = block = self.without_body(name)
                tree = ast.walk(ast.parse(block))
                queue += [one.id for one in tree if isinstance(one, ast.Name)]
            elif name in self.imported:
                imports.add(self.imported[name])
        for home, name in sorted(imports):
            if home.startswith("lockstep."):  # a starter stands alone
                more, defined = Source(home, self.todo).taken([name])
                imports = imports - {(home, name)} | more
                others += defined
        blocks = {name: blocks[name] for name in self.defined if name in blocks}
        return imports, [*others, *blocks.values()]

    def without_body(self, name: str) -> str:
        """Return a definition without what `todo` leaves to the reader."""
        node = self.defined[name]
        if isinstance(node, Function) and name in self.todo:
            return self.signature(node, self.todo[name])
        left: list[str] = []
        if isinstance(node, ast.ClassDef):
            if name in self.todo:
                left = [f"    # TODO: {self.todo[name]}"]
            for one in node.body:
                path = f"{name}.{getattr(one, 'name', '')}"
                if isinstance(one, Function) and path in self.todo:
                    left.append(self.signature(one, self.todo[path]))
            if left:
                return "\n\n".join([self.text(node, node.body[0]), *left])
        return self.text(node, node)

    def signature(self, function: Function, hint: str) -> str:
        """Return a function with its docstring, and of its body no more than
        the parent's `__init__`."""
        assert function.returns
        end: ast.stmt | ast.expr = function.returns
        first, *rest = function.body
        if ast.get_docstring(function) is not None:
            end, first = first, rest[0]
        lines = [self.text(function, end)]
        if ast.unparse(first).startswith("super().__init__("):
            lines.append(self.text(first, first))
        indent = (function.col_offset + 4) * " "
        todo = f"  # TODO: {hint}" if hint else ""
        return "\n".join([*lines, f"{indent}raise NotImplementedError{todo}"])

    def text(self, node: ast.stmt, end: ast.stmt | ast.expr) -> str:
        """Return the lines from the begin of one node to the end of another."""
        above = getattr(node, "decorator_list", [])
        begin = min(one.lineno for one in [node, *above]) - 1
        return "\n".join(self.lines[begin : end.end_lineno])


def import_block(imports: Imports) -> str:
    """Return import statements in isort's order."""
    lines = sorted(f"import {what}" for home, what in imports if not home)
    for home in sorted({home for home, _ in imports if home}):
        names = sorted(what for where, what in imports if where == home)
        lines.append(f"from {home} import {', '.join(names)}")
    standard = [
        line
        for line in lines
        if line.split()[1].partition(".")[0] in sys.stdlib_module_names
    ]
    others = [line for line in lines if line not in standard]
    return "\n\n".join(
        "\n".join(group) for group in (standard, others) if group
    )
