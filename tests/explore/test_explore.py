"""Every explorable can be drawn, by both Pythons, and says what it shows."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from lockstep.explore import NAMES, page
from lockstep.explore.drawing import HATCH
from lockstep.explore.scene import KINDS
from lockstep.explore.settings import read, write
from tests import micropython
from tests.conftest import ROOT, daily

PUBLIC = [name.replace("_", "-") for name in NAMES]
ASK = """
import json
from lockstep.explore.page import live
with open("/inputs.json") as file:
    for name, text, width in json.load(file):
        print(live(name, text, width))
"""


def combinations(name: str) -> Iterator[dict[str, object]]:
    """Each pair of settings at their ends, the others at their default."""
    settings = page.module(name).SETTINGS
    usual = {one.name: one.default for one in settings}
    yield usual
    for one, other in itertools.combinations(settings, 2):
        for a, b in itertools.product(one.values, (other.values[0],)):
            yield usual | {one.name: a, other.name: b}
        yield usual | {one.name: one.values[-1], other.name: other.values[-1]}


@pytest.mark.parametrize("name", PUBLIC)
def test_it_can_be_drawn_whatever_is_chosen(name: str) -> None:
    """For each pair of settings at their ends: the drawing is valid SVG whose
    marks have positive sizes and lie within it, and the words are there."""
    one = page.module(name)
    for values in combinations(name):
        scene = one.draw(values)
        assert scene.told.endswith(".")
        assert all(label and text for label, text in scene.numbers)
        assert set(scene.kinds()) <= KINDS.keys()
        for width in (page.NARROW, page.WIDE):
            text = page.svg(scene, width, name, one.TITLE)
            drawn = ElementTree.fromstring(text)
            *_, wide, tall = map(float, drawn.attrib["viewBox"].split())
            for box in drawn.iter("{http://www.w3.org/2000/svg}rect"):
                at = {key: float(box.get(key, 0)) for key in ("x", "y")}
                size = float(box.attrib["width"]), float(box.attrib["height"])
                assert min(size) > 0, values
                assert 0 <= at["x"] <= at["x"] + size[0] <= wide + 1, values
                assert 0 <= at["y"] <= at["y"] + size[1] <= tall, values


@pytest.mark.parametrize("name", PUBLIC)
def test_each_bar_follows_the_one_before_it(name: str) -> None:
    """In a row, which is one thing that does one thing at a time, no two bars
    overlap, and none ends before it starts."""
    for values in combinations(name):
        for panel in page.module(name).draw(values).panels:
            for _, bars in getattr(panel, "rows", []):
                ends = 0.0
                for start, end, _, _ in bars:
                    assert ends - 1e-9 <= start < end
                    ends = end


@pytest.mark.parametrize("name", PUBLIC)
def test_an_address_holds_what_was_changed(name: str) -> None:
    """Settings survive being written into an address and read again; what the
    address has wrong, or leaves out, is the default."""
    settings = page.module(name).SETTINGS
    for values in combinations(name):
        assert read(settings, write(settings, values)) == values
    usual = read(settings, "")
    assert read(settings, "nothing:1,:,x") == usual
    assert read(settings, f"{settings[0].name}:no such thing") == usual
    assert write(settings, usual) == ""


@pytest.mark.parametrize("name", PUBLIC)
def test_a_set_scene_is_one_of_the_settings(name: str) -> None:
    """Each scene that a text leads to is made of values that the form offers,
    and is written as an address has it."""
    one = page.module(name)
    for _, _, text in one.SCENES:
        assert write(one.SETTINGS, read(one.SETTINGS, text)) == text


@pytest.mark.usefixtures("node_modules")
@pytest.mark.parametrize("every", daily([1, 15], 15))  # a fifteenth a day
def test_both_pythons_draw_the_same(every: int) -> None:
    """MicroPython, on the files that the site gives to a browser, answers as
    CPython does for all explorables at the ends of all their settings: same
    drawing, same numbers, same words."""
    asked = [
        (name, write(page.module(name).SETTINGS, values), 330)
        for name in PUBLIC
        for values in [*combinations(name)][::every]
    ]
    theirs = micropython.printed(ASK, asked).splitlines()
    assert len(theirs) == len(asked) > 20
    for question, answer in zip(asked, theirs, strict=True):
        assert json.loads(answer) == json.loads(page.live(*question)), question


def test_kinds_of_one_color_differ_by_their_hatch() -> None:
    """Whoever sees no color can tell apart what one scene shows together."""
    css = (ROOT / "docs/assets/explore.css").read_text("utf-8")
    rules = css.split("/*", 2)[1].partition("*/")[2]
    colors: dict[str, set[str]] = {}
    for rule in rules.split("}")[: len(KINDS)]:
        names, brace, body = rule.partition("{")
        if not brace or "fill: var(" not in body:
            continue
        for name in names.split(","):
            kind = name.strip().removeprefix(".explore-")
            colors.setdefault(body.strip(), set()).add(kind)
    assert set().union(*colors.values()) >= KINDS.keys()
    for name in PUBLIC:
        for values in combinations(name):
            shown = page.module(name).draw(values).kinds()
            for alike in colors.values():
                found = [HATCH.get(kind) for kind in shown if kind in alike]
                assert len(found) == len(set(found)), (name, values, alike)
