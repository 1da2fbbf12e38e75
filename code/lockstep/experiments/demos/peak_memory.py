"""What real blocks and a real loss keep, and their peak, beside the plan.

    python -m lockstep.experiments.demos.peak_memory

torch's memory tracker counts tensors that have a shape and no memory.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from lockstep.instruments.peak import Counted, counted
from lockstep.planner.activations import activations

GPT3: dict[str, Any] = {"layers": 4, "hidden": 12288, "heads": 96}
GPT3 |= {"sequence": 2048, "micro_batch": 1, "tp": 1, "sequence_parallel": 0}
Core = Callable[[Tensor, Tensor, Tensor], Tensor]


def dropped(x: Tensor) -> Tensor:
    """Dropout whose mask has one byte a number, as on a GPU."""
    return torch.native_dropout(x, 0.1, True)[0]


def scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention whose scores lie in memory, on (b, heads, s, head)."""
    found = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    return dropped(found.softmax(-1)) @ v


def flash(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The kernel that scaled_dot_product_attention takes on a CPU. By its own
    name, since tensors without memory would get another."""
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    return kernel(q, k, v)[0]


class Classic(nn.Module):
    """The block of Korthikanti et al. 2022, figure 2, with dropout."""

    def __init__(self, hidden: int, heads: int, core: Core = scores) -> None:
        super().__init__()
        self.heads, self.core = heads, core
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(3))
        self.o = nn.Linear(hidden, hidden)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        """(b, s, hidden) to the same."""
        x = x + dropped(self.o(self.attend(self.norm1(x))))
        return x + dropped(self.down(F.gelu(self.up(self.norm2(x)))))

    def attend(self, x: Tensor) -> Tensor:
        """(b, s, hidden) to the same, through heads."""
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in self.qkv
        )
        return self.core(q, k, v).transpose(1, 2).flatten(2)


class Mode(NamedTuple):
    """How a block attends, and what it recomputes in the planner's words."""

    core: Core
    recompute: str


again = partial(checkpoint, use_reentrant=False)
MODES = {
    "none": Mode(scores, "none"),
    "selective": Mode(partial(again, scores), "selective"),
    "full": Mode(scores, "full"),
    "flash": Mode(flash, "selective"),  # it keeps no scores either
    "flash, full": Mode(flash, "full"),
}


def of_blocks(mode: Mode, shape: dict[str, Any] = GPT3) -> Counted:
    """A stack of blocks in 16 bits."""
    b, s, h = (shape[key] for key in ("micro_batch", "sequence", "hidden"))
    with torch.device("meta"):
        stack = nn.ModuleList(
            Classic(h, shape["heads"], mode.core)
            for _ in range(shape["layers"])
        ).to(torch.bfloat16)

        def forward() -> Tensor:
            x = torch.zeros(b, s, h, dtype=torch.bfloat16)
            for block in stack:
                x = again(block, x) if mode.recompute == "full" else block(x)
            return x.sum()

        return counted(stack, forward)


def of_loss(
    pieces: int, s: int = 8192, hidden: int = 4096, vocab: int = 128256
) -> Counted:
    """Llama 3 8B's output layer, in 16 bits, and its loss, in 32, of so many
    pieces of the sequence; with several, each is recomputed."""
    with torch.device("meta"):
        head = nn.Linear(hidden, vocab, bias=False).to(torch.bfloat16)
        x = torch.zeros(s, hidden, dtype=torch.bfloat16, requires_grad=True)
        y = torch.zeros(s, dtype=torch.long)

        def loss(x: Tensor, y: Tensor) -> Tensor:
            logits = F.linear(x, head.weight)
            return F.cross_entropy(logits.float(), y, reduction="sum")

        def forward() -> Tensor:
            each = partial(again, loss) if pieces > 1 else loss
            parts = zip(x.chunk(pieces), y.chunk(pieces), strict=True)
            return torch.stack([each(*part) for part in parts]).sum()

        return counted(head, forward)


def planned(mode: Mode, shape: dict[str, Any] = GPT3) -> float:
    """Bytes kept, as the planner has it."""
    given = shape | {"recompute": mode.recompute}
    return float(activations(given)["total_bytes"])


def row(name: str, *sizes: float) -> str:
    """Sizes in GB."""
    return f"{name:14}{''.join(f'{size / 1e9:9.3f}' for size in sizes)}"


def main() -> None:
    """GB by mode, and by the number of pieces."""
    print(f"{'4 blocks, GB':14}{'planned':>9}{'kept':>9}{'peak':>9}")
    for name, mode in MODES.items():
        print(row(name, planned(mode), *of_blocks(mode)))
    print(f"\n{'loss, GB':23}{'kept':>9}{'peak':>9}")
    for pieces, name in ((1, "whole"), (8, "in 8 pieces")):
        print(row(f"{name:23}", *of_loss(pieces)))


if __name__ == "__main__":
    main()
