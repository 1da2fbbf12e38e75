"""The picture of pipeline schedules beside the planner's and its own clock."""

from itertools import pairwise
from typing import Any

import pytest

from lockstep.explore import pipeline
from lockstep.explore.settings import read
from lockstep.planner.figures import percent
from lockstep.planner.questions import ask
from lockstep.planner.schedules import SCHEDULES

NAMES = [name for name, _ in pipeline.NAMES]


def values(text: str) -> dict[str, Any]:
    """All settings, some of them changed."""
    return read(pipeline.SETTINGS, text)


def said(text: str) -> dict[str, str]:
    """The numbers under the picture."""
    return dict(pipeline.draw(values(text)).numbers)


def bars(text: str) -> list[list[tuple[float, float, str, str]]]:
    """The bars of each rank."""
    lanes = pipeline.draw(values(text)).panels[0]
    return [row for _, row in lanes.rows]


def test_it_offers_every_schedule() -> None:
    """Each that the planner has, and interleaving with 2 and with 4 parts."""
    assert set(NAMES) == {*SCHEDULES, "interleaved-4"}


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("micro", [8, 16, 24])
@pytest.mark.parametrize(
    "name", ["gpipe", "1f1b", "interleaved", "interleaved-4", "zb-h1"]
)
def test_its_bubbles_are_the_planners(
    name: str, micro: int, ranks: int
) -> None:
    """The bubble over ideal, the bubble of total and the micro-batches that are
    held are what `lockstep plan pipeline` says."""
    found = said(f"schedule:{name},ranks:{ranks},micro:{micro}")
    plain = name.removesuffix("-4")
    asked = {"stages": ranks, "microbatches": micro, "schedule": plain}
    asked["virtual_stages"] = {"interleaved": 2, "interleaved-4": 4}.get(
        name, 1
    )
    plan = ask("pipeline", asked)
    over = float(plan["bubble_overhead"])
    total = float(plan["bubble_fraction_of_total"])
    assert found["bubble over ideal"] == percent(over, 2)
    assert found["bubble of total"] == percent(total, 2)
    first = found["held at most, rank by rank"].split(", ")[0]
    most = float(plan["in_flight_microbatches"])
    assert float(first) == pytest.approx(most, abs=0.005)


@pytest.mark.parametrize("name", NAMES)
def test_every_micro_batch_is_drawn_forward_and_back(name: str) -> None:
    """On each rank the bars of each micro-batch make up three forwards: one
    forward, one for the input's gradient, one for the weights'. What is drawn
    between bars is waiting, to the end of the step."""
    drawn = bars(f"schedule:{name}")
    whole = pipeline.draw(values(f"schedule:{name}")).end
    for row in drawn:
        assert (row[0][0], row[-1][1]) == (0, pytest.approx(whole))
        for (_, end, *_), (start, *_) in pairwise(row):
            assert end == pytest.approx(start)
        for number in range(1, 9):
            mine = [end - start for start, end, _, n in row if n == str(number)]
            assert sum(mine) == pytest.approx(3)
        waited = sum(b - a for a, b, kind, _ in row if kind == "waiting")
        assert row[-1][1] - waited == pytest.approx(24)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_held_rises_to_what_the_numbers_say(name: str) -> None:
    """The area's peak is the largest number of micro-batches that a rank
    holds, and at the end of the step nothing is left but the last action's."""
    scene = pipeline.draw(values(f"schedule:{name}"))
    area = scene.panels[1]
    most = dict(scene.numbers)["held at most, rank by rank"].split(", ")
    assert max(area.totals()) == pytest.approx(max(map(float, most)))
    assert area.totals()[-1] <= 1 + 1e-9


@pytest.mark.parametrize("name", NAMES)
def test_activations_live_from_forward_to_the_last_gradient(name: str) -> None:
    """The area under what rank 0 holds is, over all its micro-batches and
    parts, the time from the start of the forward to the end of the last
    gradient, each weighed by the part's share of the rank."""
    one = pipeline.played(values(f"schedule:{name}"))
    area = pipeline.held(one, 0)
    times = [b - a for a, b in pairwise(area.moments)]
    begun, ended = {}, {}
    for start, end, kind, number, part in one.bars[0]:
        if kind == "F":
            begun[number, part] = start
        if kind in "BW":
            ended[number, part] = end
    lived = sum(ended[each] - begun[each] for each in begun)
    found = sum(a * b for a, b in zip(area.totals(), times, strict=True))
    assert found == pytest.approx(lived / one.schedule.parts)
    split = any(kind == "W" for *_, kind, _, _ in one.bars[0])
    assert ("kept" in area.kinds()) == split


def test_too_few_micro_batches_are_filled_up_and_it_says_so() -> None:
    """Interleaving takes whole rounds, DualPipeV a micro-batch for each part.
    Asked for fewer, the picture shows the next number that can be, and says
    that it does."""
    for text, count in (
        ("schedule:interleaved,ranks:4,micro:1", 4),
        ("schedule:interleaved,ranks:6,micro:8", 12),
        ("schedule:dualpipev,ranks:4,micro:4", 8),
    ):
        scene = pipeline.draw(values(text))
        assert f"so it has {count}." in scene.told
        assert float(dict(scene.numbers)["ideal"][:-2]) == 3 * count
    assert "so it has" not in pipeline.draw(values("")).told


def test_the_pages_numbers_are_the_pictures() -> None:
    """What the chapter reads off the set scenes."""
    scenes = {key: text for key, _, text in pipeline.SCENES}
    over = {
        key: said(text)["bubble over ideal"] for key, text in scenes.items()
    }
    assert over == {
        "one": "300 %",
        "gpipe": "37.5 %",
        "1f1b": "37.5 %",
        "interleaved": "18.75 %",
        "zero": "12.5 %",
        "v": "6.25 %",
        "late": "70.83 %",
        "slow": "52.94 %",
        "experts": "109.4 %",
        "dual": "42.19 %",
    }
    step = {key: said(text)["step"] for key, text in scenes.items()}
    assert step["late"] == "41 F"
    assert step["slow"] == "39 F"
    label = "over ideal, if no rank waits at the end"
    assert said(scenes["v"])[label] == "0 %"
