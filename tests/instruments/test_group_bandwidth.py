"""The bandwidth of a group, by its GPUs per node."""

from collections.abc import Sequence

import pytest

from lockstep.instruments.group_bandwidth import group_bandwidth
from lockstep.planner.hardware import HARDWARE

NVLINK, NIC = (
    HARDWARE["h100"][rate] for rate in ("node_bandwidth", "network_bandwidth")
)


@pytest.mark.parametrize(
    ("ranks", "reached"),
    [
        (range(8), 370e9),
        (range(32), 365e9),
        (range(0, 32, 8), 365e9 / 8),
        ([*range(2), *range(8, 10)], 365e9 / 4),
        ([*range(8), 8], 365e9 / 8),
    ],
    ids=["a-node", "all", "one-per-node", "two-per-node", "uneven"],
)
def test_a_groups_ring_has_the_nics_of_its_gpus(
    ranks: Sequence[int], reached: float
) -> None:
    """In a node, a ring runs at NVLink's 370 GB/s. Between nodes it has as many
    NICs of 45.6 GB/s as the group has GPUs in its emptiest node: 365 GB/s with
    eight, an eighth of that with one."""
    assert group_bandwidth(ranks, 8, NVLINK, NIC) == pytest.approx(reached)
