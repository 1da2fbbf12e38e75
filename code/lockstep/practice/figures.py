"""Numbers in the text of a page, computed by the planner when it is built.

A page with `computed: true` in its head is a Jinja template. There
`{{ plan("memory", params=7.5e9, dp=64, zero_stage=1).total_bytes }}` becomes
the figure with its unit, linked to the planner's page, which asks the same
question and unfolds this number. `{{ live() }}` is that page's form.
"""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import urlencode

import jinja2

from lockstep.planner.figures import (
    Figure,
    decimal,
    grouped,
    quantity,
)
from lockstep.planner.page import page
from lockstep.planner.questions import ask

ENVIRONMENT = jinja2.Environment(
    undefined=jinja2.StrictUndefined, keep_trailing_newline=True
)


@cache  # a question stands on a page and in a browser, and a server reads all
def template(text: str) -> jinja2.Template:
    """A text that computes figures, compiled."""
    return ENVIRONMENT.from_string(text)


class Shown:
    """A figure as a page shows it."""

    def __init__(self, figure: Figure, address: str) -> None:
        self.value, self._unit = figure.value, figure.formula.unit
        self._address = address

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
        return self._linked(f"{100 * self.value:.3g} %")

    @property
    def grouped(self) -> str:
        """All digits of a whole number, without its unit."""
        return self._linked(grouped(self.value))

    def _linked(self, text: str) -> str:
        whole = text.replace(" ", "\N{NO-BREAK SPACE}")
        return f'<a class="figure" href="{self._address}">{whole}</a>'


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
        address = f"{self._address}&show={key}"
        return Shown(found, address.replace("&", "&amp;"))


def computed(markdown: str, planner: str, **given: Any) -> str:
    """The page's text with its figures.

    Args:
        planner: the address to link to.
        given: what else a page may name.

    Raises:
        ValueError: what cannot be planned, or is no template.
    """

    if "{" not in markdown:  # most texts of a question: nothing to compute
        return markdown

    def plan(name: str, **given: Any) -> Answer:
        return Answer(name, given, planner)

    try:
        return template(markdown).render(plan=plan, live=page, **given)
    except (jinja2.TemplateError, ValueError) as error:
        raise ValueError(str(error)) from None
