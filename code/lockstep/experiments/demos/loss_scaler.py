"""A loss scaler by hand, for fp16, which does what torch's GradScaler does.

python -m lockstep.experiments.demos.loss_scaler
"""

from itertools import chain
from typing import Any

import torch
from torch import Tensor

FP16 = torch.float16


# --8<-- [start:scaler]
class LossScaler:
    """Multiplies the loss, so that small gradients of the backward pass stay
    above fp16's smallest number, and looks for the largest such factor."""

    def __init__(self, scale: float = 2.0**16, interval: int = 2000) -> None:
        self.scale, self.interval, self.good = scale, interval, 0

    def step(self, loss: Tensor, optimizer: torch.optim.Optimizer) -> bool:
        """One step of the optimizer, unless a gradient overflowed. Whether
        the weights, which are fp32, were updated."""
        groups = [group["params"] for group in optimizer.param_groups]
        weights = [one for one in chain(*groups) if one.requires_grad]
        (loss * self.scale).backward()
        finite = all(bool(one.grad.isfinite().all()) for one in weights)
        if finite:
            for one in weights:
                one.grad /= self.scale  # in fp32, where nothing is lost
            optimizer.step()
            self.good += 1
        else:
            self.scale, self.good = self.scale / 2, 0
        if self.good == self.interval:
            self.scale, self.good = self.scale * 2, 0
        return finite

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint needs."""
        return {"scale": self.scale, "good": self.good}


# --8<-- [end:scaler]
def gradients(count: int = 100_000, seed: int = 0) -> Tensor:
    """Magnitudes as a backward pass has them: evenly spread over powers of two
    around 10⁻⁷, with a wide bell."""
    chance = torch.Generator().manual_seed(seed)
    return 1e-7 * torch.randn(count, generator=chance).mul(4).exp2()


def kept(scale: float, held: torch.dtype = FP16) -> dict[str, float]:
    """What storing them, scaled, makes of gradients, as shares of all."""
    exact = gradients()
    stored = (exact * scale).to(held).float()
    normal = torch.finfo(held).smallest_normal
    return {
        "zero": float((stored == 0).float().mean()),
        "coarse": float(((stored > 0) & (stored < normal)).float().mean()),
        "infinite": float(stored.isinf().float().mean()),
    }


def main() -> None:
    """A line for each scale."""
    print("scale      zero   coarse  infinite")
    for power in (0, 8, 16, 24, 28):
        line = "".join(f"{share:9.2%}" for share in kept(2.0**power).values())
        print(f"2^{power:<4}{line}")


if __name__ == "__main__":
    main()
