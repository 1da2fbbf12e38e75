"""Lab 01 once more, in another style: batches, lists, recursion."""

from itertools import pairwise

from torch import Tensor, empty_like
from torch.distributed import (
    P2POp,
    ProcessGroup,
    batch_isend_irecv,
    get_process_group_ranks,
    get_rank,
    irecv,
    isend,
    recv,
    send,
)

Group = ProcessGroup | None


def swap(out: Tensor, to: int, into: Tensor, source: int, group: Group) -> None:
    messages = [P2POp(isend, out, to, group), P2POp(irecv, into, source, group)]
    for work in batch_isend_irecv(messages):
        work.wait()


def ring(group: Group) -> tuple[list[int], int]:
    """Global ranks, this one first; and its place in the group."""
    ranks = get_process_group_ranks(group)
    mine = ranks.index(get_rank())
    return ranks[mine:] + ranks[:mine], mine


def ring_reduce_scatter(
    output: Tensor, inputs: list[Tensor], group: Group = None
) -> None:
    ranks, mine = ring(group)
    if len(ranks) == 1:
        output.copy_(inputs[0])
        return
    turned = inputs[mine:] + inputs[:mine]
    total = turned.pop()
    while turned:
        own = turned.pop()
        got = empty_like(own)
        swap(total, ranks[1], got, ranks[-1], group)
        total = got + own
    output[...] = total


def ring_all_gather(
    outputs: list[Tensor], tensor: Tensor, group: Group = None
) -> None:
    ranks, mine = ring(group)
    outputs[mine][...] = tensor
    turned = outputs[mine:] + outputs[:mine]
    turned = turned[:1] + turned[:0:-1]
    for out, into in pairwise(turned):
        swap(out, ranks[1], into, ranks[-1], group)


def ring_all_reduce(tensor: Tensor, group: Group = None) -> None:
    """Without the two above: every part is summed and then handed on."""
    ranks, mine = ring(group)
    n = len(ranks)
    flat = tensor.reshape(-1)
    parts = flat.tensor_split(n)
    for step in range(2 * (n - 1)):
        out, into = (mine - step) % n, (mine - step - 1) % n
        got = empty_like(parts[into])
        swap(parts[out], ranks[1], got, ranks[-1], group)
        if step < n - 1:
            parts[into].add_(got)
        else:
            parts[into].copy_(got)
    tensor.copy_(flat.reshape(tensor.shape))


def tree_broadcast(tensor: Tensor, src: int, group: Group = None) -> None:
    """Halve the ranks: the first of each half has it."""
    ranks = get_process_group_ranks(group)
    first = ranks.index(src)
    down(tensor, ranks[first:] + ranks[:first], group)


def down(tensor: Tensor, ranks: list[int], group: Group) -> None:
    if len(ranks) == 1:
        return
    half = (len(ranks) + 1) // 2
    near, far = ranks[:half], ranks[half:]
    if get_rank() == near[0]:
        send(tensor, far[0], group)
    elif get_rank() == far[0]:
        recv(tensor, near[0], group)
    down(tensor, near if get_rank() in near else far, group)


def all_to_all(
    outputs: list[Tensor], inputs: list[Tensor], group: Group = None
) -> None:
    ranks = get_process_group_ranks(group)
    mine = ranks.index(get_rank())
    outputs[mine].copy_(inputs[mine])
    others = [(place, r) for place, r in enumerate(ranks) if place != mine]
    messages = [P2POp(isend, inputs[place], r, group) for place, r in others]
    messages += [P2POp(irecv, outputs[place], r, group) for place, r in others]
    for work in batch_isend_irecv(messages) if messages else []:
        work.wait()
