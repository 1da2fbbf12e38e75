"""What an asynchronous collective promises, and what nobody checks."""

import os

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

from lockstep.instruments.forked import in_a_group


def early(store: dist.Store) -> list[object]:
    """What rank 0 finds in its buffer, and is told of the work, before it
    waits and after. Rank 1 begins once rank 0 has looked."""
    buffer = torch.ones(2)
    if dist.get_rank() == 1:
        store.wait(["looked"])
    work = dist.all_reduce(buffer, async_op=True)
    before = [buffer.tolist(), work.is_completed()]
    store.set("looked", "")
    work.wait()
    return [*before, buffer.tolist(), work.is_completed()]


# --8<-- [start:crossed]
def crossed() -> list[list[float]]:
    """Two sums, which rank 1 starts in the other order."""
    loss, norm = torch.ones(2), torch.full((2,), 100.0)
    order = [loss, norm] if dist.get_rank() == 0 else [norm, loss]
    for work in [dist.all_reduce(each, async_op=True) for each in order]:
        work.wait()
    return [loss.tolist(), norm.tolist()]


# --8<-- [end:crossed]
def looked() -> list[object]:
    """`early`, in the group's own store."""
    return early(_get_default_store())


def checked(debug: str) -> list[list[float]]:
    """`crossed` on rank 0, under TORCH_DISTRIBUTED_DEBUG=`debug`."""
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = debug
    dist.set_debug_level_from_env()  # torch has read it, when imported
    found: list[list[list[float]]] = in_a_group(2, crossed)
    return found[0]


def main() -> None:
    """Both, on two ranks."""
    before, done, after, then = in_a_group(2, looked)[0]
    print(f"before wait: {before}, completed: {done}")
    print(f"after wait:  {after}, completed: {then}")
    for debug in ("OFF", "DETAIL"):
        loss, norm = checked(debug)
        print(f"crossed, {debug}: loss {loss}, norm {norm}")


if __name__ == "__main__":
    main()
