"""Our parts beside torch's: a small run, and the one that is committed."""

import json
from pathlib import Path

import pytest

from lockstep.experiments.benchmarks import labs_vs_torch
from tests import ranks

FOUND = json.loads(labs_vs_torch.RESULT.read_text())


def test_a_small_run_compares_every_pair(tmp_path: Path) -> None:
    result = tmp_path / "labs_vs_torch.json"
    settings = labs_vs_torch.Settings(rounds=2, steps=1)
    assert ranks.run_ranks(1, labs_vs_torch.run, settings, result) == [0]
    found = json.loads(result.read_text())
    assert set(found["pairs"]) == set(labs_vs_torch.PAIRS)
    for one in found["pairs"].values():
        assert one["cpu"]["median"] > 0
    text = result.with_suffix(".md").read_text()
    assert text.count("\n| ") == len(labs_vs_torch.PAIRS) + 2


def test_one_round_has_no_quartiles(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="--rounds must be at least 2"):
        labs_vs_torch.run(
            labs_vs_torch.Settings(rounds=1), tmp_path / "labs_vs_torch.json"
        )


@pytest.mark.parametrize("name", labs_vs_torch.PAIRS)
def test_a_part_does_and_sends_what_torchs_does(name: str) -> None:
    one = FOUND["pairs"][name]
    # Sums in another order: a last bit, of the largest number.
    assert one["difference"] <= (1e-6 if name == "tensor parallel" else 0)
    ours, theirs = one["bytes"]
    assert ours == pytest.approx(theirs, rel=0.01)


def test_the_result_is_of_a_revision() -> None:
    assert "dirty" not in FOUND["revision"]
