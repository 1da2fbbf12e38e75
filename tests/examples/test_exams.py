"""The adapters by which both examples pass the exam of resume."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lockstep.exam.adapter import Launch, load
from lockstep.exam.env_vars import SAMPLES, VARIANT
from lockstep.exam.examine import examine
from lockstep.examples import gpt, gpt_exam, protein_exam
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.model import Task
from tests.conftest import daily

FOLDER = Path(gpt.__file__).parent
ADAPTERS = [FOLDER / "gpt_exam.py", FOLDER / "protein_exam.py"]


@pytest.mark.parametrize("path", ADAPTERS, ids=lambda path: path.stem)
def test_a_launch_says_what_to_train(path: Path, tmp_path: Path) -> None:
    launch = Launch(tmp_path / "run", stop_at=3)
    words = load(path).command(launch)
    assert f"lockstep.examples.{path.stem}:task" in words
    assert words[words.index("--stop-at-step") + 1] == "3"
    assert "--stop-at-step" not in load(path).command(
        replace(launch, stop_at=None)
    )
    assert load(path).checkpoints(tmp_path) == []


def asked(which: str, n: int, variant: int, tokens: Path) -> Task:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SAMPLES, str(n))
        patch.setenv(VARIANT, str(variant))
        patch.setenv(gpt.TOKENS, str(tokens))
        cfg = TrainConfig(tokens.parent, hidden_size=8)
        return (gpt_exam if which == "gpt" else protein_exam).task(cfg)


@pytest.mark.parametrize("which", ["gpt", "protein"])
def test_the_exam_gets_the_samples_that_it_asks_for(
    which: str, tmp_path: Path
) -> None:
    """As many, no two of them alike, and others for another variant."""
    load(ADAPTERS[0]).command(Launch(tmp_path / "run"))
    one, two = (asked(which, 101, k, tmp_path / "tokens.bin") for k in (0, 1))
    ids = np.arange(101)
    _, x, _ = one.data[np.stack([0 * ids, ids])]
    _, other, _ = two.data[np.stack([0 * ids, ids])]
    assert len(one.data) == len(two.data) == 101
    rows = {tuple(row.tolist()) for row in x}
    assert len(rows) == 101
    # A number is the same in both, but not what follows it.
    assert not rows & {tuple(row.tolist()) for row in other}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "path", daily(ADAPTERS, ADAPTERS[0]), ids=lambda path: path.stem
)
def test_it_goes_on_exactly(path: Path, tmp_path: Path, warm: Path) -> None:
    """The exam's questions about a stop in the middle of an epoch, on real
    processes. (`lockstep exam` asks the others.)"""
    launch = Launch(tmp_path / "run", python=str(warm / "python"))
    only = frozenset({"exactly-once", "order", "final-weights"})
    found = examine(load(path), tmp_path, launch, only)
    assert found.count("failed") == 0, found.as_json()
    for name in only:
        assert found.results[name].verdict.answer == "passed", name
