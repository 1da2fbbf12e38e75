"""Which ranks share a group, by the order of a mesh's axes."""

import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from lockstep.instruments.forked import in_a_group

RANKS, NODE = 8, 4  # all, and those of one node
ORDERS = "dp pp tp", "pp dp tp", "tp pp dp"  # outermost first
Groups = dict[str, list[int]]


# --8<-- [start:mine]
def mine(order: str) -> Groups:
    """By axis, the ranks that this rank shares a group with."""
    axes = tuple(order.split())
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=axes)
    return {
        axis: dist.get_process_group_ranks(mesh.get_group(axis))
        for axis in axes
    }


# --8<-- [end:mine]
def of_all() -> dict[str, Groups]:
    """By order, this rank's groups."""
    return {order: mine(order) for order in ORDERS}


def leaves(groups: list[list[int]]) -> bool:
    """Whether a group has ranks on two nodes."""
    return any(a // NODE != b // NODE for a, *rest in groups for b in rest)


def broken(ranks: list[Groups], axis: str = "dp") -> int:
    """How many of the two replicas have a rank on the last node: a rank's
    replica is its place in its group of `axis`."""
    return len(
        {
            groups[axis].index(rank)
            for rank, groups in enumerate(ranks)
            if rank // NODE == 1
        }
    )


def distinct(ranks: list[Groups], axis: str) -> list[list[int]]:
    """The groups of an axis, each once."""
    return sorted(list(x) for x in {tuple(groups[axis]) for groups in ranks})


def main() -> None:
    """All groups of the first order, then each order's axes."""
    found = in_a_group(RANKS, of_all)
    ranks = [orders[ORDERS[0]] for orders in found]
    for axis in ORDERS[0].split():
        print(axis, *distinct(ranks, axis))
    print("\norder      dp       pp       tp       node 1 is lost")
    for order in ORDERS:
        ranks = [orders[order] for orders in found]
        cells = [
            "leaves" if leaves(distinct(ranks, axis)) else "stays"
            for axis in ("dp", "pp", "tp")
        ]
        gone = f"{broken(ranks)} of 2 replicas"
        print(f"{order:11}" + "".join(f"{c:9}" for c in cells) + gone)


if __name__ == "__main__":
    main()
