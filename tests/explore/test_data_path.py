"""The picture of a sample's way beside a pipeline that is played through."""

import heapq
from typing import Any

import pytest

from lockstep.explore import data_path
from lockstep.explore.settings import read


def values(text: str) -> dict[str, Any]:
    """All settings, some of them changed."""
    return read(data_path.SETTINGS, text)


def waited(given: dict[str, Any], steps: int = 200) -> float:
    """The share of time that GPUs wait, if each step's samples pass the hops
    one after the other, and a hop starts on a step when it has finished the
    one before and the hop before has finished this one."""
    needed = given["rate"] * data_path.GPUS
    times = [needed / speed for _, speed in data_path.hops(given)] + [1.0]
    free, begin = [0.0] * len(times), 0.0
    for step in range(steps):
        ready = 0.0
        for hop, time in enumerate(times):
            ready = free[hop] = max(free[hop], ready) + time
        if step == 0:
            begin = ready
    return 1 - (steps - 1) / (free[-1] - begin)


@pytest.mark.parametrize("scene", [text for _, _, text in data_path.SCENES])
def test_gpus_wait_as_the_slowest_hop_says(scene: str) -> None:
    """Two hundred steps are played through all hops, each hop working on one
    step at a time. The GPUs wait for the share that the picture tells, within
    a hundredth, in each of its scenes."""
    given = values(scene)
    drawn = dict(data_path.draw(given).numbers)["GPUs wait"]
    assert float(drawn[:-2]) / 100 == pytest.approx(waited(given), abs=0.01)


def test_requests_in_flight_are_throughput_times_latency() -> None:
    """Requests of one sample are sent by as many askers as are in flight, each
    asking again when its answer has come. Over 100 seconds as many samples
    arrive as the picture says, within 1 %."""
    given = values("request:0,flight:16,latency:100,sample:110000")
    reply = 0.1 + given["sample"] / data_path.CONNECTION
    askers, arrived = [reply] * 16, 0
    while (now := heapq.heappop(askers)) < 100:
        arrived += 1
        heapq.heappush(askers, now + reply)
    told = dict(data_path.hops(given))["Requests"]
    assert arrived / 100 == pytest.approx(told, rel=0.01)


def test_scenes_of_the_data_path_show_three_limits() -> None:
    """GPUs never wait for text. They wait 36 % of the time for images in
    shards, because of the CPU, and 92 % for images that are asked for one by
    one, because of requests."""
    said = {
        name: dict(data_path.draw(values(text)).numbers)
        for name, _, text in data_path.SCENES
    }
    assert {
        name: (numbers["what limits"], numbers["GPUs wait"])
        for name, numbers in said.items()
    } == {
        "text": ("the GPUs", "0 %"),
        "images": ("CPU", "36 %"),
        "single": ("Requests", "92 %"),
    }
