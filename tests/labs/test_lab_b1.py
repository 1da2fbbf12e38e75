"""Lab B1's solution: parts, what is refused, and an audit as of one process."""

from typing import Any

import numpy as np
import pytest
import torch

from lockstep.bio import molecules
from lockstep.labs.lab_b1_split import sound
from lockstep.trainer.process import joined
from tests import ranks

SHARES = {"train": 0.8, "test": 0.2}
BITS = torch.rand(20, 64, generator=torch.Generator().manual_seed(0)) < 0.3
OWN = [slice(0, 4), slice(4, 15)]


def test_a_side_is_a_function_of_name_and_seed() -> None:
    names = [f"scaffold {number}" for number in range(2000)]
    found = [sound.side(one, 0, SHARES, {}) for one in names]
    # Written down: a run that goes on tomorrow has to find the same.
    assert "".join(one[1] for one in found[:12]) == "rrrrrerrrrrr"
    assert found.count("test") / len(found) == pytest.approx(0.2, abs=0.03)
    assert sound.side(names[0], 0, SHARES, {names[0]: "test"}) == "test"
    # The shares' sum may be rounded down: the last part has the rest.
    assert sound.side(names[0], 0, {"train": 0.0, "test": 0.0}, {}) == "test"


def parts(large: int) -> Any:
    with joined(20, ranks.store()) as me:
        keys = [f"C{me.rank}{n}" for n in range(40)]
        own = [f"s{me.rank}{n}" for n in range(40 - large)] + ["big"] * large
        own[0] = ""
        try:
            return sound.split(keys, own, 0, SHARES, {})
        except ValueError as error:
            return str(error)


def test_a_large_group_is_refused_on_each_rank() -> None:
    first, second = ranks.run_ranks(2, parts, 8)
    assert {*first, *second} == {*SHARES}
    assert len({*first[-8:], *second[-8:]}) == 1
    said = "scaffold big has 18 of 80 rows: pin it"
    assert ranks.run_ranks(2, parts, 9) == [said, said]


def audited() -> Any:
    with joined(20, ranks.store()) as me:
        train = BITS[15:] if me.rank else BITS[15:15]
        near = sound.nearest(BITS[OWN[me.rank]], train)
        none = sound.nearest(BITS[:2], BITS[:0])
        found = sound.audit(near, 0.3)
        with pytest.raises(ValueError, match="no rank has a test molecule"):
            sound.audit(near[:0], 0.3)
        return near.tolist(), found, none.tolist()


def test_an_audit_is_that_of_one_process() -> None:
    packed = np.packbits(BITS.numpy(), axis=1)
    right = molecules.tanimoto(packed[:15], packed[15:]).max(axis=1)
    results = ranks.run_ranks(2, audited)
    found = [one for near, _, _ in results for one in near]
    assert found == pytest.approx(right.tolist())
    for _, audit, none in results:
        assert none == [0, 0]
        assert audit == {
            "molecules": 15,
            "near": pytest.approx((right >= 0.3).mean()),
            "median": pytest.approx(np.median(right)),
        }
