"""What an optimizer's state forgets in bf16, and how large a batch is worth it.

    python -m lockstep.experiments.demos.optimizers

In one process; the shares of four ranks are computed one after the other.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from .local_sgd import digits, network

SHARES, SHARE, STEPS, WINDOW = 4, 16, 200, 40


# --8<-- [start:moment]
def second_moment(dtype: torch.dtype, steps: int, fused: bool = False) -> float:
    """Return AdamW's mean of squared gradients after `steps` gradients of 1,
    for a weight in `dtype`. It should be 1 - 0.999^steps."""
    weight = torch.zeros(1, dtype=dtype, requires_grad=True)
    weight.grad = torch.ones_like(weight)
    adam = torch.optim.AdamW([weight], fused=fused)
    for _ in range(steps):
        adam.step()
    return float(adam.state[weight]["exp_avg_sq"])


# --8<-- [end:moment]
# --8<-- [start:noise]
def noise_scale(own: float, mean: float, share: int, ranks: int) -> float:
    """The gradient noise scale, in samples, from what data parallelism has
    anyway (McCandlish et al. 2018, appendix A.1).

    Args:
        own: squared norm of a rank's own gradient, averaged over ranks.
        mean: squared norm of the ranks' mean gradient.
        share: samples of a rank.
    """
    whole = share * ranks
    noise = (own - mean) / (1 / share - 1 / whole)
    signal = (whole * mean - share * own) / (whole - share)
    return noise / signal


# --8<-- [end:noise]
def norms(grads: list[list[Tensor]]) -> tuple[float, float]:
    """`own` and `mean` of `noise_scale`, of each rank's gradients."""
    flat = torch.stack([torch.cat([g.flatten() for g in one]) for one in grads])
    own = flat.square().sum(1).mean().item()
    return own, flat.mean(0).square().sum().item()


def scales() -> list[tuple[float, float]]:
    """The loss and the noise scale in the first and in the last steps of a
    small training."""
    net, (x, y) = network(), digits()
    params = list(net.parameters())
    optimizer = torch.optim.AdamW(params, 3e-3)
    chance = torch.Generator().manual_seed(0)
    seen = []
    for _ in range(STEPS):
        losses, grads = [], []
        for _ in range(SHARES):
            at = torch.randint(len(x), (SHARE,), generator=chance)
            loss = F.cross_entropy(net(x[at]), y[at])
            grads.append(list(torch.autograd.grad(loss, params)))
            losses.append(loss.item())
        for each, param in zip(zip(*grads, strict=True), params, strict=True):
            param.grad = torch.stack(each).mean(0)
        seen.append((sum(losses) / SHARES, *norms(grads)))
        optimizer.step()
    found = []
    for part in seen[:WINDOW], seen[-WINDOW:]:
        loss, own, mean = (sum(one) / WINDOW for one in zip(*part, strict=True))
        found.append((loss, noise_scale(own, mean, SHARE, SHARES)))
    return found


def main() -> None:
    """Print three moments, then two scales."""
    print("second moment after 2,000 steps")
    for name, dtype, fused in (
        ("fp32", torch.float32, False),
        ("bf16", torch.bfloat16, False),
        ("bf16, fused=True", torch.bfloat16, True),
    ):
        print(f"  {name:16} {second_moment(dtype, 2000, fused):.2f}")
    for name, (loss, scale) in zip(("first", "last"), scales(), strict=True):
        print(
            f"{name} {WINDOW} steps: loss {loss:.2f},"
            f" noise scale about {scale:.0f} samples"
        )


if __name__ == "__main__":
    main()
