"""Other strategies than DDP train the same model, and hold less of it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed.tensor import DTensor
from torch.utils._pytree import tree_leaves

from lockstep.trainer.checkpoint import weights_sha256
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.extensions.audit import audit
from lockstep.trainer.extensions.events import read_events
from lockstep.trainer.extensions.options import Options
from lockstep.trainer.loop import build
from lockstep.trainer.model import make_task
from lockstep.trainer.process import joined
from lockstep.trainer.step import Replica, train_step
from lockstep.trainer.telemetry import Observer, attach
from tests import ranks
from tests.conftest import daily
from tests.jobs import PLAIN, work

# Accumulation, clipping, dropout and, at the end of three epochs of 4,000, a
# short batch: 12,000 = 83 * 144 + 48.
SETTINGS: dict[str, Any] = {
    "dataset": "toy",
    "global_batch_size": 144,
    "max_epochs": 3,
    "clip_norm": 0.5,
    "hidden_size": 32,
    "log_every_steps": 1,
    "checkpoint_every_steps": 1000,
    "timeout_seconds": 60.0,
}
FSDP2 = Options(strategy="fsdp2")


def train(
    run_dir: Path, world: int, options: Options, **changed: Any
) -> dict[str, Any]:
    """The run's last event on rank 0; its audit is proven."""
    micro = SETTINGS["global_batch_size"] // world // 2
    given = SETTINGS | {"run_dir": run_dir, "micro_batch_size": micro}
    last = ranks.run_ranks(world, work, given | changed, options)[0]
    assert last["event"] == "run_finished"
    assert audit(run_dir).proven
    return dict(last)


def losses(run_dir: Path) -> torch.Tensor:
    log = read_events(run_dir / "events" / "attempt-0-rank-0.jsonl")
    return torch.tensor([e["loss"] for e in log if e["event"] == "step"])


@pytest.mark.parametrize("world", daily([1, 2, 4], 2))
def test_fsdp2_trains_what_ddp_trains(world: int, tmp_path: Path) -> None:
    """Every step's loss, to a few units in the last place of fp32 early on:
    the sums over ranks are the same but for the order of their terms."""
    train(tmp_path / "ddp", world, PLAIN)
    train(tmp_path / "fsdp2", world, FSDP2)
    ddp, fsdp2 = losses(tmp_path / "ddp"), losses(tmp_path / "fsdp2")
    assert len(ddp) == 84
    torch.testing.assert_close(fsdp2[:20], ddp[:20], rtol=1e-5, atol=0)
    # 64 steps later such differences have grown, with the learning rate.
    torch.testing.assert_close(fsdp2, ddp, rtol=1e-3, atol=0)


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_recomputing_changes_no_bit(strategy: Any, tmp_path: Path) -> None:
    """A run with activation checkpointing ends with the same bits as one
    without, under DDP and under FSDP2."""
    ends = [
        train(
            tmp_path / str(recompute),
            2,
            Options(strategy=strategy, activation_checkpointing=recompute),
            max_epochs=1,
        )
        for recompute in (False, True)
    ]
    assert ends[0]["weights_sha256"] == ends[1]["weights_sha256"]


class Overflow(Observer):
    """Makes one gradient of rank 0's shard infinite, once."""

    phases = ("optimizer",)

    def __init__(self, r: Replica) -> None:
        self.r, self.over = r, False

    def begin(self, phase: str) -> None:
        if self.r.me.rank == 0 and not self.over:
            grad = next(self.r.model.parameters()).grad
            grad.to_local()[0, 0] = torch.inf  # type: ignore[union-attr]
        self.over = True


def overflowing(settings: dict[str, Any]) -> tuple[list[float], list[str]]:
    """The scaler's scale before and after a step that overflows and one that
    does not, and the digests of the weights."""
    cfg = TrainConfig(**settings)
    with joined(30, ranks.store()) as me:
        cfg = cfg.for_launch(me.world_size, {})
        task = make_task(cfg)
        data = task.data
        r = build(cfg, me, task, FSDP2.make_strategy(me))
        r.scaler.scale(torch.ones(()))  # it makes its scale at first use
        attach(Overflow(r))
        scales, digests = [], []
        batch = torch.arange(8), data.x[:8], data.y[:8]
        for step in range(3):
            whole = r.strategy.full_state(r.strategy.module)
            digests.append(weights_sha256(whole))
            scales.append(r.scaler.get_scale())
            train_step(r, iter([batch]), 16, step)
        return scales, digests


def test_an_overflow_in_one_shard_is_skipped_by_all(tmp_path: Path) -> None:
    """In fp16, one rank's shard overflows; all ranks skip the update and halve
    the scale."""
    given = {"run_dir": tmp_path, "dataset": "toy", "precision": "fp16"}
    given |= {"micro_batch_size": 8}
    first, second = ranks.run_ranks(2, overflowing, given)
    assert first == second
    (before, after, last), digests = first
    assert (after, last) == (before / 2, before / 2)
    assert digests[0] == digests[1] != digests[2]


def held(settings: dict[str, Any], options: Options) -> dict[str, int]:
    """Bytes that this rank holds after a step, and that autograd kept of a
    forward pass."""
    cfg = TrainConfig(**settings)
    kept: dict[int, int] = {}  # by place: one tensor may be kept twice

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.data_ptr()] = tensor.nbytes
        return tensor

    with joined(30, ranks.store()) as me:
        cfg, task = cfg.for_launch(me.world_size, {}), make_task(cfg)
        r = build(cfg, me, task, options.make_strategy(me))
        with saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = r.model(task.data.x[:256]).sum()
        if options.strategy == "ddp":  # weights are no activations
            for weight in r.model.parameters():
                kept.pop(weight.data_ptr(), None)
        loss.backward()
        r.optimizer.step()
        return {
            "weights": own(r.model.parameters()),
            "optimizer": own(r.optimizer.state.values()),
            "activations": sum(kept.values()),
        }


def own(tree: Any) -> int:
    """The bytes of a tree of tensors on this rank, all but scalars."""
    found = [t for t in tree_leaves(list(tree)) if t.ndim]
    local = [t.to_local() if isinstance(t, DTensor) else t for t in found]
    return sum(tensor.nbytes for tensor in local)


@pytest.fixture(scope="module")
def holdings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of two ranks, by strategy; 4 classes and every width are even."""
    given = {"run_dir": tmp_path_factory.mktemp("held"), "dataset": "toy"}
    given |= {"hidden_size": 32}
    every = {
        "ddp": PLAIN,
        "fsdp2": FSDP2,
        "recomputing": Options(activation_checkpointing=True),
    }
    return {
        name: ranks.run_ranks(2, held, given, options)
        for name, options in every.items()
    }


def test_an_fsdp2_rank_holds_half(holdings: dict[str, Any]) -> None:
    for whole, half in zip(holdings["ddp"], holdings["fsdp2"], strict=True):
        assert half["weights"] * 2 == whole["weights"]
        assert half["optimizer"] * 2 == whole["optimizer"]


def test_recomputing_keeps_less(holdings: dict[str, Any]) -> None:
    """Of the hidden layers only the last one's output, which is the head's
    input, and the input itself."""
    for ddp, less in zip(holdings["ddp"], holdings["recomputing"], strict=True):
        assert less["activations"] == 256 * (32 + 32) * 4
        assert less["activations"] * 2 < ddp["activations"]
