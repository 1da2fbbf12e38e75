"""Resume is bitwise: stopped anywhere, a run ends with the same weights."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from lockstep.trainer.extensions.audit import audit
from lockstep.trainer.extensions.record import SampleRecord
from tests import ranks
from tests.conftest import daily
from tests.jobs import work
from tests.rank_faults import after_commit

# 1,437 training samples in batches of 64: an epoch ends within step 23, after
# 29 of its samples, and never at a step's end.
SHORT: dict[str, Any] = {
    "global_batch_size": 64,
    "max_steps": 40,
    "checkpoint_every_steps": 16,
    "hidden_size": 32,
    "timeout_seconds": 30.0,
}


def train(world: int, run_dir: Path, **settings: Any) -> dict[str, Any]:
    """The last event of a run on `world` ranks, the same on all of them."""
    settings = SHORT | {"micro_batch_size": 64 // world} | settings
    last = ranks.run_ranks(world, work, {"run_dir": run_dir} | settings)
    kept = "step", "position", "loss", "accuracy", "weights_sha256"
    ends = [{name: event[name] for name in kept} for event in last]
    assert all(end == ends[0] for end in ends)
    return ends[0]


# Every pair of choices once.
EVERY = [
    *((1, 0, "fp32"), (2, 2, "fp32"), (4, 0, "fp32")),
    *((1, 2, "bf16"), (2, 0, "bf16"), (4, 2, "bf16")),
]


@pytest.mark.parametrize(
    ("world", "workers", "precision"), daily(EVERY, (2, 2, "fp32"))
)
def test_resume_is_bitwise(
    world: int, workers: int, precision: str, tmp_path: Path
) -> None:
    """Stopped twice within an epoch and once at its boundary, then killed, all
    ranks by SIGKILL between two checkpoints: one run, five launches."""
    same = {"num_workers": workers, "precision": precision}
    whole = train(world, tmp_path / "whole", **same)
    run_dir = tmp_path / "disturbed"
    for stop in (5, 11, 23):
        assert train(world, run_dir, stop_at_step=stop, **same)["step"] == stop
    killed = SHORT | {"micro_batch_size": 64 // world} | same
    job = ranks.Ranks(world, die_at_step_27, killed | {"run_dir": run_dir})
    with pytest.raises(ranks.RankError, match=r"rank \d died"):
        job.results()
    assert train(world, run_dir, **same) == whole
    report = audit(run_dir)
    assert report.proven
    assert (report.restarts, report.replayed_steps) == (4, 27 - 23)


def die_at_step_27(settings: dict[str, Any]) -> None:
    """`launch`, until every rank has written down step 27 and is killed."""

    def die(record: SampleRecord) -> None:
        record.file.flush()
        dist.barrier()  # a rank that sees another one die would raise
        os.kill(os.getpid(), signal.SIGKILL)

    after_commit(27, die)
    work(settings)


@pytest.mark.parametrize("world", daily([1, 2, 4], 2))
def test_fp16_resume_is_bitwise(world: int, tmp_path: Path) -> None:
    """The scaler's scale and growth survive as well."""
    whole = train(world, tmp_path / "whole", precision="fp16")
    train(world, tmp_path / "stopped", precision="fp16", stop_at_step=9)
    assert train(world, tmp_path / "stopped", precision="fp16") == whole


def test_accumulation_resumes_bitwise(tmp_path: Path) -> None:
    """DDP's first backward pass that communicates comes late in the step."""
    same = {"micro_batch_size": 8, "grad_accum_steps": 2}
    whole = train(4, tmp_path / "whole", **same)
    train(4, tmp_path / "stopped", stop_at_step=3, **same)
    assert train(4, tmp_path / "stopped", **same) == whole


def test_stop_at_an_epochs_very_end_resumes_bitwise(tmp_path: Path) -> None:
    """A global batch that divides the 1,437 samples: epochs end with steps."""
    same = {"global_batch_size": 3, "micro_batch_size": 3, "max_steps": 485}
    same |= {"checkpoint_every_steps": 1000, "log_every_steps": 100}
    whole = train(1, tmp_path / "whole", **same)
    train(1, tmp_path / "stopped", stop_at_step=479, **same)
    assert train(1, tmp_path / "stopped", **same) == whole


def test_the_warm_up_pass_is_what_makes_four_ranks_bitwise(
    tmp_path: Path,
) -> None:
    """Without it DDP's buckets differ on the first step after a resume."""
    whole = train(4, tmp_path / "whole")
    stopped = {"run_dir": tmp_path / "stopped"} | SHORT
    stopped |= {"micro_batch_size": 16}
    ranks.run_ranks(4, work_without_warm_up, stopped | {"stop_at_step": 7})
    last = ranks.run_ranks(4, work_without_warm_up, stopped)
    assert last[0]["weights_sha256"] != whole["weights_sha256"]


def work_without_warm_up(settings: dict[str, Any]) -> dict[str, Any]:
    """`launch`, whose discarded backward pass does nothing."""
    backward = torch.Tensor.backward
    passes = iter(range(10**9))

    def skip_the_first(self: torch.Tensor) -> None:
        if next(passes) > 0:
            backward(self)

    torch.Tensor.backward = skip_the_first  # type: ignore[assignment]
    return work(settings)


def test_finished_run_says_so_again(tmp_path: Path) -> None:
    """Launched again, or asked to stop at a step long passed, it only looks."""
    whole = train(2, tmp_path)
    before = sorted((tmp_path / "checkpoints").iterdir())
    assert train(2, tmp_path) == whole
    assert train(2, tmp_path, stop_at_step=3) == whole
    assert sorted((tmp_path / "checkpoints").iterdir()) == before
