"""Where a number in an answer may come from.

No figure of ours is typed. A numeral in an answer is one of these:

- computed: `{{ plan("memory", …).total_bytes }}`, or arithmetic in `{{ … }}`
  on such figures and on what was asked;
- recorded: `{{ recorded("benchmarks/result.json", "summary.steps…", "s") }}`
  from a result, `{{ printed("lab-03-demo", r"all-gather +(\\S+)") }}` from an
  output that a page shows;
- quoted: the text of a link to a source, or to a page on which it stands; in
  a sentence that ends in `<!-- from: FILE -->`, and in that file; or in what
  the evidence's `sources` are cited to say;
- asked: the question states it or shows it, as in `{{ artifact("lab-03-demo")
  }}`, or the pushback that is being met does, or it is what the planner is
  given;
- a name and no quantity: rank 3, lab 08, #172596, 2.13.0, H100, fp32, 70B, a
  year, code in backticks; and 0, 1 and 100 %.

Small counts are words: two ranks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import TemplateError, nodes

from lockstep.planner.figures import Figure, Formula
from lockstep.practice.figures import ENVIRONMENT, Shown, computed

from .bank import MARK, Asked, Kind, loaded, parsed

PACKAGE = Path(__file__).parents[1]
ROOT = Path(__file__).parents[3]
# An installed package brings of the docs what cards quote, and has no other
# file of the repository to compare with (pyproject.toml).
CHECKOUT = (ROOT / "mkdocs.yml").is_file()
DOCS = (ROOT if CHECKOUT else PACKAGE) / "docs"
RESULTS = "code/lockstep/experiments"
CALLS = {"plan", "recorded", "printed"}

_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.S)
_ARTIFACT = re.compile(r"\{\{ *artifact\(.*?\}\}", re.S)
_FROM = re.compile(r"<!--\s*from:\s*(\S+)\s*-->")
_COMMENT = re.compile(r"<!--.*?-->", re.S)
_LINK = re.compile(r"\[([^][]*)\]\(([^)\s]*)\)")
_CODE = re.compile(r"`([^`]*)`")
_INCLUDE = re.compile(r'--8<-- "([^":]+)')
_HEADING = re.compile(r"^#+ .*?(?:\{ #([\w-]+) \})?\s*$")
_SENTENCE = re.compile(r"[.?!:]\s")
# What stands before it makes a name of it: H100, ZeRO-3, #172596, v2.13.
_NUMERAL = re.compile(
    r"(?<![\w.#])(?<![A-Za-z]-)"
    r"\d+(?:,\d{3})*(?:\.\d+)?[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]*"
)
_WORDS = (
    "two three four five six seven eight nine ten eleven twelve thirteen"
    " fourteen fifteen sixteen seventeen eighteen nineteen twenty"
)
_SPELLED = {word: str(n) for n, word in enumerate(_WORDS.split(), 2)}
_UNIT = (
    r"(?:%|[kMGTP]i?B(?:/s)?|B/s|bytes?|[mµn]?s|seconds?|min|minutes?|h|hours?"
    r"|FLOPs?|GPUs?|times|tokens?|steps|×)(?![\w-])"
)
_QUANTITY = re.compile(rf"\d+\.\d+|[\d.,]+\s*{_UNIT}")
_ONE = rf"\d[\d,.]*(?!\s*{_UNIT})"
_NAMES = re.compile(
    r"\d+\.\d+\.\d+\w*"  # a version
    r"|\b(?:torch|PyTorch|Python|NCCL|CUDA|Slurm|Kubernetes|Linux|version)"
    r" v?\d[\d.]*"
    r"|\bLlama \d(?:\.\d)?"
    r"|\b\d+(?:\.\d+)?B\b|\b\d[DF]\w*"  # 70B, 2D, 1F1B
    r"|\b(?:in|of|since|until|before) (?:19|20)\d\d\b"
    rf"|\b(?:on|in|since|until|before|after) 2\.\d\d?\b(?!\s*{_UNIT})"  # torch
    r"|\b100 %"
    r"|(?:\b(?:rank|member|device|node|host|rack|seed|step|epoch|dimension|dim"
    r"|stage|layer|lab|drill|round|scenario|cell|section|equation|table|figure"
    r"|chapter|page|level|code|port)s?|\bappendix)"
    rf"\s+{_ONE}(?:(?:,| to| and| or|–)\s+{_ONE})*",
    re.I,
)


@cache  # questions cite the same pages, and a server reads them at each change
def numerals(text: str) -> frozenset[str]:
    """Those that stand for quantities, as plain digits: 8,192 is 8192."""
    text = _NAMES.sub(" ", text.replace("\N{NO-BREAK SPACE}", " "))
    found = _NUMERAL.finditer(text)
    return frozenset(one[0].replace(",", "") for one in found)


def vetted(folder: Path, kind: type[Kind]) -> dict[str, Kind]:
    """All questions of a kind in a folder, by id, in the order of topics.

    Raises:
        ValueError: a file holds none, or, in a checkout, one with a number that
            is typed; says which, and why.
    """
    return loaded(folder, kind, _sound)


@cache
def _sound(name: str, text: str, kind: type[Kind]) -> Kind:
    one = parsed(name, text, kind)
    if CHECKOUT and (bad := next(typed(one), None)):
        raise ValueError(f"{name}: {bad}")
    return one


def vet_again() -> None:
    """Forget which questions are sound: what they cite may have changed."""
    _sound.cache_clear()


def typed(question: Asked) -> Iterator[str]:
    """Each number of its answers that has no origin, in a line.

    Raises:
        ValueError: an answer is no template.
    """
    answers = list(question.answers())
    quoted = numerals(" ".join(one.says for one in question.evidence.sources))
    quoted |= _planned(" ".join(text for _, text, _ in answers))
    for place, text, _ in answers:
        for faults, found in (_linked(text), _commented(text)):
            yield from (f"{place}: {fault}" for fault in faults)
            quoted |= found
    for place, text, asked in answers:
        known = quoted | _asked(asked)
        for number in sorted(_loose(text) - known):
            if _value(number) not in (0, 1):
                yield f"{place}: {number} is typed; compute it or quote it"
        values = {_value(one) for one in known}
        for constant in _constants(text, values):
            yield f"{place}: {constant:g} is typed into a template"


def _value(numeral: str) -> float:
    """Without its exponent."""
    return float(re.sub(r"[^\d.]", "", numeral))


def _asked(text: str) -> set[str]:
    """The numerals of a question, spelled or not."""
    words = re.findall(r"[a-z]+", text.lower())
    spelled = {_SPELLED[word] for word in words if word in _SPELLED}
    shown = computed("\n".join(_ARTIFACT.findall(text)), "", artifact=artifact)
    return spelled | numerals(_TEMPLATE.sub(" ", text)) | numerals(shown)


def _loose(text: str) -> frozenset[str]:
    """The numerals of its prose."""
    text = _COMMENT.sub("", _TEMPLATE.sub(" figure ", MARK.sub("", text)))
    text = _LINK.sub(r" \1 ", text)
    return numerals(_CODE.sub(_of_code, text))


def _of_code(found: re.Match[str]) -> str:
    """Code is a name, but for what is a quantity and nothing else."""
    whole = found[1].strip()
    return f" {whole} " if _QUANTITY.fullmatch(whole) else " code "


def _linked(text: str) -> tuple[list[str], frozenset[str]]:
    """What is wrong with its links' numbers; those that are right."""
    faults, right = [], frozenset[str]()
    for shown, target in _LINK.findall(text):
        found = numerals(_TEMPLATE.sub("", _CODE.sub("", shown)))
        if found and not target.startswith("https://"):
            path = "docs/" + target.partition("#")[0]
            missing = sorted(found - _standing(path))
            faults += [f"{path} has no {number}" for number in missing]
            found -= {*missing}
        right |= found
    return faults, right


def _commented(text: str) -> tuple[list[str], frozenset[str]]:
    """What is wrong with its comments; the numbers that they vouch for."""
    faults, right, start = [], frozenset[str](), 0
    for comment in _FROM.finditer(text):
        said = _COMMENT.sub("", text[start : comment.start()])
        said = _TEMPLATE.sub(" ", _LINK.sub(r"\1", said)).rstrip().rstrip(".")
        said, start = _SENTENCE.split(said)[-1], comment.end()
        if not (ROOT / comment[1]).is_file():
            faults.append(f"there is no {comment[1]}")
            continue
        if not (found := numerals(said) & _standing(comment[1])):
            faults.append(f"{comment[1]} has no number of what it vouches for")
        right |= found
    return faults, right


def _standing(path: str) -> frozenset[str]:
    """The numerals of a file below the root and of what it includes."""
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    text = file.read_text("utf-8")
    inside = (_standing(name) for name in _INCLUDE.findall(text))
    return numerals(_LINK.sub(r" \1 ", text)).union(*inside)


def _planned(text: str) -> set[str]:
    """What the planner is given: it stands in the address of the figure."""
    try:
        tree = ENVIRONMENT.parse(text)
    except TemplateError as error:
        raise ValueError(str(error)) from None
    calls = (x for x in tree.find_all(nodes.Call) if _origin(x) == "plan")
    found = (x.value for call in calls for x in call.find_all(nodes.Const))
    return {f"{x:g}" for x in found if isinstance(x, int | float)}


def _origin(call: nodes.Call) -> str:
    """The name of the function that is called."""
    return call.node.name if isinstance(call.node, nodes.Name) else ""


def _constants(text: str, known: set[float]) -> Iterator[float]:
    """The numbers that a template brings along."""
    tree = ENVIRONMENT.parse(text)
    for output in tree.find_all(nodes.Output):
        for one in output.nodes:
            yield from _of_expression(one, known)
    for assigned in tree.find_all(nodes.Assign):
        yield from _of_expression(assigned.node, known)


def _of_expression(one: nodes.Node, known: set[float]) -> Iterator[float]:
    """Units, as in b / 1e9, are no numbers of ours; nor are coefficients where
    something else is computed by them, as in 2 * (n - 1)."""
    constants = list(_numbers(one))
    asked = {x for x in constants if known & {x / 1000**k for k in range(5)}}
    named = isinstance(one, nodes.Name) or one.find(nodes.Name) is not None
    for number in constants:
        unit = f"{number:e}".startswith("1.000000e") or number == 1024
        small = number in range(10) and (asked or named)
        done = isinstance(one, nodes.BinExpr | nodes.Filter)
        if number in asked or number in (0, 1):
            continue
        if not (done and (small or unit)):
            yield number


def _numbers(node: nodes.Node) -> Iterator[float]:
    """Those of an expression, but for what is given to a call or a filter, and
    powers of two."""
    if isinstance(node, nodes.Const) and isinstance(node.value, int | float):
        yield node.value
    elif isinstance(node, nodes.Filter):
        if node.node is not None:
            yield from _numbers(node.node)
    elif isinstance(node, nodes.Call):
        if _origin(node) not in CALLS:
            yield from (n for x in node.iter_child_nodes() for n in _numbers(x))
    elif not (
        isinstance(node, nodes.Pow)
        and isinstance(node.left, nodes.Const)
        and node.left.value == 2
    ):
        yield from (n for x in node.iter_child_nodes() for n in _numbers(x))


def recorder(repository: str) -> Callable[..., Shown]:
    """`recorded(FILE, WHERE, UNIT)` for a template: a number of a result below
    code/lockstep/experiments, linked to its file in the repository. `where` is
    its keys and places, with dots between."""

    def recorded(file: str, where: str, unit: str = "") -> Shown:
        path = PACKAGE / "experiments" / file
        try:
            found = json.loads(path.read_text("utf-8"))
            for key in where.split("."):
                found = found[int(key) if isinstance(found, list) else key]
        except (OSError, ValueError, LookupError, TypeError):
            raise ValueError(f"{file} has no {where}") from None
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise ValueError(f"{where} of {file} is no number")
        formula = Formula("recorded", "recorded", unit, file)
        address = f"{repository}/{RESULTS}/{file}"
        return Shown(Figure(found, formula, {}), address)

    return recorded


def printed(name: str, pattern: str) -> str:
    """`quoted`, linked to the place that shows this output.

    Raises:
        ValueError: as `quoted` does; or no page shows it.
    """
    found = quoted(name, pattern)
    return f"[{found}]({_shown(f'docs/recorded/{name}.txt')})"


def quoted(name: str, pattern: str) -> str:
    """For a template: what `pattern` finds in docs/recorded/NAME.txt, which is
    its group if it has one.

    Raises:
        ValueError: it finds nothing, or several things.
    """
    found = {*_found(name, pattern)}
    if len(found) != 1:
        raise ValueError(f"{name}.txt has {len(found)} of {pattern}, not one")
    return found.pop()


def artifact(name: str, pattern: str = ".+") -> str:
    """For the template of a question that has something to read: what `pattern`
    finds in docs/recorded/NAME.txt, each find a line, as it was printed. A
    group leaves out what would tell the answer, such as a label.

    Raises:
        ValueError: it finds nothing.
    """
    if not (found := _found(name, pattern)):
        raise ValueError(f"{name}.txt has nothing of {pattern}")
    return "\n".join(["\n```text", *found, "```\n"])


def _found(name: str, pattern: str) -> list[str]:
    path = DOCS / "recorded" / f"{name}.txt"
    text = path.read_text("utf-8") if path.is_file() else ""
    return [m[m.re.groups and 1] for m in re.finditer(pattern, text, re.M)]


def given(repository: str) -> dict[str, Callable[..., Any]]:
    """All that the text of a question may name besides the planner."""
    return {
        "recorded": recorder(repository),
        "printed": printed,
        "artifact": artifact,
    }


def _shown(recorded: str) -> str:
    """The page, and its section, that includes an output."""
    for page in sorted(DOCS.rglob("*.md")):
        anchor = ""
        for line in page.read_text("utf-8").splitlines():
            if heading := _HEADING.match(line):
                anchor = f"#{heading[1]}" if heading[1] else anchor
            if line.strip() == f'--8<-- "{recorded}"':
                return page.relative_to(DOCS).as_posix() + anchor
    raise ValueError(f"no page shows {recorded}")
