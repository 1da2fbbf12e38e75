"""A small protein language model: trained, and on every mesh the same.

    python -m lockstep.experiments.studies.protein_lm

A run on one process with losses on families that it never saw; its first steps
under DDP, FSDP2 and context parallelism; three errors on ranks; and a run whose
labels were drawn apart from its inputs. Some minutes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch._dynamo  # before the fork: an optimizer's first step imports it
import torch.distributed as dist
from torch import Tensor

from lockstep.bio.datasets import families, proteome
from lockstep.bio.global_mean import part_of_mean
from lockstep.bio.protein_lm import (
    Batch,
    Place,
    ProteinLM,
    Settings,
    attention,
    batches,
    held,
    loss_of,
    place,
    train,
    unigram,
)
from lockstep.bio.splits import split
from lockstep.bio.tokens import drawn, encode, masked
from lockstep.experiments import markdown
from lockstep.experiments.markdown import measured, table
from lockstep.experiments.provenance import about, write
from lockstep.instruments.forked import in_a_group
from lockstep.trainer.extensions.strategies.fsdp2 import Sharded
from lockstep.trainer.model import DataParallel
from lockstep.trainer.order import GlobalOrder
from lockstep.trainer.process import Process

RESULT = Path(__file__).with_name("protein_lm.json")
SETTINGS = Settings(steps=800)
EVERY = 50  # steps, a look at the held-out families
ROUNDS = 4  # masks of each held-out protein
MESHES: dict[str, tuple[int, int, str, str]] = {
    # ranks, of a sequence, attention, strategy
    "DDP": (2, 1, "whole", "ddp"),
    "FSDP2": (2, 1, "whole", "fsdp2"),
    "ring": (2, 2, "ring", "ddp"),
    "Ulysses": (2, 2, "ulysses", "ddp"),
    "DDP x ring": (4, 2, "ring", "ddp"),
    "FSDP2 x Ulysses": (4, 2, "ulysses", "fsdp2"),
}
WRONG = {  # ranks, of a sequence, what is wrong
    "each rank's own mean, 2 x 2": (4, 2, "means"),
    "each rank's own mean, 4 a sequence": (4, 4, "means"),
    "positions from 0 on each rank": (2, 2, "positions"),
    "nothing": (4, 2, ""),
}
Found = dict[str, Any]
Proteins = list[np.ndarray]


def sides(length: int) -> tuple[Proteins, Proteins]:
    """Train and held-out proteins of `length` or more, no homologs in both."""
    whole = list(proteome().values())
    parts = split(families(), 0, {"train": 0.9, "test": 0.1})
    found = ([encode(whole[i]) for i in parts[p]] for p in parts)
    train, test = ([x for x in one if len(x) >= length] for one in found)
    return train, test


def strategy(name: str) -> DataParallel:
    """The trainer's."""
    if name == "ddp":
        return DataParallel()
    rank, world = dist.get_rank(), dist.get_world_size()
    return Sharded(Process(rank, world, torch.device("cpu")))


def run(steps: Settings, proteins: Proteins, mesh: str) -> Found:
    """A few steps of a mesh: losses, and the weights after them."""
    _, cp, attend, name = MESHES[mesh]
    losses: list[float] = []
    kind = strategy(name)

    def after(_: int, loss: float, __: torch.nn.Module) -> None:
        losses.append(loss)

    model = train(proteins, steps, place(cp), attend, kind, after)
    weights = {k: v.numpy() for k, v in kind.full_state(model).items()}
    return {"losses": losses, "weights": flat(weights)}


def flat(tensors: dict[str, np.ndarray]) -> np.ndarray:
    """One vector, whatever the prefix of the names."""
    return np.concatenate([one.ravel() for one in tensors.values()])


def alone(s: Settings, proteins: Proteins) -> Found:
    """The same on one process."""
    losses: list[float] = []
    model = train(proteins, s, after=lambda _, loss, __: losses.append(loss))
    weights = {k: v.numpy() for k, v in model.state_dict().items()}
    return {"losses": losses, "weights": flat(weights)}


def equal(s: Settings, proteins: Proteins) -> dict[str, Found]:
    """How far each mesh is from one process, by loss and by weights."""
    one, found = alone(s, proteins), {}
    for mesh, (world, *_) in MESHES.items():
        got, *_ = in_a_group(world, run, s, proteins, mesh)
        off = np.subtract(got["losses"], one["losses"])
        apart = np.linalg.norm(got["weights"] - one["weights"])
        found[mesh] = {
            "loss": float(np.abs(off / one["losses"]).max()),
            "weights": float(apart / np.linalg.norm(one["weights"])),
        }
    return found


def gradient(
    state: dict[str, Tensor], s: Settings, proteins: Proteins, cp: int, how: str
) -> tuple[float, np.ndarray, np.ndarray]:
    """The loss of a batch, its gradient, and that of queries, keys, values."""
    at = place(cp) if dist.get_world_size() > 1 else Place()
    model = ProteinLM(s, attention("ring" if cp > 1 else "whole", at))
    model.load_state_dict(state)
    wrapped = DataParallel().wrap(model, torch.device("cpu"))
    batch = next(batches(proteins, s, at, step=1000))
    if how == "positions":
        batch = batch._replace(positions=batch.positions - batch.positions[0])
    total, count = loss_of(wrapped, batch)
    part = total / count if how == "means" else part_of_mean(total, count)
    part.backward()
    mean = part_of_mean(total.detach(), count) / dist.get_world_size()
    dist.all_reduce(mean)
    grads = {n: p.grad.numpy() for n, p in model.named_parameters()}  # type: ignore[union-attr]
    turned = {n: g for n, g in grads.items() if "qkv" in n}
    return float(mean), flat(grads), flat(turned)


def errors(
    state: dict[str, Tensor], s: Settings, proteins: Proteins
) -> dict[str, Found]:
    """What each error does to one batch's loss and gradient."""
    (loss, *right), *_ = in_a_group(1, gradient, state, s, proteins, 1, "")
    found = {}
    for name, (world, cp, how) in WRONG.items():
        (mean, *got), *_ = in_a_group(
            world, gradient, state, s, proteins, cp, how
        )
        every, turned = (
            float(np.linalg.norm(a - b) / np.linalg.norm(b))
            for a, b in zip(got, right, strict=True)
        )
        found[name] = {
            "loss": abs(mean - loss) / loss,
            "gradient": every,
            "of queries, keys and values": turned,
        }
    return found


# --8<-- [start:apart]
def apart(proteins: Proteins, s: Settings) -> Iterator[Batch]:
    """Inputs as the sequence's first rank drew them, labels by a generator of
    one's own: most answers stand in the inputs."""
    order = GlobalOrder(len(proteins), s.seed)
    for step, batch in enumerate(batches(proteins, s, Place())):
        at = np.arange(step * s.batch, (step + 1) * s.batch)
        ids, epochs = order(at), at // len(proteins)
        draws = drawn(s.seed, epochs, ids, s.length)
        draws[:, 1:] = drawn(s.seed + 1, epochs, ids, s.length)[:, 1:]
        own = masked([proteins[i] for i in ids], draws, s.length)
        yield batch._replace(labels=own.labels)


# --8<-- [end:apart]
def watched(
    proteins: Proteins,
    test: Proteins,
    s: Settings,
    source: Callable[[], Iterator[Batch]] | None = None,
) -> tuple[torch.nn.Module, Found]:
    """A run, and every so many steps its losses, on train and held-out."""
    recent: list[float] = []
    rows: list[list[float]] = []

    def after(step: int, loss: float, model: torch.nn.Module) -> None:
        recent.append(loss)
        if step == 0 or not (step + 1) % EVERY:
            hidden, shown = held(model, test, s, ROUNDS).means().tolist()
            rows.append([step + 1, float(np.mean(recent[-EVERY:]))])
            rows[-1] += [hidden, shown]

    began = time.process_time()
    model = train(proteins, s, after=after, source=source and source())
    return model, {
        "rows": rows,
        "processor seconds": round(time.process_time() - began, 1),
    }


def study(s: Settings = SETTINGS, equal_steps: int = 20) -> Found:
    """All of it."""
    proteins, test = sides(s.length)
    model, curve = watched(proteins, test, s)
    base = held(unigram(proteins), test, s, ROUNDS)
    ours = held(model, test, s, ROUNDS)
    gain = base.sums[:, 0] - ours.sums[:, 0], ours.counts[:, 0]
    rng = np.random.default_rng(0)
    again = rng.integers(len(test), size=(2000, len(test)))
    spread = gain[0][again].sum(1) / gain[1][again].sum(1)
    short = replace(s, steps=s.steps // 4)
    _, leaked = watched(proteins, test, short, lambda: apart(proteins, short))
    low, high = np.quantile(spread, (0.025, 0.975)).tolist()
    return {
        "proteins": {"train": len(proteins), "held out": len(test)},
        "parameters": sum(p.numel() for p in model.parameters()),
        "unigram": base.means().tolist(),
        "held out": ours.means().tolist(),
        "counts": ours.counts.sum(0).tolist(),
        "gain": [float(gain[0].sum() / gain[1].sum()), low, high],
        "curve": curve,
        "apart": leaked,
        "equal": equal(replace(s, steps=equal_steps), proteins),
        "errors": errors(model.state_dict(), s, proteins),
    }


def main(
    s: Settings = SETTINGS, equal_steps: int = 20, result: Path = RESULT
) -> int:
    """Run and write."""
    torch.set_num_threads(1)
    how = {**asdict(s), "steps compared": equal_steps, "rounds": ROUNDS}
    write({**about(), "settings": how, **study(s, equal_steps)}, result)
    return render(result)


def render(result: Path = RESULT) -> int:
    """Write the tables of a result anew."""
    return markdown.render(result, losses, meshes, wrong, machine)


def losses(found: Found) -> str:
    """Held-out families: of all asked, of the hidden, of those in sight."""
    counts = np.array(found["counts"])

    def row(name: str, means: list[float]) -> list[str]:
        every = float(counts @ means / counts.sum())
        return [name, *(f"{x:.3f}" for x in (every, *means))]

    return table(
        ["nats a residue", "all asked", "hidden", "in sight"],
        [row("unigram", found["unigram"]), row("model", found["held out"])],
    )


def meshes(found: Found) -> str:
    """A row a mesh."""
    return table(
        ["mesh", "ranks", "loss off by", "weights off by"],
        (
            [mesh, f"{MESHES[mesh][0]}", *map(share, x.values())]
            for mesh, x in found["equal"].items()
        ),
    )


def wrong(found: Found) -> str:
    """A row an error."""
    return table(
        ["wrong", "loss off by", "gradient", "of Q, K, V"],
        (
            [name, *map(share, x.values())]
            for name, x in found["errors"].items()
        ),
    )


def share(x: float) -> str:
    """A percentage, or a power of ten."""
    if not x:
        return "0"
    return f"{x:.1%}".replace("%", " %") if x > 1e-4 else f"{x:.0e}"


def machine(found: Found) -> str:
    """Where, when and with what."""
    how = found["settings"]
    return measured(
        found,
        Model=f"{how['layers']} layers of {how['hidden']},"
        f" {found['parameters']:,} parameters, float32",
        Data=f"{found['proteins']['train']:,} proteins to train,"
        f" {found['proteins']['held out']} held out, crops of"
        f" {how['length']}",
        Run=f"{how['steps']} steps of {how['batch']} crops,"
        f" {found['curve']['processor seconds']:.0f} s of one core",
    )


if __name__ == "__main__":
    sys.exit(main())
