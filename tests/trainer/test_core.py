"""The core is small enough to show whole, and stands on its own."""

import ast
import io
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import lockstep.trainer

HOME = Path(lockstep.trainer.__path__[0])
READING_ORDER = ["config", "process", "telemetry", "order", "data", "model"]
READING_ORDER += ["precision", "step", "checkpoint", "loop"]
LIBRARIES = {"torch", "numpy", "safetensors"}
BUDGET = 620  # lines of code: what is left without blanks and prose
WIDTH = 80


def source(module: str) -> str:
    return (HOME / f"{module}.py").read_text()


def docstrings(text: str) -> set[int]:
    """The lines that docstrings, and other strings in no use, stand on."""
    return {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or 0) + 1)
    }


def code_lines(text: str) -> int:
    """Lines that hold code: not blank, not a comment, not a docstring."""
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE}
    layout |= {tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    used = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in layout
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(used - docstrings(text))


def imported(text: str) -> tuple[set[str], set[str], set[str]]:
    """What a module imports: (siblings, others, others when it is used)."""
    tree = ast.parse(text)
    siblings, others = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            whole = node.module is None  # from . import checkpoint
            names = [a.name for a in node.names] if whole else [node.module]
            siblings |= {"." * (node.level - 1) + str(n) for n in names}
        elif isinstance(node, ast.ImportFrom):
            others.add(str(node.module).split(".")[0])
        elif isinstance(node, ast.Import):
            others |= {alias.name.split(".")[0] for alias in node.names}
    late = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            late |= imported("\n".join(map(ast.unparse, function.body)))[1]
    return siblings, others, late


def undescribed(text: str) -> list[str]:
    """Public functions and classes, and the module, without a docstring."""
    tree = ast.parse(text)
    described = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    nodes = [n for n in tree.body if isinstance(n, described)]
    silent = [
        n.name
        for n in nodes
        if not n.name.startswith("_") and not ast.get_docstring(n)
    ]
    return silent + ([] if ast.get_docstring(tree) else ["the module"])


def test_every_module_of_the_core_is_in_the_reading_order() -> None:
    """The reading order names every module of the trainer's core and no
    other."""
    modules = {path.stem for path in HOME.glob("*.py")}
    assert modules - {"__init__", "__main__"} == set(READING_ORDER)


def test_the_core_fits_its_budget() -> None:
    """The trainer's core has no more lines of code than its budget."""
    lines = {module: code_lines(source(module)) for module in READING_ORDER}
    physical = sum(source(m).count("\n") for m in READING_ORDER)
    print(f"{lines}: {sum(lines.values())} of code, {physical} in all")
    assert sum(lines.values()) <= BUDGET


def test_counting_leaves_out_prose_and_blanks_and_nothing_else() -> None:
    prose = '"""Module."""\n\n# why\ndef f():\n    """One\n\n    two."""\n'
    code = (
        '    x = """a\n    b"""  # a string in use\n    return (\n        x)\n'
    )
    assert code_lines(prose) == 1
    assert code_lines(prose + code) == 5


@pytest.mark.parametrize("module", READING_ORDER)
def test_lines_fit_the_page(module: str) -> None:
    assert max(map(len, source(module).splitlines())) <= WIDTH


@pytest.mark.parametrize("module", READING_ORDER)
def test_imports_point_one_way(module: str) -> None:
    """Each module of the core imports only modules before it in the reading
    order, torch and the standard library."""
    above = READING_ORDER[: READING_ORDER.index(module)]
    siblings, others, late = imported(source(module))
    assert siblings <= set(above)
    # The data set is made where it is asked for, and only there.
    lazily = {"sklearn"} if module == "data" else set()
    assert others <= LIBRARIES | sys.stdlib_module_names | lazily
    assert lazily <= late


def test_the_import_check_sees_every_form() -> None:
    text = "import a.b\nfrom c.d import e\nfrom .f import g\nfrom . import h\n"
    text += "from .extensions.i import j\nfrom ..k import l\n"
    text += "def m():\n    import n\n"
    siblings, others, late = imported(text)
    assert siblings == {"f", "h", "extensions.i", ".k"}
    assert (others, late) == ({"a", "c", "n"}, {"n"})


def test_importing_the_core_loads_no_room_and_no_data_set() -> None:
    """Importing the training loop loads no extension, no command line and no
    data set."""
    names = "sklearn", "tyro", "rich", "lockstep.trainer.extensions"
    script = f"""
import sys, lockstep.trainer.loop
print([name for name in {names} if name in sys.modules])
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("module", READING_ORDER)
def test_public_functions_are_described(module: str) -> None:
    assert undescribed(source(module)) == []


def test_an_undescribed_function_is_seen() -> None:
    text = '"""Said."""\ndef f(): ...\ndef _g(): ...\nclass H: ...\n'
    assert undescribed(text) == ["f", "H"]
    assert undescribed("x = 1") == ["the module"]
