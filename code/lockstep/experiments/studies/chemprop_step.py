"""chemprop's own training step on two ranks: its gradient against one process.

    make chemprop

chemprop 2.3.1 needs another RDKit than the one pinned here, so it has a folder
of its own; the result lies beside this file. Each step's molecules are dealt to
two ranks, whose losses come from chemprop's `MPNN.training_step` inside DDP, as
Lightning runs it. One process then takes the same step on all of them.
"""

from __future__ import annotations

import statistics
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lockstep.experiments import markdown
from lockstep.experiments.markdown import measured, table
from lockstep.experiments.provenance import about, write
from lockstep.experiments.studies import sparse_labels
from lockstep.instruments.forked import in_a_group
from lockstep.trainer.order import GlobalOrder

RESULT = Path(__file__).with_name("chemprop_step.json")
RANKS, BATCH, STEPS = 2, 64, 60  # molecules of a rank: chemprop's default
FILLS = 1.0, 0.1
Found = dict[str, Any]
SAID = {
    "as given": "gradient of its step",
    "by global count": "gradient by global count",
    "as logged": "loss that it logs",
}


def network() -> Any:
    """chemprop's network as it comes, for all tasks."""
    models, parts = (
        import_module("chemprop.models"),
        import_module("chemprop.nn"),
    )

    torch.manual_seed(0)
    tasks = sparse_labels.values().shape[1]
    return models.MPNN(
        parts.BondMessagePassing(),
        parts.MeanAggregation(),
        parts.RegressionFFN(n_tasks=tasks),
    )


def rows_of(step: int) -> np.ndarray:
    """A step's molecules, all ranks'."""
    order = GlobalOrder(len(sparse_labels.values()), seed=0)
    return order(np.arange(step * RANKS * BATCH, (step + 1) * RANKS * BATCH))


def batch_of(rows: np.ndarray, kept: float) -> Any:
    """As chemprop's loader makes it; each task has mean 0 and deviation 1, as
    its command line has it."""
    data = import_module("chemprop.data")
    full = sparse_labels.values()
    labels = full.numpy()
    scaled = (labels - np.nanmean(labels, 0)) / np.nanstd(labels, 0)
    scaled[sparse_labels.values(kept).isnan().numpy()] = np.nan
    smiles = sparse_labels.chembl().smiles
    own = zip(rows, sparse_labels.labeled()[rows], strict=True)
    dataset = data.MoleculeDataset(
        [
            data.MoleculeDatapoint.from_smi(smiles[at], y=scaled[row])
            for row, at in own
        ]
    )
    return data.collate_batch([dataset[i] for i in range(len(dataset))])


class AsGiven(nn.Module):
    """chemprop's step as a forward pass, which is how Lightning lets DDP see
    it."""

    def __init__(self) -> None:
        super().__init__()
        self.model = network()

    def forward(self, batch: Any) -> Tensor:
        """Its loss."""
        # A metric adds up: without this it keeps the last step's graph.
        self.model.criterion.reset()
        return self.model.training_step(batch, 0)


class ByGlobalCount(AsGiven):
    """The same loss, by the count of labels on all ranks."""

    def forward(self, batch: Any) -> Tensor:
        """Its loss, times its share of the labels, times the ranks."""
        own = batch.Y.isfinite().sum()
        everywhere = own.clone()
        dist.all_reduce(everywhere)
        if not own:  # its own loss is 0 / 0
            touched = torch.stack([p.sum() for p in self.parameters()])
            return 0 * touched.sum()
        share = own / everywhere
        return super().forward(batch) * share * dist.get_world_size()


def gradient(step: nn.Module, batch: Any) -> Tensor:
    """Float32 [parameters]."""
    step.zero_grad()
    step(batch).backward()
    grads = [p.grad for p in step.parameters() if p.grad is not None]
    return torch.cat([grad.flatten() for grad in grads])


def own_steps(kept: float, steps: int) -> list[list[float]]:
    """What a rank finds of each step, relative to one process: how far off both
    gradients are, and the loss that chemprop logs. NaN where that comes out."""
    torch.set_num_threads(1)
    given, mended = AsGiven(), ByGlobalCount()
    alone = AsGiven()
    both = DistributedDataParallel(given), DistributedDataParallel(mended)
    found = []
    for step in range(steps):
        rows = rows_of(step)
        own = batch_of(rows[dist.get_rank() :: RANKS], kept)
        right = gradient(alone, batch_of(rows, kept))
        errors = [
            float((gradient(one, own) - right).norm() / right.norm())
            for one in both
        ]
        # Its metric is over all ranks: sums of losses and of labels travel.
        logged, loss = (
            float(one.model.criterion.compute()) for one in (given, alone)
        )
        found.append([*errors, abs(logged - loss) / loss])
    return found


def compare(steps: int) -> Found:
    """By fill: medians, and how many steps are NaN."""
    found = {}
    for kept in FILLS:
        errors = np.array(in_a_group(RANKS, own_steps, kept, steps)[0])
        filled = float((~sparse_labels.values(kept).isnan()).float().mean())
        found[f"{filled:.2%}"] = {
            "as given": summary(errors[:, 0]),
            "by global count": summary(errors[:, 1]),
            "as logged": summary(errors[:, 2]),
        }
    return found


def summary(errors: np.ndarray) -> dict[str, float]:
    """Of the steps that are numbers, and of those that are not."""
    numbers = errors[~np.isnan(errors)].tolist()
    return {
        "median": statistics.median(numbers),
        "most": max(numbers),
        "nan": len(errors) - len(numbers),
    }


def run(steps: int = STEPS, result: Path = RESULT) -> int:
    """Compare, and write what was found."""
    found = about()
    versions = found["versions"]
    assert isinstance(versions, dict)
    for unused in "accelerate", "lightning-fabric", "torchdata":
        versions.pop(unused, None)
    versions["chemprop"] = import_module("chemprop").__version__
    versions["RDKit"] = import_module("rdkit").__version__
    settings = {"ranks": RANKS, "batch": BATCH, "steps": steps}
    write(found | {"settings": settings, "fills": compare(steps)}, result)
    return render(result)


def render(result: Path = RESULT) -> int:
    """Write the tables of a result anew."""
    return markdown.render(result, steps, machine)


def steps(found: Found) -> str:
    """A row for each fill and way."""
    rows = []
    for fill, ways in found["fills"].items():
        for name, one in ways.items():
            errors = percent(one["median"]), percent(one["most"])
            rows.append([fill, SAID[name], *errors, str(one["nan"])])
    return table(["filled", "what", "median error", "largest", "NaN"], rows)


def percent(share: float) -> str:
    """Rounding is not a percentage."""
    return f"{share:.1%}" if share > 1e-4 else "rounding"


def machine(found: Found) -> str:
    """Where, when and with what this was measured."""
    how = found["settings"]
    return measured(
        found,
        Batch=f"{how['batch']} molecules on each of {how['ranks']} ranks",
        Repeated=f"{how['steps']} steps, the network as it begins",
    )


if __name__ == "__main__":
    sys.exit(run())
