"""A small transformer whose training goes wrong in five ways, under probes.

    python -m lockstep.experiments.demos.training_instability [--record]

It shows the recorded runs; with `--record` it trains them again.

In one process. The task can be learned: with a probability of 0.9 a token
follows from the token two places before it.
"""

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

VOCAB, LENGTH, WIDTH, HEADS, LAYERS = 32, 16, 32, 2, 2
BATCH, STEPS, EVENT = 32, 240, 160
RATE, WARMUP = 1e-2, 40
RECORDED = Path(__file__).with_name("training_instability.json")


class Attention(nn.Module):
    """Causal attention that remembers its largest logit.

    Args:
        norm: normalize queries and keys before their product (QK norm).
    """

    def __init__(self, norm: bool) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        size = WIDTH // HEADS
        self.q_norm = nn.RMSNorm(size) if norm else nn.Identity()
        self.k_norm = nn.RMSNorm(size) if norm else nn.Identity()
        self.largest = 0.0

    # --8<-- [start:attention]
    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, width) to the same."""
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        q, k = self.q_norm(q), self.k_norm(k)  # QK norm, or nothing
        logits = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
        self.largest = logits.detach().masked_fill(future, 0).abs().max().item()
        weights = logits.masked_fill(future, -torch.inf).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, n, -1))

    # --8<-- [end:attention]


class Block(nn.Module):
    """Attention and a perceptron, each behind a norm."""

    def __init__(self, norm: bool) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.attention = Attention(norm)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, width) to the same."""
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


class Transformer(nn.Module):
    """Tokens (batch, length) to logits (batch, length, vocabulary)."""

    def __init__(self, norm: bool = False) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block(norm) for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        nn.init.normal_(self.tokens.weight, std=0.1)
        nn.init.normal_(self.places.weight, std=0.1)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of each next token."""
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def batch(step: int, bad: bool = False, rank: int = 0) -> Tensor:
    """Tokens (batch, length + 1) of a step, always the same for that step.

    Args:
        bad: a quarter of the samples are noise, as from a damaged file.
        rank: whose data.
    """
    chance = torch.Generator().manual_seed(1000 * step + rank)
    rule = torch.randperm(VOCAB, generator=torch.Generator().manual_seed(7))
    rows = torch.randint(VOCAB, (BATCH, LENGTH + 1), generator=chance)
    follows = torch.rand(BATCH, LENGTH + 1, generator=chance) < 0.9
    for at in range(2, LENGTH + 1):
        rows[:, at] = torch.where(
            follows[:, at], rule[rows[:, at - 2]], rows[:, at]
        )
    if bad:
        noise = torch.randint(VOCAB, (BATCH // 4, LENGTH + 1), generator=chance)
        rows[: BATCH // 4] = noise
    return rows


# --8<-- [start:probes]
class Seen(NamedTuple):
    """What one step shows to probes."""

    loss: float
    worst: float  # loss of the worst sample, over the batch's median
    gradient: float  # norm of the whole gradient
    logit: float  # largest attention logit, of all layers
    update: float  # norm of the update, over the norm of the weights
    ahead: float  # largest of a tensor's gradient / sqrt(second moment)
    moved: float  # share of weights that the step changed


def by_layer(model: nn.Module) -> dict[str, float]:
    """Norm of each parameter's gradient, by name."""
    return {
        name: param.grad.norm().item()
        for name, param in model.named_parameters()
        if param.grad is not None
    }


def ahead_of(
    model: nn.Module, optimizer: torch.optim.Optimizer
) -> dict[str, float]:
    """Return how far each gradient is ahead of Adam's second moment, by name:
    the root mean square of g / sqrt(v), near 1 when v is up to date. Call it
    before the step. It leaves embeddings out, whose rare rows have no v."""
    names = {param: name for name, param in model.named_parameters()}
    rare = {m.weight for m in model.modules() if isinstance(m, nn.Embedding)}
    found = {}
    for group in optimizer.param_groups:
        for param in group["params"]:
            state = optimizer.state[param]
            if param.grad is None or param in rare or not state:
                continue
            done = 1 - group["betas"][1] ** state["step"].item()
            v = (state["exp_avg_sq"].float() / done).clamp_min(
                group["eps"] ** 2
            )
            part = param.grad.float().square() / v
            found[names[param]] = part.mean().sqrt().item()
    return found


# --8<-- [end:probes]
class Cause(NamedTuple):
    """What is done to a run."""

    rate: float = RATE
    warmup: int = WARMUP
    beta2: float = 0.95
    bad: bool = False  # a bad batch at EVENT
    skip: bool = False  # and it is left out
    scale: float = 1.0  # of the loss, from EVENT on
    clip: float = math.inf
    qk_times: float = 1.0  # rate of queries, keys and values, times `rate`
    qk_norm: bool = False
    dtype: torch.dtype = torch.float32  # of weights and optimizer state


RUNS = {
    "healthy": Cause(),
    "bad batch": Cause(bad=True),
    "rate too high": Cause(rate=0.1, warmup=1),
    "stale moments": Cause(beta2=0.999, scale=100),
    "attention logits": Cause(qk_times=30),
    "small rate": Cause(rate=3e-4),
    "bf16 weights": Cause(rate=3e-4, dtype=torch.bfloat16),
    # and what helps
    "bad batch, skipped": Cause(bad=True, skip=True),
    "high rate, warm-up": Cause(rate=0.1),
    "moments, beta2 0.95": Cause(scale=100),
    "moments, clipped": Cause(beta2=0.999, scale=100, clip=0.3),
    "logits, QK norm": Cause(qk_times=30, qk_norm=True),
}
WITHOUT = {  # the run that a cause is compared with: the same without it
    "bad batch": "healthy",
    "rate too high": "healthy",
    "stale moments": "healthy",
    "attention logits": "healthy",
    "bf16 weights": "small rate",
}


def groups(model: nn.Module, cause: Cause) -> list[dict[str, Any]]:
    """The optimizer's parameter groups: queries and keys may be faster."""
    fast = [p for n, p in model.named_parameters() if "qkv" in n]
    rest = [p for n, p in model.named_parameters() if "qkv" not in n]
    return [
        {"params": rest, "times": 1.0},
        {"params": fast, "times": cause.qk_times},
    ]


def train(cause: Cause, steps: int = STEPS) -> Iterator[Seen]:
    """What each step of a run shows."""
    torch.manual_seed(0)
    model = Transformer(cause.qk_norm).to(cause.dtype)
    optimizer = torch.optim.AdamW(
        groups(model, cause), cause.rate, (0.9, cause.beta2), weight_decay=0
    )
    params = list(model.parameters())
    for step in range(steps):
        if cause.skip and step == EVENT:
            continue
        rows = batch(step, cause.bad and step == EVENT)
        logits = model(rows[:, :-1]).float()
        each = F.cross_entropy(
            logits.transpose(1, 2), rows[:, 1:], reduction="none"
        ).mean(1)
        optimizer.zero_grad()
        scale = cause.scale if step >= EVENT else 1
        (each.mean() * scale).backward()
        norm = nn.utils.clip_grad_norm_(params, cause.clip)
        ahead = max(ahead_of(model, optimizer).values(), default=1.0)
        for group in optimizer.param_groups:
            warm = min(1, (step + 1) / cause.warmup)
            group["lr"] = cause.rate * group["times"] * warm
        before = torch.cat([p.detach().flatten() for p in params])
        optimizer.step()
        change = torch.cat([p.detach().flatten() for p in params]) - before
        yield Seen(
            each.mean().item(),
            (each.max() / each.median()).item(),
            norm.item(),
            max(m.largest for m in model.modules() if isinstance(m, Attention)),
            (change.float().norm() / before.float().norm()).item(),
            ahead,
            (change != 0).float().mean().item(),
        )


# --8<-- [start:jump]
def largest_update(beta2: float, jump: float = 1000, steps: int = 100) -> float:
    """Adam's largest update, in learning rates, after a gradient that was 1 for
    8,000 steps has become `jump`."""
    weight = nn.Parameter(torch.zeros(()))
    adam = torch.optim.Adam([weight], 1.0, (0.9, beta2))
    largest = 0.0
    for step in range(8000 + steps):
        weight.grad = torch.tensor(1.0 if step < 8000 else float(jump))
        before = weight.item()
        adam.step()
        if step >= 8000:
            largest = max(largest, abs(weight.item() - before))
        weight.data.zero_()
    return largest


# --8<-- [end:jump]
# The table: which probe moves, and when


def first(moved: Sequence[bool], steps: int = 2) -> int | None:
    """The first of `steps` steps in a row in which something moved."""
    for at in range(len(moved) - steps + 1):
        if all(moved[at : at + steps]):
            return at
    return None


def moves(
    run: Sequence[Seen], without: Sequence[Seen]
) -> dict[str, int | None]:
    """The first of two steps at which each probe left the run without the
    cause: the loss by 0.1, another by a factor of 3, `moved` below 0.9. For
    what shows in one batch alone, one step by 0.5, or a `worst` of 5."""
    higher = [a.loss - b.loss for a, b in pairs(run, without)]
    found = {"loss": first([more > 0.1 for more in higher])}
    if found["loss"] is None:
        found["loss"] = first([more > 0.5 for more in higher], 1)
    for probe in "gradient", "logit", "update", "ahead":
        found[probe] = first(
            [
                getattr(a, probe) > 3 * getattr(b, probe)
                for a, b in pairs(run, without)
            ]
        )
    found["worst"] = first([a.worst > 5 for a in run], 1)
    found["moved"] = first([a.moved < 0.9 for a in run])
    return found


def pairs(
    run: Sequence[Seen], without: Sequence[Seen]
) -> Iterator[tuple[Seen, Seen]]:
    """Step by step."""
    return zip(run, without, strict=False)


HEAD = ("loss", "worst", "gradient", "update", "ahead", "logit", "moved")


def table(found: Mapping[str, Mapping[str, int | None]]) -> str:
    """The first step at which each probe moved, a line for each cause."""
    lines = [" " * 18 + "".join(f"{probe:>9}" for probe in HEAD)]
    for name in WITHOUT:
        cells = (found[name][probe] for probe in HEAD)
        lines.append(
            f"{name:<18}"
            + "".join(f"{'-' if at is None else at:>9}" for at in cells)
        )
    return "\n".join(lines)


def over(run: Sequence[Seen], without: Sequence[Seen]) -> float:
    """How much higher the loss is over the last 40 steps."""
    return sum(a.loss - b.loss for a, b in list(pairs(run, without))[-40:]) / 40


TELLING = {  # the probe that a figure shows beside the loss
    "bad batch": "worst",
    "rate too high": "update",
    "stale moments": "ahead",
    "attention logits": "logit",
    "bf16 weights": "moved",
}


def record() -> dict[str, Any]:
    """Every run, and of it what page and figure need."""
    runs = {name: list(train(cause)) for name, cause in RUNS.items()}
    curves = {}
    for name, other in WITHOUT.items():
        probe = TELLING[name]
        curves[name] = {
            key: [float(f"{getattr(s, of):.3g}") for s in runs[whose]]
            for key, of, whose in (
                ("loss", "loss", name),
                ("without", "loss", other),
                ("probe", probe, name),
                ("probe_without", probe, other),
            )
        }
    return {
        "moves": {n: moves(runs[n], runs[w]) for n, w in WITHOUT.items()},
        "over": {
            n: round(over(r, runs[WITHOUT.get(n, "healthy")]), 3)
            for n, r in runs.items()
            if n not in ("healthy", "small rate")
        },
        "curves": curves,
    }


def main(args: Sequence[str]) -> None:
    """The recorded table."""
    if "--record" in args:
        RECORDED.write_text(json.dumps(record()) + "\n", "utf-8")
    print(table(json.loads(RECORDED.read_text("utf-8"))["moves"]))


if __name__ == "__main__":
    main(sys.argv[1:])
