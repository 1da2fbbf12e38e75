"""Two pairs among four ranks, made by the rule and against it."""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.distributed_c10d import _get_default_store

from lockstep.instruments.forked import in_a_group

# --8<-- [start:pairs]
PAIRS = [0, 1], [2, 3]
LIMIT = timedelta(seconds=20)


def by_rule() -> float:
    """Every rank makes both groups, in one order, and uses its own."""
    groups = [dist.new_group(pair, timeout=LIMIT) for pair in PAIRS]
    return total(groups[dist.get_rank() // 2])


def own_alone(named: bool = False) -> float:
    """A rank makes its own group and no other. Ranks 1 and 2 come first; if
    the groups are `named` by their members, all come at once."""
    rank, store = dist.get_rank(), _get_default_store()
    if rank in (0, 3) and not named:
        store.wait(["1 has a sum", "2 has a sum"])
        return float("nan")
    group = dist.new_group(
        PAIRS[rank // 2], timeout=LIMIT, use_local_synchronization=named
    )
    summed = total(group)
    store.set(f"{rank} has a sum", "")
    return summed


def total(group: dist.ProcessGroup) -> float:
    """Rank r gives 10 to the r, so a sum says who took part."""
    dist.all_reduce(given := torch.tensor(10.0 ** dist.get_rank()), group=group)
    return given.item()


# --8<-- [end:pairs]
# --8<-- [start:swapped]
def swapped() -> list[float]:
    """Two groups of the same two ranks, which rank 1 makes in the other order:
    one for losses of 1, one for norms of 100."""
    names = ["loss", "norm"] if dist.get_rank() == 0 else ["norm", "loss"]
    groups = {name: dist.new_group(timeout=LIMIT) for name in names}
    loss, norm = torch.ones(1), torch.full((1,), 100.0)
    works = [
        dist.all_reduce(loss, group=groups["loss"], async_op=True),
        dist.all_reduce(norm, group=groups["norm"], async_op=True),
    ]
    for work in works:
        work.wait()
    return [loss.item(), norm.item()]


# --8<-- [end:swapped]
# --8<-- [start:patience]
def patience() -> dict[str, float]:
    """Seconds that a collective waits for a peer, by group."""
    mesh = init_device_mesh("cpu", (2, 2))
    groups = {
        "job": dist.group.WORLD,
        "new group": dist.new_group(),
        "axis of a mesh": mesh.get_group(0),
    }
    cpu = torch.device("cpu")
    return {
        name: group._get_backend(cpu).options._timeout.total_seconds()
        for name, group in groups.items()
    }


# --8<-- [end:patience]
def main() -> None:
    """Each rank's sum, three ways; then the two groups of two ranks."""
    rows = {
        "all make both": in_a_group(4, by_rule),
        "only their own": in_a_group(4, own_alone),
        "own, named": in_a_group(4, own_alone, True),
    }
    for name, sums in rows.items():
        cells = ("-" if x != x else f"{x:g}" for x in sums)
        print(f"{name:16}" + "".join(f"{cell:>6}" for cell in cells))
    loss, norm = in_a_group(2, swapped)[0]
    print(f"swapped: loss {loss:g}, norm {norm:g}")
    for name, seconds in in_a_group(4, patience)[0].items():
        print(f"seconds to wait, {name}: {seconds:g}")


if __name__ == "__main__":
    main()
