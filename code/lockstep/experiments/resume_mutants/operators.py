"""Plant one random fault in a sound training loop, as a text replacement.

Each operator makes the kind of mistake that people make in code that saves and
restores: it forgets an entry or a statement, swaps two statements, shifts a
counter, takes another rank's part, picks the wrong end of a sorted list, or
leaves a flag set.
"""

import ast
import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

COUNTERS = frozenset({
    "step", "position", "at", "first", "end", "size", "world", "count", "keep",
})  # fmt: skip
RANKS = "rank", "self.rank", "dist.get_rank()"
OPPOSITE: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=", ast.NotEq: "==", ast.Lt: "<=", ast.LtE: "<",
    ast.Gt: ">=", ast.GtE: ">", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip


class Edit(NamedTuple):
    """A replacement of part of a source: lines and columns as `ast` counts
    them, with columns in bytes."""

    operator: str
    start: tuple[int, int]
    end: tuple[int, int]
    new: str

    def applied(self, source: str) -> str:
        """Return the source with the replacement."""
        data = source.encode()
        lines = data.splitlines(keepends=True)
        offsets = [sum(map(len, lines[:k])) for k in range(len(lines))]
        a, b = (offsets[at[0] - 1] + at[1] for at in (self.start, self.end))
        return (data[:a] + self.new.encode() + data[b:]).decode()


Operator = Callable[[ast.AST, str], Iterator[Edit]]
OPERATORS: dict[str, Operator] = {}


def operator(act: Operator) -> Operator:
    """Register a kind of fault under its function's name."""
    OPERATORS[act.__name__] = act
    return act


def span(
    node: ast.stmt | ast.expr,
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return where a node begins and ends."""
    assert node.end_lineno
    assert node.end_col_offset is not None
    first = node.lineno, node.col_offset
    return first, (node.end_lineno, node.end_col_offset)


def replacing(node: ast.stmt | ast.expr, new: str) -> Edit:
    """Return the edit that writes `new` in place of `node`."""
    return Edit("", *span(node), new)


@operator
def drop_entry(node: ast.AST, source: str) -> Iterator[Edit]:
    """Forget an entry of a dictionary, such as a part of the saved state."""
    if isinstance(node, ast.Dict) and len(node.values) > 1:
        for skip in range(len(node.values)):
            kept = [
                (f"{ast.unparse(k)}: " if k else "**") + ast.unparse(v)
                for n, (k, v) in enumerate(
                    zip(node.keys, node.values, strict=True)
                )
                if n != skip
            ]
            yield replacing(node, "{" + ", ".join(kept) + "}")


@operator
def drop_key(node: ast.AST, source: str) -> Iterator[Edit]:
    """Restore a state but for its first or its last key."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "load_state_dict"
    ):
        part, state = ast.unparse(node.func.value), ast.unparse(node.args[0])
        for kept in "[1:]", "[:-1]":
            yield replacing(
                node,
                f"{part}.load_state_dict({{**{part}.state_dict(),"
                f" **dict([*{state}.items()]{kept})}})",
            )


@operator
def drop_statement(node: ast.AST, source: str) -> Iterator[Edit]:
    """Leave out a call, such as a barrier or the loading of a part, or an
    assignment to a part of an object."""
    call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    assigned = isinstance(node, ast.Assign) and not any(
        isinstance(target, ast.Name | ast.Tuple) for target in node.targets
    )
    counted = isinstance(node, ast.AugAssign)
    if call or assigned or counted:
        assert isinstance(node, ast.stmt)
        yield replacing(node, "pass")


@operator
def swap_statements(node: ast.AST, source: str) -> Iterator[Edit]:
    """Exchange two neighboring statements."""
    for field in "body", "orelse":
        block = getattr(node, field, None)
        if not isinstance(block, list):
            continue
        for one, other in pairwise(block):
            if not {type(one), type(other)} <= SIMPLE or is_text(one):
                continue
            texts = [ast.get_source_segment(source, s) for s in (other, one)]
            first, second = span(one), span(other)
            between = " " * first[0][1]
            yield Edit(
                "", first[0], second[1], f"{texts[0]}\n{between}{texts[1]}"
            )


SIMPLE = {ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign}


def is_text(node: ast.stmt) -> bool:
    """Whether it is a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


@operator
def shift_counter(node: ast.AST, source: str) -> Iterator[Edit]:
    """Be off by one in a number or a counter."""
    number = isinstance(node, ast.Constant) and type(node.value) is int
    name = isinstance(node, ast.Name) and node.id in COUNTERS
    if name and not isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]
        return
    if number or name:
        assert isinstance(node, ast.expr)
        for change in "+", "-":
            yield replacing(node, f"({ast.unparse(node)} {change} 1)")


@operator
def other_rank(node: ast.AST, source: str) -> Iterator[Edit]:
    """Take another rank's part, or that of rank 0."""
    if isinstance(node, ast.expr) and ast.unparse(node) in RANKS:
        if isinstance(getattr(node, "ctx", None), ast.Store):
            return
        yield replacing(
            node, f"(dist.get_world_size() - 1 - {ast.unparse(node)})"
        )
        yield replacing(node, "0")


@operator
def reorder(node: ast.AST, source: str) -> Iterator[Edit]:
    """Sort the other way round, or by the last digit."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "sorted":
        keys = {word.arg: ast.unparse(word.value) for word in node.keywords}
        values = ast.unparse(node.args[0])
        turned = "False" if keys.get("reverse") == "True" else "True"
        yield replacing(node, f"sorted({values}, reverse={turned})")
        last = f"reverse={keys.get('reverse', 'False')}"
        yield replacing(
            node, f"sorted({values}, key=lambda one: str(one)[-1], {last})"
        )


@operator
def leave_flag(node: ast.AST, source: str) -> Iterator[Edit]:
    """Decide a condition once and for all, or the wrong way round."""
    if isinstance(node, ast.If | ast.IfExp):
        for new in "True", "False":
            yield replacing(node.test, new)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OPPOSITE:
        left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
        if len(node.ops) == 1:
            turned = OPPOSITE[type(node.ops[0])]
            yield replacing(node, f"({left} {turned} {right})")
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield replacing(node, str(not node.value))


def edits(source: str, functions: frozenset[str]) -> list[Edit]:
    """Return every fault that can be planted in these functions and methods.

    Args:
        source: a module.
        functions: names, `function` or `Class.method`.

    Raises:
        LookupError: the module has no such function.
    """
    tree = ast.parse(source)
    places = dict(defined(tree))
    if missing := functions - {*places}:
        raise LookupError(f"no such function: {', '.join(sorted(missing))}")
    found: dict[Edit, None] = {}
    for name in sorted(functions):
        for node in ast.walk(places[name]):
            for kind, act in OPERATORS.items():
                for edit in act(node, source):
                    found[edit._replace(operator=kind)] = None
    return [edit for edit in found if compiles(edit.applied(source))]


def defined(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield the functions of a module, and the methods of its classes."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, ast.FunctionDef):
                    yield f"{node.name}.{method.name}", method


def compiles(source: str) -> bool:
    """Return whether a source is Python."""
    try:
        compile(source, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def sample(
    found: dict[str, list[Edit]], count: int, seed: int
) -> list[tuple[str, Edit]]:
    """Draw faults of all kinds, as evenly as there are any.

    Args:
        found: edits of each module.
        count: how many to draw.
        seed: of the draw.

    Returns:
        Pairs of a module's name and one of its edits, without repetition.
    """
    chance = random.Random(seed)
    by_kind: dict[str, list[tuple[str, Edit]]] = {k: [] for k in OPERATORS}
    for module in sorted(found):
        for edit in found[module]:
            by_kind[edit.operator].append((module, edit))
    for pile in by_kind.values():
        chance.shuffle(pile)
    drawn: list[tuple[str, Edit]] = []
    while len(drawn) < count and any(by_kind.values()):
        for pile in by_kind.values():
            if pile and len(drawn) < count:
                drawn.append(pile.pop())
    return drawn
