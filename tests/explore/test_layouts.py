"""The picture of layouts beside the planner's own search."""

from typing import Any
from xml.etree import ElementTree

import pytest

from lockstep.explore import layouts, page
from lockstep.explore.drawing import AREA
from lockstep.explore.settings import read
from lockstep.planner.figures import plain
from lockstep.planner.hardware import HARDWARE
from lockstep.planner.layout import WHITEBOARD
from lockstep.planner.questions import ask
from lockstep.planner.search import search

TEXTS = [text for _, _, text in layouts.SCENES]


def values(text: str) -> dict[str, Any]:
    """All settings, some of them changed."""
    return read(layouts.SETTINGS, text)


def said(text: str) -> dict[str, str]:
    """The numbers under the picture."""
    return dict(layouts.draw(values(text)).numbers)


@pytest.mark.parametrize(
    "text", ["", "model:llama3-8b", "gpus:512,batch:8", "network:6"]
)
def test_its_fastest_layout_is_the_searchs_among_its_choices(text: str) -> None:
    """Among the picture's layouts, the planner's search for the same model and
    cluster finds the same fastest one and the same time. The picture's limit is
    for memory without its interval."""
    given = layouts.asked(values(text))
    mine = set(layouts.splits(values(text)))
    found = [
        figures
        for choice, figures in search(given, may_fit=True)[0]
        if tuple(
            choice[key]
            for key in ("tp", "cp", "pp", "zero_stage", "micro_batch")
        )
        in mine
        and float(figures["total_bytes"]) <= layouts.LIMIT
    ]
    best = min(found, key=lambda one: float(one["step_seconds"]))
    shown = next(
        one
        for one in layouts.tried(values(text))
        if one["memory"] <= layouts.LIMIT
    )
    assert shown["step"] == pytest.approx(float(best["step_seconds"]), abs=1e-3)
    names = [
        layouts.name(one)
        for one in found
        if float(one["step_seconds"]) < shown["step"] + 1e-3
    ]
    assert shown["name"] in names


@pytest.mark.parametrize("text", TEXTS)
def test_its_bars_add_up_to_the_planners_step(text: str) -> None:
    """Each bar of the picture ends at the step's time, and a layout that is
    divided as its name says has that time and that memory in `plan run`."""
    given = values(text)
    scene = layouts.draw(given)
    one = next(
        one for one in layouts.tried(given) if one["memory"] <= layouts.LIMIT
    )
    label, bars = scene.panels[0].rows[0]
    assert label == one["name"]
    assert bars[-1][1] == pytest.approx(one["step"])
    axes = {
        word.rstrip("0123456789"): int(word.lstrip("tcpzb"))
        for word in label.split()
        if word != "R"
    }
    asked = {
        "preset": given["model"],
        "gpus": given["gpus"],
        "sequence": given["sequence"],
        "global_batch": given["batch"] * 2**20 // given["sequence"],
        "tp": axes.get("tp", 1),
        "sequence_parallel": int("tp" in axes),
        "cp": axes.get("cp", 1),
        "pp": axes.get("pp", 1),
        "zero_stage": axes["z"],
        "micro_batch": axes.get("b", 1),
        "recompute": "full" if label.endswith("R") else "none",
        "network_bandwidth": 365e9 / {50: 8, 25: 16, 6: 64}[given["network"]],
    }
    if given["schedule"] == "interleaved" and "pp" in axes:
        asked |= {"schedule": "interleaved", "virtual_stages": 4}
    plan = ask("run", WHITEBOARD | asked)
    assert one["step"] == pytest.approx(float(plan["step_seconds"]))
    assert one["memory"] == pytest.approx(float(plan["total_bytes"]))


@pytest.mark.parametrize("text", TEXTS)
def test_recomputing_a_layout_that_fits_never_pays(text: str) -> None:
    """The picture leaves out recomputing where everything fits without. In the
    planner the step with recomputing is then longer, for every choice."""
    given = layouts.asked(values(text))
    schedule = values(text)["schedule"]
    checked = 0
    for choice in layouts.splits(values(text))[::5]:
        kept = layouts.planned(given, schedule, choice)
        if len(kept) != 1:
            continue
        tp, cp, pp, stage, micro = choice
        more = {"schedule": schedule, "virtual_stages": 4}
        asked = given | {
            **(more if pp > 1 and schedule == "interleaved" else {}),
            "tp": tp,
            "cp": cp,
            "pp": pp,
            "zero_stage": stage,
            "micro_batch": micro,
            "sequence_parallel": int(tp > 1),
            "recompute": "full",
        }
        again = plain(layouts.layout(asked)["step_seconds"])
        assert again > kept[0]["step"]
        checked += 1
    assert checked or "131072" in text


def test_points_and_numbers_count_the_same_layouts() -> None:
    """Points of layouts that fit lie on the near side of the line of 80 GB, the
    others beyond it; as many fit as the numbers say, unless their step lies
    beyond the axis."""
    for text in TEXTS:
        scene = layouts.draw(values(text))
        points = scene.panels[1]
        for _, memory, kind in points.dots:
            assert (kind == "fits") == (memory <= HARDWARE["h100"]["memory"])
        fits = sum(kind == "fits" for *_, kind in points.dots)
        assert fits <= int(said(text)["that fit"])
        assert len(points.dots) <= int(said(text)["layouts"])
        assert all(time <= scene.end for time, _, _ in points.dots)


def test_what_cannot_be_trained_is_said_so() -> None:
    """405B on eight GPUs fits in no layout, and the picture says that."""
    scene = layouts.draw(values("model:llama3-405b,gpus:8"))
    assert "none of" in scene.told
    assert scene.panels[0].rows == [("none fits", [])]


def test_the_chapters_numbers_are_the_pictures() -> None:
    """What the chapter on choosing a layout reads off the set scenes."""
    scenes = {key: text for key, _, text in layouts.SCENES}
    found = {key: said(text) for key, text in scenes.items()}
    assert {
        key: (one["the fastest"], one["its step"], one["it holds"])
        for key, one in found.items()
    } == {
        "medium": ("cp4 z3", "13.5 s", "79 GB"),
        "slow": ("tp2 cp4 pp8 z1", "15.5 s", "61 GB"),
        "small": ("z2", "1.7 s", "68 GB"),
        "large": ("cp4 z3", "13.5 s", "63 GB"),
        "starved": ("cp4 z3", "1.7 s", "63 GB"),
        "huge": ("tp8 cp8 pp16 z1", "6.2 s", "24 GB"),
        "interleaved": ("tp4 cp8 pp16 z1", "5.5 s", "53 GB"),
        "long": ("tp8 cp16 z3 R", "14 s", "8 GB"),
    }


def test_bad_layouts_cost_more_than_good_ones_gain() -> None:
    """On 64 GPUs 12 of the 28 layouts that fit take no longer than sharding
    alone, and the worst takes 71 s, where the best takes 13.5 s."""
    fit = [
        one["step"]
        for one in layouts.tried(values(""))
        if one["memory"] <= layouts.LIMIT
    ]
    assert len(fit) == 28
    assert sum(step < 17.97 for step in fit) == 12
    assert (round(fit[0], 1), round(fit[-1])) == (13.5, 71)


def test_each_layout_is_a_point_and_what_is_off_the_scale_is_at_its_edge() -> (
    None
):
    """The drawing has a circle for every layout within its axis of time. None
    lies above the panel's upper edge, where those with more than twice a GPU's
    memory are, or below its lower one."""
    scene = layouts.draw(values(""))
    drawn = ElementTree.fromstring(page.svg(scene, 660, "x", "x"))
    circles = list(drawn.iter("{http://www.w3.org/2000/svg}circle"))
    points = scene.panels[1]
    assert len(circles) == len(points.dots)
    highest = min(float(one.attrib["cy"]) for one in circles)
    above = [memory for _, memory, _ in points.dots if memory > points.top]
    edge = [one for one in circles if float(one.attrib["cy"]) == highest]
    assert len(edge) == len(above)
    low = max(float(one.attrib["cy"]) for one in circles)
    assert low - highest < AREA
