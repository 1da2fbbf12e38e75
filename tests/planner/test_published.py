"""Figures of the papers, as `lockstep plan` answers them."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from lockstep.cli import main
from lockstep.practice.bank import LOADER

PUBLISHED = yaml.load(
    (Path(__file__).parents[1] / "data" / "published.yml").read_text("utf-8"),
    LOADER,
)
PLANNED = {f["id"]: f for f in PUBLISHED["figures"] if f["plan"]}
FIELDS = {"id", "plan", "key", "value", "published", "tolerance", "why"}
FIELDS |= {"source", "url"}


def answer(
    plan: list[str], key: str, capsys: pytest.CaptureFixture[str]
) -> float:
    assert main(["plan", *plan, "--json"]) == 0
    return float(json.loads(capsys.readouterr().out)[key])


@pytest.mark.parametrize("name", PLANNED)
def test_a_figure_comes_out(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each published figure comes out of `lockstep plan` within its stated
    tolerance."""
    figure = PLANNED[name]
    plan, key = figure["plan"], figure["key"]
    found = answer(plan, key, capsys)
    if "less" in figure:
        found = 1 - answer(plan + figure["less"], key, capsys) / found
    assert found == pytest.approx(figure["value"], rel=figure["tolerance"])


def test_there_are_many_and_each_has_its_source() -> None:
    """More than 150 published figures, from all kinds of plans, each have an
    address, a tolerance of at most 15 % and a way to compute them."""
    figures: list[dict[str, Any]] = PUBLISHED["figures"]
    names = [figure["id"] for figure in figures]
    assert len(set(names)) == len(names)
    assert len(PLANNED) > 150
    kinds = {figure["plan"][0] for figure in PLANNED.values()}
    assert kinds == {
        *("params", "memory", "activations", "collective", "pipeline"),
        *("flops", "goodput", "pair"),
    }
    for figure in figures:
        assert figure.keys() >= FIELDS - {"key"}
        assert figure["url"].startswith("https://")
        assert 0 <= figure["tolerance"] <= 0.15
        assert figure["plan"] or figure["how"]
