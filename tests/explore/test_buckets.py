"""The picture of DDP's buckets beside torch's own."""

from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from lockstep.explore import buckets
from lockstep.explore.settings import read
from lockstep.instruments.traffic import Traffic
from lockstep.planner.figures import derive, plain
from lockstep.planner.questions import ask
from lockstep.planner.seconds import STEP
from lockstep.trainer.process import joined
from tests import ranks
from tests.conftest import daily

CAPS = next(one for one in buckets.SETTINGS if one.name == "cap").values


def values(text: str) -> dict[str, Any]:
    """All settings, some of them changed."""
    return read(buckets.SETTINGS, text)


def backward(given: dict[str, Any]) -> float:
    """Seconds of the backward pass."""
    return float(given["layers"] * given["backward"] * 1e-3)


def exposed(text: str) -> float:
    """Seconds of all-reduces after the backward pass."""
    given = values(text)
    return float(buckets.sent(given)[-1][1]) - backward(given)


def busy(text: str) -> float:
    """Seconds that all all-reduces take together."""
    return sum(end - start for start, end, _ in buckets.sent(values(text)))


def planned(mebibytes: int) -> float:
    """Seconds of one all-reduce, as `lockstep plan collective` has them, over
    the ranks and the network that the picture opens with."""
    asked = {"op": "all_reduce", "bytes": mebibytes * 2**20, "ranks": 8}
    asked |= {"bandwidth": 10e9, "latency": 100e-6}
    return float(ask("collective", asked)["seconds"])


@pytest.mark.parametrize("cap", [1, 5, 25, 100])
@pytest.mark.parametrize("sizes", [[8] * 16, [1] * 8, [3, 40, 1, 1, 1, 60, 2]])
def test_buckets_are_filled_as_torch_fills_them(
    sizes: list[int], cap: int
) -> None:
    """For equal and unequal gradients and four caps, the same gradients share a
    bucket as in torch's own assignment; with the default cap of 25 MiB the
    first bucket is full at 1 MiB."""
    with torch.device("meta"):
        gradients = [torch.empty(size * buckets.MIB // 4) for size in sizes]
    first = dist._DEFAULT_FIRST_BUCKET_BYTES
    limits = [first] if cap == buckets.DEFAULT else []
    theirs, _ = dist._compute_bucket_assignment_by_size(
        gradients, [*limits, cap * buckets.MIB]
    )
    assert dist._DEFAULT_FIRST_BUCKET_BYTES == buckets.FIRST
    mine = buckets.filled([s * buckets.MIB for s in sizes], cap)
    assert mine == theirs


def reduced(layers: int, cap: int, search: bool = False) -> list[list[int]]:
    """Bytes of each all-reduce of gradients in DDP's first and second step, in
    the order in which they start; a layer has 1 MiB."""
    with joined(30, ranks.store()):
        model = nn.Sequential(
            *(nn.Linear(512, 512, bias=False) for _ in range(layers))
        )
        given = None if cap == buckets.DEFAULT else cap
        replica = DistributedDataParallel(
            model, bucket_cap_mb=given, find_unused_parameters=search
        )
        steps = []
        for _ in range(2):
            with Traffic() as traffic:
                replica(torch.ones(1, 512)).sum().backward()
            sizes = [c.bytes for c in traffic.calls if c.op == "all_reduce"]
            steps.append([size for size in sizes if size >= buckets.MIB])
        return steps


@pytest.mark.parametrize(
    ("layers", "cap"),
    daily([(4, 1), (8, 5), (8, 25), (8, 100)], (4, 1), (8, 25)),
)
def test_as_many_all_reduces_as_ddp_sends(layers: int, cap: int) -> None:
    """Two ranks train with DDP. In the second step each sends the all-reduces
    that the picture draws: as many, of as many bytes, in this order."""
    given = values(f"layers:{layers},size:1,cap:{cap}")
    drawn = [len(held) * buckets.MIB for *_, held in buckets.sent(given)]
    for _, second in ranks.run_ranks(2, reduced, layers, cap):
        assert second == drawn


def test_ddp_sends_its_first_step_in_one_bucket() -> None:
    """Two ranks train eight layers of 1 MiB under DDP with a cap of 3 MiB. The
    first step makes one all-reduce of all 8 MiB, the second one of 3, 3 and 2
    MiB. With `find_unused_parameters=True` both steps send the buckets of the
    reverse order of `model.parameters()`, 2, 3 and 3 MiB."""

    def sizes(*found: int) -> list[int]:
        return [size * buckets.MIB for size in found]

    for steps in ranks.run_ranks(2, reduced, 8, 3):
        assert steps == [sizes(8), sizes(3, 3, 2)]
    for steps in ranks.run_ranks(2, reduced, 8, 3, True):
        assert steps == [sizes(2, 3, 3)] * 2


def test_an_all_reduce_takes_what_the_planner_says() -> None:
    """Each all-reduce takes what `lockstep plan collective` says of its bytes,
    for a bucket of one layer, of four and of the three that are left."""
    for start, end, held in buckets.sent(values("")):
        assert end - start == pytest.approx(planned(8 * len(held)))


def test_no_all_reduce_starts_before_its_gradients_or_the_one_before() -> None:
    """Each all-reduce begins once the layers that it names are computed and the
    all-reduce before it has ended, and not later."""
    for text in ("", "cap:1", "bandwidth:1", "cap:10000"):
        computed, network = buckets.draw(values(text)).panels[0].rows
        done = {label: end for _, end, _, label in computed[1]}
        free = 0.0
        named: list[int] = []
        for start, end, _, label in network[1]:
            first, _, last = label.partition("–")
            layers = range(int(first), int(last or first) - 1, -1)
            ready = max(done[str(layer)] for layer in layers)
            assert start == pytest.approx(max(ready, free))
            free, named = end, [*named, *layers]
        assert named == [*range(16, 0, -1)]


@pytest.mark.parametrize("rest", ["", ",bandwidth:2", ",latency:500,size:1"])
def test_no_bucket_size_exposes_less_than_the_planner_says(rest: str) -> None:
    """Whatever the bucket size, at least as much is exposed as by the planner's
    formula for a step, with the whole backward pass to hide behind; exactly as
    much as it says of the backward pass from the first all-reduce on, if the
    network then never rests."""
    for cap in CAPS:
        text = f"cap:{cap}" + rest
        given = values(text)
        calls = buckets.sent(given)
        step: dict[str, Any] = dict.fromkeys(
            ("layer_seconds", "context_seconds", "ring", "attention_seconds"), 0
        )
        step |= {"data_seconds": busy(text), "overlap": 1}

        def least(cover: float, step: dict[str, Any] = step) -> float:
            formula = [one for one in STEP if one.name == "exposed_seconds"]
            found = derive(step | {"cover_seconds": cover}, formula)
            return plain(found["exposed_seconds"])

        assert exposed(text) >= least(backward(given)) - 1e-9
        rests = any(
            after[0] > before[1] + 1e-9 for before, after in pairwise(calls)
        )
        if not rests:
            left = backward(given) - calls[0][0]
            assert exposed(text) == pytest.approx(least(left))


def test_one_bucket_hides_nothing_and_tiny_ones_pay_latency() -> None:
    """On the same network a bucket of all layers exposes its whole all-reduce,
    24.9 ms, and a bucket for each layer exposes 15.9 ms of 16 all-reduces that
    pay latency 16 times. Buckets of 25 MiB expose 7.1 ms: the last bucket and
    1.3 ms of the one before."""
    assert exposed("cap:10000") == pytest.approx(planned(16 * 8))
    each = 2e-3 + 16 * planned(8) - 32e-3
    assert exposed("cap:1") == pytest.approx(each)
    # Four layers are ready after 13 of 16; three are left.
    before = 26e-3 + planned(4 * 8) - 32e-3
    assert exposed("") == pytest.approx(before + planned(3 * 8))
    said = [
        round(1e3 * exposed(text), 1) for text in ("cap:10000", "cap:1", "")
    ]
    assert said == [24.9, 15.9, 7.1]
    assert round(1e3 * before, 1) == 1.3


def test_on_a_slow_network_no_bucket_size_is_enough() -> None:
    """At 2 GB/s the bytes of all gradients take 117 ms without any latency.
    Whatever the bucket size, more than 85 ms is exposed, which is what the
    backward pass of 32 ms cannot hide."""
    sent = 2 * 7 / 8 * 128 * 2**20 / 2e9
    assert round(1e3 * sent) == 117
    for cap in CAPS:
        assert exposed(f"bandwidth:2,cap:{cap}") > sent - 32e-3 > 85e-3


@pytest.mark.parametrize("bandwidth", [46, 365])
def test_fp32_gradients_overlap_from_two_f_over_b_tokens(
    bandwidth: int,
) -> None:
    """A backward pass takes 4 FLOPs per parameter and token at 593 TFLOP/s, and
    a layer's fp32 gradients leave when they are ready, without latency. With
    2 F / B tokens per GPU only the last layer's all-reduce is exposed; with
    half as many, about half of all that is sent."""
    achieved, layers, size = 593e12, 64, 8
    params = size * buckets.MIB / 4
    bound = 2 * achieved / (bandwidth * 1e9)
    given = {"cap": 1, "layers": layers, "size": size, "ranks": 64}
    given |= {"bandwidth": bandwidth, "latency": 0}
    shares = []
    for tokens in (bound, bound / 2):
        given["backward"] = 1e3 * 4 * params * tokens / achieved
        calls = buckets.sent(given)
        each = calls[0][1] - calls[0][0]
        shares.append((calls[-1][1] - backward(given)) / (layers * each))
    assert shares[0] == pytest.approx(1 / layers)
    assert shares[1] == pytest.approx(1 / 2, abs=0.02)


def test_what_it_says_follows_from_what_it_draws() -> None:
    """What hides and what is waited for, in words, is what the network's bars
    have before the backward pass ends, and what the GPU's have after; one
    all-reduce is not told as several."""
    for text in ("", "cap:1", "layers:32,cap:10", "cap:10000"):
        scene = buckets.draw(values(text))
        computed, network = (bars for _, bars in scene.panels[0].rows)
        ended = max(end for _, end, kind, _ in computed if kind == "backward")
        hidden = sum(max(min(end, ended) - at, 0) for at, end, _, _ in network)
        waited = sum(b - a for a, b, kind, _ in computed if kind == "waiting")
        assert f"waits for {round(waited * 1e3, 1):g} ms" in scene.told
        if len(network) == 1:
            assert hidden == 0
            assert "in one all-reduce" in scene.told
            assert "Nothing of it hides" in scene.told
        else:
            assert f"in {len(network)} all-reduces" in scene.told
            assert f"{round(hidden * 1e3, 1):g} ms hide" in scene.told


def test_small_buckets_win_where_hops_are_fast() -> None:
    """A bucket for each layer exposes more than DDP's buckets at 100 µs a hop,
    and less at 20 µs."""

    def exposed(cap: int, latency: int) -> float:
        given = values(f"cap:{cap},latency:{latency}")
        assert (given["cap"], given["latency"]) == (cap, latency)
        return buckets.sent(given)[-1][1] - backward(given)

    assert exposed(1, 100) > exposed(buckets.DEFAULT, 100)
    assert exposed(1, 20) < exposed(buckets.DEFAULT, 20)
