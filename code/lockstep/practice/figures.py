"""Numbers in the text of a page, computed by the planner when it is built.

A page with `computed: true` in its head is a Jinja template. There
`{{ plan("memory", params=7.5e9, dp=64, zero_stage=1).total_bytes }}` becomes
the figure with its unit, linked to the planner's page, which asks the same
question and unfolds this number. `{{ hardware.h100.node_bandwidth }}` is a rate
of a GPU. The text of a question may name what else is in `given`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jinja2

from lockstep.planner.figures import (
    Figure,
    Formula,
    decimal,
    grouped,
    percent,
    quantity,
)
from lockstep.planner.hardware import HARDWARE
from lockstep.planner.intervals import BOUNDED
from lockstep.planner.layout import WHITEBOARD
from lockstep.planner.questions import ask

PACKAGE = Path(__file__).parents[1]
ROOT = Path(__file__).parents[3]
# An installed package has the part of the docs that cards quote, and no other
# file of the repository (pyproject.toml).
DOCS = (ROOT if (ROOT / "mkdocs.yml").is_file() else PACKAGE) / "docs"
RESULTS = "code/lockstep/experiments"
_HEADING = re.compile(r"^#+ .*?(?:\{ #([\w-]+) \})?\s*$")

ENVIRONMENT = jinja2.Environment(
    undefined=jinja2.StrictUndefined, keep_trailing_newline=True
)


@cache  # a question stands on a page and in a browser, and a server reads all
def template(text: str) -> jinja2.Template:
    """Compile a text that computes figures."""
    return ENVIRONMENT.from_string(text)


class Shown:
    """A figure as a page shows it; `title` says what it leaves out."""

    def __init__(self, figure: Figure, address: str, title: str = "") -> None:
        self.value, self._unit = figure.value, figure.formula.unit
        self._link = f'class="figure" href="{address}"'
        if title:
            self._link += f' title="{title}"'

    def __str__(self) -> str:
        return self._linked(decimal(self.value, self._unit))

    @property
    def binary(self) -> str:
        """Bytes in binary units: 74.51 GiB."""
        whole = quantity(self.value, self._unit)
        return self._linked(whole.partition("(")[2].rstrip(")"))

    @property
    def percent(self) -> str:
        """A share: 41.2 %."""
        return self._linked(percent(self.value))

    @property
    def grouped(self) -> str:
        """All digits of a whole number, without its unit."""
        return self._linked(grouped(self.value))

    def _linked(self, text: str) -> str:
        whole = text.replace(" ", "\N{NO-BREAK SPACE}")
        return f"<a {self._link}>{whole}</a>"


class Answer:
    """The figures of one question, as attributes."""

    def __init__(self, name: str, given: dict[str, Any], planner: str) -> None:
        self._found = ask(name, given)
        plain = {
            key: f"{value:.15g}" if isinstance(value, float) else value
            for key, value in given.items()
        }
        self._address = f"{planner}?{urlencode({'ask': name, **plain})}"

    def __getattr__(self, key: str) -> Shown:
        found = self._found.get(key)
        if not isinstance(found, Figure):
            raise AttributeError(key)
        address = f"{self._address}&show={key}".replace("&", "&amp;")
        title = ""
        if key in BOUNDED and "leaves_out" in self._found:
            share = percent(self._found["efficiency"])
            title = f"At {share} of the peak. It leaves out "
            title += self._found["leaves_out"]
        return Shown(found, address, title)


def computed(markdown: str, planner: str, **given: Any) -> str:
    """Return the page's text with its figures.

    Args:
        planner: the address to link to.
        given: what else a page may name.

    Raises:
        ValueError: what cannot be planned, or is no template.
    """

    if "{" not in markdown:  # most texts of a question: nothing to compute
        return markdown

    def plan(name: str, **given: Any) -> Answer:
        if name == "run":
            given = WHITEBOARD | given
        return Answer(name, given, planner)

    try:
        return template(markdown).render(plan=plan, hardware=HARDWARE, **given)
    except (jinja2.TemplateError, ValueError) as error:
        raise ValueError(str(error)) from None


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
    """Return the page and section that include an output."""
    for page in sorted(DOCS.rglob("*.md")):
        anchor = ""
        for line in page.read_text("utf-8").splitlines():
            if heading := _HEADING.match(line):
                anchor = f"#{heading[1]}" if heading[1] else anchor
            if line.strip() == f'--8<-- "{recorded}"':
                return page.relative_to(DOCS).as_posix() + anchor
    raise ValueError(f"no page shows {recorded}")
