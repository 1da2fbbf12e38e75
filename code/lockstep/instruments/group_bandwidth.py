"""The bandwidth that a group of GPUs should reach, by its GPUs per node."""

from collections import Counter
from collections.abc import Sequence


# --8<-- [start:rate]
def group_bandwidth(
    ranks: Sequence[int], gpus_per_node: int, nvlink: float, nic: float
) -> float:
    """Return the bytes/s that rings over a group's ranks can reach.

    Ranks are numbered node by node, and each GPU has its own NIC. `nvlink` and
    `nic` are the bytes/s that one GPU's links achieve, one way.
    """
    nodes = Counter(rank // gpus_per_node for rank in ranks)
    if len(nodes) == 1:
        return nvlink
    return min(nvlink, min(nodes.values()) * nic)


# --8<-- [end:rate]
