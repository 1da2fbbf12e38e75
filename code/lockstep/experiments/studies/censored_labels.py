"""Labels that are a limit: left out, taken for values, or used as limits.

    python -m lockstep.experiments.studies.censored_labels

An assay is played that reads no potency below a pKi of 6: weaker molecules get
"at most 6", and the truth about them is kept for the score. Three targets of
ChEMBL, five splits of each. Some minutes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lockstep.bio.datasets import chembl
from lockstep.bio.labels import bounded, masked_loss
from lockstep.bio.splits import by_molecule, split
from lockstep.experiments import markdown
from lockstep.experiments.markdown import measured, table
from lockstep.experiments.provenance import about, write
from lockstep.experiments.studies.sparse_labels import features, network
from lockstep.trainer.order import GlobalOrder

RESULT = Path(__file__).with_name("censored_labels.json")
TARGETS = {
    "CHEMBL204_Ki": "thrombin",
    "CHEMBL214_Ki": "5-HT1A receptor",
    "CHEMBL244_Ki": "factor Xa",
}
LIMIT, SEEDS, EPOCHS, BATCH = 6.0, 5, 15, 64
WAYS = {
    "left out": "left out",
    "value": "taken for 6",
    "limit": "at most 6",
    "flipped": "at least 6",
    "truth": "*had all been measured*",
}
Found = dict[str, Any]


def labels(way: str, truth: Tensor) -> tuple[Tensor, Tensor]:
    """What is trained on, float [molecules], and each label's relation."""
    weak = truth < LIMIT
    if way == "left out":
        return truth.where(~weak, torch.nan), torch.zeros_like(truth)
    if way == "truth":
        return truth, torch.zeros_like(truth)
    relation = {"value": 0, "limit": -1, "flipped": 1}[way]
    return truth.clamp(min=LIMIT), relation * weak


def trained(
    way: str, x: Tensor, truth: Tensor, seed: int, epochs: int
) -> nn.Module:
    """A network that saw `x` and the labels of that way."""
    values, relations = labels(way, truth)
    rows = torch.nonzero(~values.isnan()).flatten()
    model = network(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    turns = GlobalOrder(len(rows), seed)(np.arange(epochs * len(rows)))
    for part in torch.from_numpy(turns.astype("i8")).split(BATCH):
        ids = rows[part]
        predicted = model(x[ids])[:, 0]
        wanted = bounded(predicted, values[ids], relations[ids])
        optimizer.zero_grad()
        masked_loss(predicted, wanted).backward()
        optimizer.step()
    return model


def scores(guess: Tensor, truth: Tensor) -> dict[str, float]:
    """Errors where the assay reads and below its limit, and limits broken."""
    weak = truth < LIMIT
    errors = (guess - truth) ** 2
    return {
        "measured": float(errors[~weak].mean().sqrt()),
        "below": float(errors[weak].mean().sqrt()),
        "broken": float((guess[weak] > LIMIT).float().mean()),
    }


def study(seeds: int, epochs: int) -> Found:
    """By target and way, the scores of each seed's test molecules."""
    found: Found = {}
    for target in TARGETS:
        column = chembl().column(target)
        ids = np.flatnonzero(~np.isnan(column))
        x, truth = features(ids), torch.from_numpy(column[ids])
        names = by_molecule([chembl().smiles[row] for row in ids])
        scored: Found = {way: [] for way in WAYS}
        for seed in range(seeds):
            side = split(names, seed)
            train, test = side["train"], side["test"]
            for way, each in scored.items():
                model = trained(way, x[train], truth[train], seed, epochs)
                with torch.no_grad():
                    guess = model(x[test])[:, 0]
                each.append(scores(guess, truth[test]))
        found[target] = {
            "molecules": len(ids),
            "below": int((truth < LIMIT).sum()),
            "ways": scored,
        }
    return found


def run(seeds: int = SEEDS, epochs: int = EPOCHS, result: Path = RESULT) -> int:
    """The study, written down."""
    torch.set_num_threads(1)
    found: Found = {
        **about(),
        "settings": {"limit": LIMIT, "seeds": seeds, "epochs": epochs},
        "targets": study(seeds, epochs),
    }
    write(found, result)
    return render(result)


def render(result: Path = RESULT) -> int:
    """Write the tables of a result anew."""
    return markdown.render(result, ways, machine)


def mean(found: Found, way: str, what: str, *targets: str) -> float:
    """Over the seeds of those targets, or of all."""
    each = [found["targets"][name] for name in targets or found["targets"]]
    scored = [seed[what] for one in each for seed in one["ways"][way]]
    return float(np.mean(scored))


def ways(found: Found) -> str:
    """A row for each way: means over the seeds of all targets."""
    return table(
        [
            "a weak molecule's label",
            "RMSE, the others",
            "RMSE, the weak",
            "limits broken",
        ],
        (
            [
                label,
                f"{mean(found, way, 'measured'):.2f}",
                f"{mean(found, way, 'below'):.2f}",
                f"{mean(found, way, 'broken'):.0%}",
            ]
            for way, label in WAYS.items()
        ),
    )


def machine(found: Found) -> str:
    """Where, when and with what this was measured."""
    how = found["settings"]
    data = [
        f"{name} ({found['targets'][target]['molecules']} molecules,"
        f" {found['targets'][target]['below']} of them weak)"
        for target, name in TARGETS.items()
    ]
    return measured(
        found,
        Data=f"ChEMBL's pKi of {', '.join(data)}",
        Model=f"a perceptron on counts of Morgan environments,"
        f" {how['epochs']} epochs, {how['seeds']} splits by molecule",
    )


if __name__ == "__main__":
    sys.exit(run())
