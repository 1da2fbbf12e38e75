"""Which arm finds what is best, and what each score of a loop says of it.

    python -m lockstep.experiments.studies.design_loop

Campaigns on 100,000 double mutants of protein G's domain B1, whose data are
fetched on first use. A few minutes.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from lockstep.bio.datasets import gb1
from lockstep.bio.design_loop import ARMS, Assay, Loop, consensus, mutations
from lockstep.experiments import markdown
from lockstep.experiments.markdown import measured, table
from lockstep.experiments.provenance import about, write

RESULT = Path(__file__).with_name("design_loop.json")
POOL, SEEDS = 100_000, 5
ASSAYS = {
    "steady": Assay(),
    "drifts, corrected": Assay(drift=1.0),
    "drifts, as read": Assay(drift=1.0, corrected=False),
}
Found = dict[str, Any]


def study(pool: int, seeds: int, loop: Loop) -> Found:
    """Every arm with every assay: its rounds, one list a seed."""
    data = gb1()
    rng = np.random.default_rng(0)
    rows = rng.choice(len(data.sequences), pool, replace=False)
    sequences = [data.sequences[row] for row in rows]
    x = mutations(sequences, consensus(sequences))
    truth = data.fitness[rows].astype("f8")
    return {
        name: {
            arm: [
                [asdict(one) for one in loop.run(arm, x, truth, assay, seed)]
                for seed in range(seeds)
            ]
            for arm in ARMS
        }
        for name, assay in ASSAYS.items()
    }


def run(result: Path = RESULT) -> int:
    """The study, written down."""
    loop = Loop()
    how = {"pool": POOL, "seeds": SEEDS, **asdict(loop)}
    found = {**about(), "settings": how}
    write(found | {"assays": study(POOL, SEEDS, loop)}, result)
    return render(result)


def render(result: Path = RESULT) -> int:
    """Write the tables of a result anew."""
    return markdown.render(result, hits, scores, shift, machine)


def last(campaigns: list[list[Found]], what: str) -> tuple[float, float]:
    """Mean and standard deviation over seeds, at the last plate."""
    values = [rounds[-1][what] for rounds in campaigns]
    return float(np.mean(values)), float(np.std(values))


def hits(found: Found) -> str:
    """How many of the best each arm has found by each plate."""
    plates = found["settings"]["rounds"]
    rows = []
    for arm, campaigns in found["assays"]["steady"].items():
        counts = np.array([[one["hits"] for one in c] for c in campaigns])
        spread = f" ± {counts[:, -1].std():.0f}"
        means = [f"{mean:.0f}" for mean in counts.mean(0)]
        rows.append([arm, *means[:-1], means[-1] + spread])
    head = [f"plate {n}" for n in range(1, plates + 1)]
    return table(["hits by", *head], rows)


def scores(found: Found) -> str:
    """The last plate's correlations, where the assay is steady."""
    names = "picked", "held", "unseen"
    return table(
        ["Spearman on", "the arm's picks", "random wells", "all that is left"],
        (
            [arm, *("{:.2f} ± {:.2f}".format(*last(c, n)) for n in names)]
            for arm, c in found["assays"]["steady"].items()
        ),
    )


def shift(found: Found) -> str:
    """What an assay that drifts does to hits and to the mean readout."""
    rows = []
    for name, arms in found["assays"].items():
        for arm, campaigns in arms.items():
            told = [f"{last(campaigns, w)[0]:.2f}" for w in ("read", "true")]
            count = "{:.0f} ± {:.0f}".format(*last(campaigns, "hits"))
            rows.append([name, arm, *told, count])
    head = ["assay", "arm", "last plate reads", "and is", "hits"]
    return table(head, rows)


def machine(found: Found) -> str:
    """Where, when and with what this was run, and how often."""
    how = found["settings"]
    return measured(
        found,
        Campaigns=f"{how['seeds']} seeds; {how['rounds']} plates of"
        f" {how['wells']} wells, {how['controls']} of them with the wild type"
        f" and {how['held']} with random variants; a pool of"
        f" {how['pool']:,}; hits are its best {how['top']:,}",
    )


if __name__ == "__main__":
    sys.exit(run())
