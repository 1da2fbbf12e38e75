"""What other calculators answer for the same runs.

`calculators.json` holds their answers, recorded once with the version, the
settings and the reason for each run that a calculator cannot describe. None of
them is a dependency of this project.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from lockstep.experiments.published_runs.compare import (
    Comparison,
    predict,
)
from lockstep.planner.figures import plain

ANSWERS = Path(__file__).with_name("calculators.json")


class Calculator(BaseModel):
    """A calculator's answers: `tokens`, a second and GPU, by the row's id.

    `asked` is the day; `settings` is everything that differs from its defaults;
    `made_for` says what its authors built it for.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    version: str
    address: str
    asked: str
    made_for: str
    settings: str
    tokens: dict[str, float]
    refused: dict[str, str]


def calculators(path: Path = ANSWERS) -> list[Calculator]:
    """Return the recorded answers, by calculator."""
    found = json.loads(path.read_text("utf-8"))
    return [Calculator.model_validate(one) for one in found]


def ratios(one: Calculator, found: Iterable[Comparison]) -> dict[str, float]:
    """Return a calculator's speed over the published speed, by the row's id.

    A source that publishes TFLOP/s or MFU is turned into tokens a second by the
    planner's count of operations, so that all calculators meet one figure.
    """
    published = {
        each.row.id: _tokens(each)
        for each in found
        if each.row.id in one.tokens
    }
    return {name: one.tokens[name] / published[name] for name in published}


def _tokens(one: Comparison) -> float:
    answer = predict(one.row)
    each = plain(answer["tokens_per_second"]) / answer["gpus"]
    return float(each / one.ratio)
