"""One small model, trained in several number formats.

    python -m lockstep.experiments.demos.low_precision_training NAME

NAME is weights, errors or outliers.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.optim.lr_scheduler import CosineAnnealingLR

from .fp8_and_fp4 import (
    E5M2,
    LEAST,
    Linear,
    Recipe,
    Rounds,
    e2m1,
    mxfp8,
    nvfp4,
    per_row_of_128,
    per_square_of_128,
    per_tensor,
)
from .rounding import stochastic

TOKENS, WIDTH, OUT = 128, 128, 16
STEPS, RATE = 100, 3e-3
OUTLIERS = 1, 10**5, 10**6  # in training
POWERS = 0, 2, 4, 5, 6, 7  # of ten, of which errors are shown


def asis(x: Tensor) -> Tensor:
    """fp32, in which everything here is computed."""
    return x


def bf16(x: Tensor) -> Tensor:
    """The nearest number of bf16."""
    return x.bfloat16().float()


def fp4(x: Tensor) -> Tensor:
    """The nearest number of e2m1, with one scale for all of x."""
    scale = (x.abs().max() / 6).clamp(min=LEAST)
    return e2m1(x / scale) * scale


def alike(rounds: Rounds) -> Recipe:
    """Activations, weights and gradients, all rounded in one way."""
    return {"x": rounds, "w": rounds, "g": rounds}


# --8<-- [start:recipes]
RECIPES: dict[str, Recipe] = {
    "fp32": alike(asis),
    "bf16": alike(bf16),
    "FP8, scale per tensor": {  # x: activations, w: weights, g: gradients
        "x": per_tensor,
        "w": per_tensor,
        "g": partial(per_tensor, held=E5M2),
    },
    "FP8, scale per 128": {
        "x": per_row_of_128,
        "w": per_square_of_128,
        "g": per_row_of_128,
    },
    "MXFP8, scale per 32": alike(mxfp8),
    "NVFP4, scale per 16": alike(nvfp4),
    "FP4, scale per tensor": alike(fp4),
}


# --8<-- [end:recipes]
class Student(nn.Module):
    """Two hidden layers in few bits, and an output layer that stays fp32."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.recipe = recipe
        first, second = torch.randn(2, WIDTH, WIDTH) / WIDTH**0.5
        self.first, self.second = nn.Parameter(first), nn.Parameter(second)
        self.out = nn.Linear(WIDTH, OUT)

    def forward(self, x: Tensor) -> Tensor:
        """(tokens, width) to (tokens, out)."""
        for weight in self.first, self.second:
            x = Linear.apply(x, weight, self.recipe).relu()
        return self.out(x)


def batches(steps: int, outlier: float) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs, and what a fixed random network answers. The first token has one
    activation as large as `outlier`, and the others are of size 1."""
    chance = torch.Generator().manual_seed(1)
    first = torch.randn(WIDTH, WIDTH, generator=chance) / WIDTH**0.5
    second = torch.randn(OUT, WIDTH, generator=chance) / WIDTH**0.5
    for _ in range(steps):
        x = torch.randn(TOKENS, WIDTH, generator=chance)
        y = 2 * (x @ first.T).relu() @ second.T
        x[0, 0] = outlier
        yield x, y


def trained(
    recipe: Recipe,
    outlier: float = 1,
    rate: float = RATE,
    steps: int = STEPS,
    held: Callable[[Tensor], Tensor] = asis,
) -> float:
    """The mean loss of the last 20 steps.

    Args:
        outlier: see `batches`. Its token is not asked about, as the first
            token of a text is not, so only its size does harm.
        held: what becomes of the weights between steps; they are fp32 if
            nothing does.
    """
    torch.manual_seed(0)
    model = Student(recipe)
    optimizer = torch.optim.Adam(model.parameters(), rate)
    schedule = CosineAnnealingLR(optimizer, steps)
    losses = []
    for x, y in batches(steps, outlier):
        optimizer.zero_grad()
        loss = mse_loss(model(x)[1:], y[1:])
        loss.backward()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            for weight in model.parameters():
                weight.copy_(held(weight))
        losses.append(loss.item())
    return sum(losses[-20:]) / 20


def lost(rounds: Rounds, outlier: float) -> float:
    """The relative error of the other tokens beside one outlier."""
    x, _ = next(batches(1, outlier))
    off = rounds(x)[1:] - x[1:]
    return float(off.norm() / x[1:].norm())


def show_weights() -> None:
    """Weights with and without a copy in fp32, at two learning rates."""
    chance = torch.Generator().manual_seed(0)
    rows = {
        "fp32": ("fp32", asis),
        "bf16 products, fp32 weights": ("bf16", asis),
        "bf16 products, bf16 weights": ("bf16", bf16),
        "the same, stochastic": (
            "bf16",
            lambda x: stochastic(x, chance).float(),
        ),
    }
    print(f"{'loss after 100 steps':30}rate 0.001  rate 0.0001")
    start = trained(RECIPES["fp32"], rate=0)
    print(f"{'untrained':30}{start:10.2f}{start:13.2f}")
    for name, (recipe, held) in rows.items():
        ends = [
            trained(RECIPES[recipe], rate=rate, held=held)
            for rate in (1e-3, 1e-4)
        ]
        print(f"{name:30}{ends[0]:10.2f}{ends[1]:13.2f}")


def show_errors() -> None:
    """What one outlier does to the numbers of the other tokens."""
    heads = "".join(f"{'10^' + str(power):>8}" for power in POWERS)
    print(f"{'error beside an outlier of':26}{heads}")
    rows = {name: one["x"] for name, one in RECIPES.items()}
    rows["FP8 e5m2, scale per tensor"] = partial(per_tensor, held=E5M2)
    del rows["fp32"], rows["bf16"]
    for name, rounds in rows.items():
        errors = [lost(rounds, 10.0**power) for power in POWERS]
        print(f"{name:26}" + "".join(f"{error:8.1%}" for error in errors))


def show_outliers() -> None:
    """What it does to training."""
    heads = "".join(f"{outlier:>12,}" for outlier in OUTLIERS)
    print(f"{'loss beside an outlier of':26}{heads}")
    start = trained(RECIPES["fp32"], rate=0)
    print(f"{'untrained':26}" + f"{start:12.2f}" * len(OUTLIERS))
    for name, recipe in RECIPES.items():
        ends = [trained(recipe, outlier) for outlier in OUTLIERS]
        print(f"{name:26}" + "".join(f"{end:12.2f}" for end in ends))


SHOWN = {
    "weights": show_weights,
    "errors": show_errors,
    "outliers": show_outliers,
}

if __name__ == "__main__":
    torch.set_num_threads(1)  # the matrices are small
    SHOWN[sys.argv[1]]()
