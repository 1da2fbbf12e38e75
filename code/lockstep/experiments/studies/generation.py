"""Four ranks draw molecules, and say how many are new.

    python -m lockstep.experiments.studies.generation

The generator learns from ligands of two Janus kinases, JAK1 and JAK2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.distributed as dist
from rdkit import rdBase

from lockstep.bio.datasets import chembl
from lockstep.bio.generation import Chain, counts
from lockstep.bio.leakage import NEAR
from lockstep.bio.molecules import (
    canonical,
    fingerprints,
    parse,
    tanimoto,
)
from lockstep.instruments.forked import in_a_group

TARGETS = "CHEMBL2835_Ki", "CHEMBL2971_Ki"
WORLD, EACH = 4, 500


def learned() -> list[str]:
    """SMILES of the training set, each once."""
    return sorted({one for target in TARGETS for one in chembl().of(target)[0]})


def molecule(smiles: str) -> str | None:
    """Its canonical SMILES, if it is one."""
    try:
        return canonical(parse(smiles))
    except ValueError:
        return None


# --8<-- [start:claims]
def claims(data: Sequence[str]) -> list[tuple[str, str]]:
    """What one run may be made to say, by the rank that is asked."""
    rank, world = dist.get_rank(), dist.get_world_size()
    chain = Chain(data)
    same = [chain.draw(0, n) for n in range(EACH)]  # every rank's seed is 0
    own = [chain.draw(0, n) for n in range(rank, world * EACH, world)]
    alone = dist.new_group([rank], use_local_synchronization=True)
    shard = data[rank::world]

    def said(drawn: list[str], known: Sequence[str], **group: Any) -> str:
        names = [molecule(one) for one in drawn]
        return str(counts(names, filter(None, map(molecule, known)), **group))

    return [
        ("one seed, this rank", said(same, data, group=alone)),
        ("one seed, all ranks", said(same, shard)),
        ("own draws, own shard", said(own, shard, group=alone)),
        ("own draws, all ranks", said(own, shard)),
    ]


# --8<-- [end:claims]
def near(data: Sequence[str]) -> float:
    """Of all ranks' new molecules, the share with a training molecule that is
    as similar as the audit of splits calls near."""
    chain = Chain(data)
    drawn = (molecule(chain.draw(0, n)) for n in range(WORLD * EACH))
    known = {canonical(parse(one)) for one in data}
    new = sorted({one for one in drawn if one} - known)
    own, train = (
        fingerprints([parse(one) for one in each]) for each in (new, known)
    )
    return float((tanimoto(own, train).max(axis=1) >= NEAR).mean())


def main() -> None:
    """A line a claim, as rank 0 has it."""
    data = learned()
    with rdBase.BlockLogs():
        first, *_ = in_a_group(WORLD, claims, data)
    for who, what in first:
        print(f"{who:<22} {what}")
    print(f"of the novel, {near(data):.3f} have a neighbor above {NEAR}")


if __name__ == "__main__":
    main()
