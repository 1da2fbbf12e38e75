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

import re
from collections.abc import Iterator
from functools import cache

from jinja2 import TemplateError, nodes

from lockstep.practice.bank import MARK, Asked, Kind
from lockstep.practice.figures import ENVIRONMENT, ROOT, artifact, computed

CALLS = {"plan", "recorded", "printed"}

_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.S)
_ARTIFACT = re.compile(r"\{\{ *artifact\(.*?\}\}", re.S)
_FROM = re.compile(r"<!--\s*from:\s*(\S+)\s*-->")
_COMMENT = re.compile(r"<!--.*?-->", re.S)
_LINK = re.compile(r"\[([^][]*)\]\(([^)\s]*)\)")
_CODE = re.compile(r"`([^`]*)`")
_INCLUDE = re.compile(r'--8<-- "([^":]+)')
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


def vetted(found: dict[str, Kind]) -> dict[str, Kind]:
    """Return the questions again, if no number in them is typed.

    Raises:
        ValueError: one is; says which, and in which file.
    """
    for name, one in found.items():
        for fault in typed(one):
            raise ValueError(f"{name}.yml: {fault}")
    return found


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
    """Return the numerals of a question, spelled or not."""
    words = re.findall(r"[a-z]+", text.lower())
    spelled = {_SPELLED[word] for word in words if word in _SPELLED}
    shown = computed("\n".join(_ARTIFACT.findall(text)), "", artifact=artifact)
    return spelled | numerals(_TEMPLATE.sub(" ", text)) | numerals(shown)


def _loose(text: str) -> frozenset[str]:
    """Return the numerals of its prose."""
    text = _COMMENT.sub("", _TEMPLATE.sub(" figure ", MARK.sub("", text)))
    text = _LINK.sub(r" \1 ", text)
    return numerals(_CODE.sub(_of_code, text))


def _of_code(found: re.Match[str]) -> str:
    """Code is a name, but for what is a quantity and nothing else."""
    whole = found[1].strip()
    return f" {whole} " if _QUANTITY.fullmatch(whole) else " code "


def _linked(text: str) -> tuple[list[str], frozenset[str]]:
    """Return the faults of its links' numbers, and the right numbers."""
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
    """Return the faults of its comments, and the numbers that they prove."""
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
    """Return the numerals of a file below the root and of what it includes."""
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    text = file.read_text("utf-8")
    inside = (_standing(name) for name in _INCLUDE.findall(text))
    return numerals(_LINK.sub(r" \1 ", text)).union(*inside)


def _planned(text: str) -> set[str]:
    """Return the planner's inputs, which stand in the figure's address."""
    try:
        tree = ENVIRONMENT.parse(text)
    except TemplateError as error:
        raise ValueError(str(error)) from None
    calls = (x for x in tree.find_all(nodes.Call) if _origin(x) == "plan")
    found = (x.value for call in calls for x in call.find_all(nodes.Const))
    return {f"{x:g}" for x in found if isinstance(x, int | float)}


def _origin(call: nodes.Call) -> str:
    """Return the name of the function that is called."""
    return call.node.name if isinstance(call.node, nodes.Name) else ""


def _constants(text: str, known: set[float]) -> Iterator[float]:
    """Yield the numbers that a template brings along."""
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
