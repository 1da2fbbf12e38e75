"""What every rank holds before a collective, and what it finds after it."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

from lockstep.instruments.forked import in_a_group

Call = tuple[Tensor | None, Tensor | None, Callable[[], object]]


# --8<-- [start:calls]
def calls(whole: Tensor, part: Tensor, other: Tensor) -> dict[str, Call]:
    """By collective: what this rank gives, what it finds, and the call. Where
    there is a root, it is rank 0."""
    ranks, first = dist.get_world_size(), dist.get_rank() == 0
    parts = list(whole.chunk(ranks)) if first else None
    at_root = whole if first else None
    return {
        "broadcast": (at_root, whole, lambda: dist.broadcast(whole, 0)),
        "scatter": (at_root, part, lambda: dist.scatter(part, parts, 0)),
        "gather": (part, at_root, lambda: dist.gather(part, parts, 0)),
        "reduce": (whole, at_root, lambda: dist.reduce(whole, 0)),
        "all_reduce": (whole, whole, lambda: dist.all_reduce(whole)),
        "all_gather": (
            *(part, whole),
            lambda: dist.all_gather_single(whole, part),
        ),
        "reduce_scatter": (
            *(whole, part),
            lambda: dist.reduce_scatter_single(part, whole),
        ),
        "all_to_all": (
            *(whole, other),
            lambda: dist.all_to_all_single(other, whole),
        ),
    }


# --8<-- [end:calls]
def held() -> dict[str, tuple[str, str]]:
    """By collective: what this rank gives and finds, of two numbers that are
    1 and 2 on rank 0, 10 and 20 on rank 1."""

    def fresh() -> dict[str, Call]:
        whole = torch.tensor([1, 2]) * 10 ** dist.get_rank()
        return calls(whole, whole[:1].clone(), torch.zeros_like(whole))

    found = {}
    for op in fresh():
        given, result, call = fresh()[op]
        before = said(given)
        call()
        found[op] = before, said(result)
    return found


def said(numbers: Tensor | None) -> str:
    """Those numbers, or a dash."""
    return "-" if numbers is None else " ".join(map(str, numbers.tolist()))


def main() -> None:
    """A line for each collective, on two ranks."""
    ranks = in_a_group(2, held)
    print(f"{'':14}{'rank 0':>8}{'rank 1':>8}      {'rank 0':>8}{'rank 1':>8}")
    for op in ranks[0]:
        befores, afters = zip(*(rank[op] for rank in ranks), strict=True)
        left, right = ("".join(f"{s:>8}" for s in x) for x in (befores, afters))
        print(f"{op:14}{left}  ->  {right}")


if __name__ == "__main__":
    main()
