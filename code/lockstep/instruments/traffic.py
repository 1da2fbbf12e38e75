"""The communication that a rank starts, seen in torch's dispatcher: whatever
name it was imported by, in hooks and in autograd, functional or in place."""

import sys
from dataclasses import dataclass, field
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.distributed import distributed_c10d as c10d
from torch.utils._python_dispatch import TorchDispatchMode

from lockstep.planner.collectives import BUS, collective

# The planner's names, by how torch's operators begin, longer ones first.
OPS = {
    "allreduce": "all_reduce",
    "all_reduce": "all_reduce",
    "allgather": "all_gather",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "all_to_all": "all_to_all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "send": "send",
    "recv": "recv",
}


# Torch's functions that are collectives or messages, whoever calls them.
COLLECTIVES = (
    "torch.distributed.distributed_c10d",
    "torch.distributed.c10d_logger",
    "torch.distributed._functional_collectives",
    "torch.distributed.nn.functional",
)
# What lies between one of them and the dispatcher, or between two of them.
BETWEEN = (
    *("torch._compile", "torch._dynamo", "torch._library", "torch._ops"),
    *("torch.autograd.function", "contextlib", "typing_extensions", __name__),
)


@dataclass(frozen=True)
class Call:
    """One collective or message that this rank took part in."""

    op: str  # all_reduce, all_gather, …, send, recv
    bytes: int  # of the whole buffer, as nccl-tests counts
    ranks: int  # in the group
    peer: int | None = None  # a message's other end, as a global rank
    # The module whose code asked for it.
    by: str = field(default="", compare=False)

    @property
    def by_torch(self) -> bool:
        """Whether torch asked for it by itself, as its own DDP and FSDP do."""
        collective = self.by.startswith(COLLECTIVES)
        return self.by.startswith("torch.") and not collective

    @property
    def sent(self) -> float:
        """Bytes that this rank sends; in a collective, those of a ring."""
        if self.op == "scatter":  # nothing goes to the root itself
            return self.bytes * (self.ranks - 1) / self.ranks
        if self.op not in BUS:
            return 0 if self.op == "recv" else self.bytes
        if self.ranks == 1:
            return 0
        asked = {"op": self.op, "bytes": self.bytes, "ranks": self.ranks}
        asked |= {"algorithm": "ring", "bandwidth": 0, "latency": 0}
        return float(collective(asked)["bytes_sent_per_rank"])


class Traffic(TorchDispatchMode):
    """`with Traffic() as traffic:` notes every call, in order, in `events`.

    A grader may put marks of its own among them, to see what came before what.
    It sees the thread that it is in: on a CPU, the backward pass as well.
    """

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Call | str] = []

    @property
    def calls(self) -> list[Call]:
        """The events without the marks."""
        return [event for event in self.events if isinstance(event, Call)]

    @property
    def sent(self) -> float:
        """Bytes that this rank has sent."""
        return sum(call.sent for call in self.calls)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Note a call of torch.distributed's, and let it happen."""
        if "c10d" in func.namespace:
            name = func._schema.name.partition("::")[2].strip("_")
            op = next((OPS[n] for n in OPS if name.startswith(n)), None)
            if op:
                names = [argument.name for argument in func._schema.arguments]
                given = dict(zip(names, args, strict=False)) | (kwargs or {})
                self.events.append(_call(op, given, caller()))
        return func(*args, **(kwargs or {}))


def caller() -> str:
    """Return the module that asked for the collective that is dispatched.

    If a hook of torch's C++ asks, there is no Python between the collective and
    autograd's engine. What a collective's own gradient sends is asked for by
    the collective.
    """
    frame, found, passed = sys._getframe(1), "", ""
    while frame.f_back:
        found = str(frame.f_globals.get("__name__"))
        if found.startswith(COLLECTIVES):
            passed = found
        elif not found.startswith(BETWEEN):
            break
        frame = frame.f_back
    return passed if passed and found == "torch.autograd.graph" else found


def _call(op: str, given: dict[str, Any], by: str) -> Call:
    if "process_group" in given:
        group = dist.ProcessGroup.unbox(given["process_group"])
    else:
        group = c10d._resolve_process_group(given["group_name"])
    buffer = next(
        value
        for name, value in given.items()
        if name.startswith("input") or name in ("tensors", "tensor")
    )
    peer = (
        given.get("dst", given.get("src")) if op in ("send", "recv") else None
    )
    if peer is not None:
        peer = dist.get_process_group_ranks(group)[peer]
    ranks = group.size()
    parts = ranks if op == "all_gather" else 1
    return Call(op, parts * nbytes(buffer), ranks, peer, by)


def nbytes(found: Tensor | list[Any]) -> int:
    """Of a tensor, or of lists of them."""
    if isinstance(found, Tensor):
        return found.nbytes
    return sum(map(nbytes, found))
