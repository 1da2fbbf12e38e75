"""The picture of DDP's buckets beside torch's own."""

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from lockstep.explore import buckets
from lockstep.explore.settings import read
from lockstep.instruments.traffic import Traffic
from lockstep.planner.questions import ask
from lockstep.trainer.process import joined
from tests import ranks


def values(text: str) -> dict[str, Any]:
    """All settings, some of them changed."""
    return read(buckets.SETTINGS, text)


@pytest.mark.parametrize("cap", [1, 5, 25, 100])
@pytest.mark.parametrize("sizes", [[10] * 16, [1] * 8, [3, 40, 1, 1, 1, 60, 2]])
def test_buckets_are_filled_as_torch_fills_them(
    sizes: list[int], cap: int
) -> None:
    """For equal and unequal gradients and four caps, the same gradients share a
    bucket as in torch's own assignment; with the default cap of 25 MiB the
    first bucket holds 1 MiB."""
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


def reduced(layers: int, cap: int) -> int:
    """All-reduces of gradients in DDP's second step; a layer has 1 MiB."""
    with joined(30, ranks.store()):
        model = nn.Sequential(
            *(nn.Linear(512, 512, bias=False) for _ in range(layers))
        )
        given = None if cap == buckets.DEFAULT else cap
        replica = DistributedDataParallel(model, bucket_cap_mb=given)
        for _ in range(2):  # the first step learns the order
            with Traffic() as traffic:
                replica(torch.ones(1, 512)).sum().backward()
        return sum(call.op == "all_reduce" for call in traffic.calls)


@pytest.mark.parametrize(("layers", "cap"), [(4, 1), (8, 5), (8, 25), (8, 100)])
def test_as_many_all_reduces_as_ddp_sends(layers: int, cap: int) -> None:
    """Two ranks train with DDP. In the second step each sends as many
    all-reduces as the picture draws."""
    drawn = len(buckets.sent(values(f"layers:{layers},size:1,cap:{cap}")))
    assert ranks.run_ranks(2, reduced, layers, cap) == [drawn, drawn]


def test_an_all_reduce_takes_what_the_planner_says() -> None:
    """The longest all-reduce of the picture takes what `lockstep plan
    collective` says of its bytes, ranks, bandwidth and latency."""
    given = values("")
    longest = max(end - start for start, end in buckets.sent(given))
    plan = ask(
        "collective",
        {
            "op": "all_reduce",
            "bytes": 30 * buckets.MIB,  # three layers reach 25 MiB
            "ranks": 8,
            "bandwidth": 5e9,
            "latency": 20e-6,
        },
    )
    assert longest == pytest.approx(float(plan["seconds"]))


def test_no_all_reduce_starts_before_its_gradients_or_the_one_before() -> None:
    """Each all-reduce begins once its last gradient is computed and the network
    is free, and not later."""
    for text in ("", "cap:1", "bandwidth:1", "cap:10000"):
        given = values(text)
        free, size = 0.0, given["size"] * buckets.MIB
        held = buckets.filled([size] * given["layers"], given["cap"])
        for bucket, (start, end) in zip(held, buckets.sent(given), strict=True):
            ready = (bucket[-1] + 1) * given["backward"] * 1e-3
            assert start == pytest.approx(max(ready, free))
            free = end


def test_one_bucket_hides_nothing_and_tiny_ones_pay_latency() -> None:
    """One bucket for all gradients is sent after the backward pass, so all of
    it is exposed. A bucket for each layer on a network with latency takes
    longer in all than 25 MiB buckets do."""

    def exposed(text: str) -> float:
        given = values(text)
        return buckets.sent(given)[-1][1] - (
            given["layers"] * given["backward"] * 1e-3
        )

    def busy(text: str) -> float:
        return sum(end - start for start, end in buckets.sent(values(text)))

    assert exposed("cap:10000") == pytest.approx(busy("cap:10000"))
    assert exposed("cap:10000") > 4 * exposed("")
    assert busy("cap:1,latency:500") > 1.3 * busy("latency:500")
