"""Which run this is, and where: defects 4, 5 and 12, and that we lack them."""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from lockstep.exercises.silent import d05_digest_holds_the_rank as d05
from lockstep.exercises.silent import d12_nccl_by_default as d12
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.process import joined
from tests import ranks

ROOT = Path(__file__).parents[3]

# 4: the digest is equal in every process


def check_digest_is_equal_in_every_process(module: str, digest: str) -> None:
    """`digest` is evaluated in an interpreter that imported from `module`."""
    code = f"from pathlib import Path; from {module} import TrainConfig"
    code += f"; print({digest})"
    digests = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": salt},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for salt in ("0", "1", "2")
    ]
    assert len(set(digests)) == 1, f"{len(set(digests))} digests of one config"


def test_digest_is_equal_in_every_process() -> None:
    """The digest of the trainer's settings is the same in processes with
    different hash seeds."""
    check_digest_is_equal_in_every_process(
        "lockstep.trainer.config", "TrainConfig(Path('run'), seed=3).digest()"
    )


def test_digest_by_salted_hash_is_another_in_every_process() -> None:
    module = "lockstep.exercises.silent.d04_digest_by_salted_hash"
    with pytest.raises(AssertionError, match="3 digests of one config"):
        check_digest_is_equal_in_every_process(
            module, "TrainConfig(seed=3).digest()"
        )


def test_digest_tells_runs_apart() -> None:
    """A digest that is always equal would hold the properties above."""
    digests = {TrainConfig(Path("run"), seed=seed).digest() for seed in (0, 1)}
    assert len(digests) == 2


# 5: the digest is equal on every rank


def check_digest_is_equal_on_every_rank(digest: Callable[[], str]) -> None:
    digests = ranks.run_ranks(2, digest)
    assert digests[0] == digests[1], "the digest differs by rank"


def digest_of_lockstep() -> str:
    """Of the configuration as a launch fills it in."""
    with joined(30, ranks.store()) as me:
        return TrainConfig(Path("run")).for_launch(me.world_size, {}).digest()


def digest_with_rank() -> str:
    return d05.TrainConfig().digest()


def test_digest_is_equal_on_every_rank() -> None:
    """The digest of the trainer's settings is the same on every rank."""
    check_digest_is_equal_on_every_rank(digest_of_lockstep)


def test_digest_that_holds_the_rank_differs_by_rank() -> None:
    with pytest.raises(AssertionError, match="the digest differs by rank"):
        check_digest_is_equal_on_every_rank(digest_with_rank)


# 12: what is there is used, with nothing asked for


def check_default_backend_runs_here(join: Callable[[], Any]) -> None:
    """On two ranks; `join` says what they counted, or why they could not."""
    assert ranks.run_ranks(2, join) == [2.0, 2.0]


def ranks_counted() -> float:
    """By an all-reduce, on the device that a run would take."""
    here = "cuda" if torch.cuda.is_available() else "cpu"
    dist.all_reduce(one := torch.ones((), device=here))
    return one.item()


def join_as_lockstep() -> float:
    with joined(30, ranks.store()):
        return ranks_counted()


def join_as_the_copy(cfg: d12.DistConfig) -> float | str:
    try:
        d12.setup_distributed(cfg, ranks.store())
    except (RuntimeError, ValueError) as error:
        return str(error)
    return ranks_counted()


@pytest.mark.skipif(
    torch.cuda.device_count() == 1, reason="two ranks need two GPUs, or none"
)
def test_default_backend_runs_here() -> None:
    """The trainer picks a backend that runs on this machine's devices."""
    check_default_backend_runs_here(join_as_lockstep)


@pytest.mark.skipif(torch.cuda.is_available(), reason="NCCL has a GPU here")
def test_nccl_by_default_runs_nothing_without_a_gpu() -> None:
    asked = partial(join_as_the_copy, d12.DistConfig("gloo"))
    check_default_backend_runs_here(asked)
    by_default = partial(join_as_the_copy, d12.DistConfig())
    with pytest.raises(AssertionError, match="NCCL"):
        check_default_backend_runs_here(by_default)
