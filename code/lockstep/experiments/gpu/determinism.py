"""Whether the same call gives the same bits: twice, and in another batch."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lockstep.experiments.gpu.clock import device
from lockstep.experiments.gpu.kernels import normal

Row = dict[str, Any]


def alike(call: Callable[[], Tensor], times: int = 20) -> float:
    """Share of repeated calls whose bits are those of the first."""
    first = call()
    return sum(torch.equal(first, call()) for _ in range(times)) / times


def twice() -> list[Row]:
    """Operations on the same inputs, as they are and with torch told to be
    deterministic."""
    n, width = 1 << 16, 512
    index = torch.randint(64, (n,), device=device())
    values = normal(n, width, dtype=torch.float32)
    table = normal(64, width, dtype=torch.float32).requires_grad_()
    x = normal(4096, 4096)
    q, k, v = (normal(4, 16, 2048, 128).requires_grad_() for _ in range(3))

    def added() -> Tensor:
        target = torch.zeros(64, width, device=device())
        return target.index_add_(0, index, values)

    def scattered() -> Tensor:
        target = torch.zeros(64, width, device=device())
        return target.scatter_add_(0, index[:, None].expand(n, width), values)

    def looked_up() -> Tensor:
        out = F.embedding(index, table)
        return torch.autograd.grad(out, table, values)[0]

    def attended() -> Tensor:
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return torch.autograd.grad(out, q, out.detach())[0]

    each: dict[str, Callable[[], Tensor]] = {
        "matrix product": lambda: x @ x,
        "sum": lambda: values.sum(),
        "index_add_": added,
        "scatter_add_": scattered,
        "embedding, backward": looked_up,
        "attention, backward": attended,
    }
    found = []
    for name, call in each.items():
        row: Row = {"what": name, "alike": alike(call)}
        torch.use_deterministic_algorithms(True)
        try:
            row["told"] = alike(call)
        except RuntimeError as error:
            row["refused"] = str(error).splitlines()[0][:200]
        finally:
            torch.use_deterministic_algorithms(False)
        found.append(row)
    return found


def in_other_batches(
    n: int = 4096, batches: tuple[int, ...] = (1, 2, 16, 128, 1024)
) -> list[Row]:
    """The same row through the same layer, alone and among others: is its
    result the same, and how far off?"""
    x, weight = normal(4096, n), normal(n, n)
    whole = (x @ weight.T)[:1]
    found = []
    for batch in batches:
        part = (x[:batch] @ weight.T)[:1]
        off = (part.float() - whole.float()).abs().max() / whole.abs().max()
        found.append(
            {
                "batch": batch,
                "alike": torch.equal(part, whole),
                "off": off.item(),
            }
        )
    return found
