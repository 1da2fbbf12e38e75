"""The entries have the words that the installed torch raises on a CPU.

Each case makes the mistake that its entry describes. A torch that words the
message differently fails the case.
"""

import logging
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from lockstep.experiments.faults.forked_rank import Rank
from lockstep.experiments.faults.stale_store import meet
from lockstep.explain.catalog import load
from lockstep.explain.patterns import Pattern
from tests.ranks import RankError, run_ranks, store

ENTRIES = {entry["id"]: entry for entry in load()}
HALF = timedelta(seconds=0.5)


def said(work: Callable[[], object]) -> str:
    """Return the error that `work` raises, or else its warnings."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            work()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return "\n".join(str(warning.message) for warning in warned)


def assert_first_pattern_matches(name: str, text: str) -> None:
    """Assert that the entry's first pattern matches a line of the text."""
    pattern = Pattern(ENTRIES[name]["patterns"][0])
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert any(pattern.match(line) is not None for line in lines), (
        f"{pattern.text!r} isn't in {text!r}"
    )


# Mistakes of one process.


def leaf() -> Tensor:
    return torch.ones(2, requires_grad=True)


def change_in_place() -> None:
    output = leaf().exp()
    output.add_(1)
    output.sum().backward()


def go_back_twice() -> None:
    loss = leaf().exp().sum()
    loss.backward()
    loss.backward()


def find_nan() -> None:
    with torch.autograd.detect_anomaly():
        zero = torch.zeros(1, requires_grad=True)
        (zero.sqrt() * 0).sum().backward()


def clip_nan() -> None:
    weight = nn.Parameter(torch.ones(1))
    weight.grad = torch.tensor([float("nan")])
    nn.utils.clip_grad_norm_([weight], 1.0, error_if_nonfinite=True)


def recompute_less() -> None:
    calls = []

    def block(x: Tensor) -> Tensor:
        calls.append(x)
        return x.exp().sin() if len(calls) == 1 else x.exp()

    checkpoint(block, leaf(), use_reentrant=False).sum().backward()


@contextmanager
def scaled(
    dtype: torch.dtype = torch.float32,
) -> Iterator[tuple[torch.amp.GradScaler, torch.optim.Optimizer]]:
    """Yield a gradient scaler and an optimizer after a backward pass."""
    model = nn.Linear(2, 2).to(dtype)
    scaler = torch.amp.GradScaler("cpu")
    loss = model(torch.ones(1, 2, dtype=dtype)).float().sum()
    scaler.scale(loss).backward()
    yield scaler, torch.optim.SGD(model.parameters())


def unscale_twice() -> None:
    with scaled() as (scaler, optimizer):
        scaler.unscale_(optimizer)
        scaler.unscale_(optimizer)


def unscale_fp16() -> None:
    with scaled(torch.float16) as (scaler, optimizer):
        scaler.unscale_(optimizer)


def step_without_gradients() -> None:
    with scaled() as (scaler, optimizer):
        optimizer.zero_grad()
        scaler.step(optimizer)


def optimizer() -> torch.optim.Optimizer:
    return torch.optim.SGD(nn.Linear(2, 2).parameters())


def resume_schedule() -> None:
    torch.optim.lr_scheduler.StepLR(optimizer(), 1, last_epoch=5)


def schedule_first() -> None:
    torch.optim.lr_scheduler.StepLR(optimizer(), 1).step()


def move_meta() -> None:
    nn.Linear(2, 2, device="meta").to("cpu")


def check_for_nan() -> None:
    torch.ops.c10d.check_for_nan(torch.tensor([float("nan")]))


def touch_cuda_after_fork() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
        torch.cuda.init()


def start_nccl() -> None:
    dist.init_process_group(
        "nccl", store=dist.HashStore(), rank=0, world_size=1
    )


def recompile() -> None:
    """Raise what torch.compile logs as it gives up."""
    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("torch._dynamo")
    logger.addHandler(handler)

    @torch.compile(backend="eager", dynamic=False)
    def times(number: int) -> Tensor:
        return torch.ones(2) * number

    try:
        for number in range(12):
            times(number)
    finally:
        logger.removeHandler(handler)
    raise RuntimeError("\n".join(records))


RAISES: dict[str, Callable[[], object]] = {
    "attempting-to-unscale-fp16-gradients": unscale_fp16,
    "cannot-copy-out-of-meta-tensor": move_meta,
    "cannot-reinitialize-cuda-in-forked-subprocess": touch_cuda_after_fork,
    "checkpoint-different-number-of-tensors-was-saved": recompute_less,
    "default-process-group-has-not-been-initialized": dist.get_rank,
    "differentiated-tensor-appears-to-not-have-been-used-in-the-graph": (
        lambda: torch.autograd.grad((a := leaf()).sum(), [a, leaf()])
    ),
    "distributed-package-doesnt-have-nccl-built-in": start_nccl,
    "element-0-of-tensors-does-not-require-grad": (
        lambda: torch.ones(2).sum().backward()
    ),
    "function-returned-nan-values-in-its-0th-output": find_nan,
    "lr-scheduler-step-before-optimizer-step": schedule_first,
    "modified-by-an-inplace-operation": change_in_place,
    "nccl-nan-check-assertion": check_for_nan,
    "no-inf-checks-were-recorded-for-this-optimizer": step_without_gradients,
    "none-of-the-inputs-have-requires-grad": (
        lambda: checkpoint(torch.sin, torch.ones(2), use_reentrant=True)
    ),
    "param-initial-lr-is-not-specified": resume_schedule,
    "shardedgradscaler-expected-supported-device": (
        lambda: ShardedGradScaler("cpu").scale(torch.ones(1, device="meta"))
    ),
    "torch-dynamo-hit-config-recompile-limit": recompile,
    "torch-not-compiled-with-cuda-enabled": torch.cuda.init,
    "total-norm-for-gradients-is-non-finite": clip_nan,
    "trying-to-backward-through-the-graph-a-second-time": go_back_twice,
    "unscale-has-already-been-called-on-this-optimizer": unscale_twice,
}


@pytest.mark.parametrize("name", sorted(RAISES))
def test_torch_raises(name: str) -> None:
    """The installed torch raises or logs the entry's words."""
    assert_first_pattern_matches(name, said(RAISES[name]))


# Mistakes of several ranks.


def join(backend: str = "gloo") -> int:
    """Join the other ranks, and return this rank."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, store=store(), rank=rank, world_size=world)
    return rank


class Pair(nn.Module):
    """Two layers, of which the forward pass uses the first."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.a(x)  # type: ignore[no-any-return]


class Recomputed(Pair):
    """One layer in two reentrant checkpoints."""

    def forward(self, x: Tensor) -> Tensor:
        x = checkpoint(self.a, self.b(x), use_reentrant=True)
        return checkpoint(self.a, x, use_reentrant=True)  # type: ignore[no-any-return]


def train(model: nn.Module, steps: int = 1) -> None:
    wrapped = DistributedDataParallel(model)
    for _ in range(steps):
        wrapped(torch.ones(1, 4)).sum().backward()


def wrap_other_models() -> None:
    layers = [nn.Linear(4, 4) for _ in range(1 + dist.get_rank())]
    DistributedDataParallel(nn.Sequential(*layers))


def use_shard() -> None:
    model = fully_shard(nn.Linear(4, 4))
    nn.functional.linear(torch.ones(1, 4), model.weight)


def train_on_meta() -> None:
    model = fully_shard(nn.Linear(4, 4, device="meta"))
    model(torch.ones(1, 4))


def flatten_two_dtypes() -> None:
    model = nn.Linear(4, 4)
    model.bias.data = model.bias.data.to(torch.bfloat16)
    FullyShardedDataParallel(model, device_id=torch.device("cpu"))


def misuse() -> dict[str, str]:
    """Make the mistakes after which a group can still be used."""
    join()
    frozen = nn.Linear(4, 4).requires_grad_(False)
    mistakes: dict[str, Callable[[], object]] = {
        "trying-to-initialize-the-default-process-group-twice": join,
        "expected-to-have-finished-reduction-in-the-prior-iteration": (
            lambda: train(Pair(), steps=2)
        ),
        "expected-to-mark-a-variable-ready-only-once": (
            lambda: train(Recomputed())
        ),
        "ddp-expects-same-model-across-all-ranks": wrap_other_models,
        "distributeddataparallel-is-not-needed": (
            lambda: DistributedDataParallel(frozen)
        ),
        "got-mixed-torch-tensor-and-dtensor": use_shard,
        "fsdp-parameters-should-be-materialized-from-meta-device": (
            train_on_meta
        ),
        "must-flatten-tensors-with-uniform-dtype": flatten_two_dtypes,
    }
    return {name: said(mistake) for name, mistake in mistakes.items()}


def leave_rank_0_alone() -> dict[str, str]:
    """Rank 1 comes to no collective. What rank 0 hears, and hears again."""
    if join():
        time.sleep(1)
        return {}
    # Only now, since the ranks also connect within the group's timeout.
    dist.distributed_c10d._set_pg_timeout(HALF)
    twice = [said(lambda: dist.all_reduce(torch.ones(4))) for _ in range(2)]
    return {
        "gloo-timed-out-waiting-for-recv-operation-to-complete": twice[0],
        "gloo-application-timeout-caused-pair-closure": twice[1],
    }


def leave() -> dict[str, str]:
    """Rank 1 leaves while rank 0 waits for it."""
    rank = join()
    dist.barrier()
    if rank:
        return {}
    text = said(lambda: dist.all_reduce(torch.ones(4)))
    return {"gloo-connection-closed-by-peer": text}


def miss_the_barrier() -> dict[str, str]:
    if join():
        time.sleep(1)
        return {}
    text = said(lambda: dist.monitored_barrier(timeout=HALF))
    return {"failed-to-pass-monitoredbarrier": text}


def lose_rank_0_at_the_barrier() -> dict[str, str]:
    if not join():
        time.sleep(0.2)
        return {}
    text = said(lambda: dist.monitored_barrier())
    name = "successfully-reached-monitoredbarrier-but-received-errors"
    return {name: text}


def meet_in_a_stale_store() -> dict[str, str]:
    """A second launch finds the addresses that the first has left."""
    if os.environ["RANK"] != "0":
        return {}
    server = dist.TCPStore(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False
    )
    first = [Rank(meet, rank, server.port, False, 60.0) for rank in (0, 1)]
    for rank in first:
        rank.said()
    early = Rank(meet, 1, server.port, False, 2.0)
    return {"gloo-connectfullmesh-failed": early.said()}


def call_two_collectives() -> dict[str, str]:
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    rank = join()
    tensor = torch.ones(4)
    text = said(
        lambda: dist.all_reduce(tensor) if rank else dist.broadcast(tensor, 0)
    )
    return {"detected-mismatch-between-collectives-on-ranks": text}


def reduce_on_another_device() -> dict[str, str]:
    join("cuda:gloo")
    text = said(lambda: dist.all_reduce(torch.ones(4)))
    return {"no-backend-type-associated-with-device-type": text}


def name_no_interface() -> dict[str, str]:
    os.environ["GLOO_SOCKET_IFNAME"] = "eth77"
    return {"gloo-unable-to-find-address-for-interface": said(join)}


def reduce_two_sizes(path: Path) -> None:
    """The rank that expects less aborts, without a word from Python."""
    rank = join()
    log = os.open(path / f"rank{rank}.log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 2)
    dist.all_reduce(torch.ones(4 if rank else 64))


RANKS_RAISE = [
    "ddp-expects-same-model-across-all-ranks",
    "detected-mismatch-between-collectives-on-ranks",
    "distributeddataparallel-is-not-needed",
    "expected-to-have-finished-reduction-in-the-prior-iteration",
    "expected-to-mark-a-variable-ready-only-once",
    "failed-to-pass-monitoredbarrier",
    "fsdp-parameters-should-be-materialized-from-meta-device",
    "gloo-application-timeout-caused-pair-closure",
    "gloo-connectfullmesh-failed",
    "gloo-connection-closed-by-peer",
    "gloo-received-data-size-doesnt-match-expected-size",
    "gloo-timed-out-waiting-for-recv-operation-to-complete",
    "gloo-unable-to-find-address-for-interface",
    "got-mixed-torch-tensor-and-dtensor",
    "must-flatten-tensors-with-uniform-dtype",
    "no-backend-type-associated-with-device-type",
    "successfully-reached-monitoredbarrier-but-received-errors",
    "trying-to-initialize-the-default-process-group-twice",
]


@pytest.fixture(scope="module")
def heard(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return what ranks hear after each of their mistakes."""
    texts: dict[str, str] = {}
    worlds: list[Callable[[], Any]] = [
        misuse,
        leave_rank_0_alone,
        leave,
        miss_the_barrier,
        lose_rank_0_at_the_barrier,
        meet_in_a_stale_store,
        call_two_collectives,
        reduce_on_another_device,
        name_no_interface,
    ]
    for world in worlds:
        for answer in run_ranks(2, world):
            texts |= answer
    path = tmp_path_factory.mktemp("sizes")
    with pytest.raises(RankError, match="died"):
        run_ranks(2, reduce_two_sizes, path)
    texts["gloo-received-data-size-doesnt-match-expected-size"] = "".join(
        log.read_text() for log in path.iterdir()
    )
    return texts


@pytest.mark.parametrize("name", RANKS_RAISE)
def test_ranks_raise(name: str, heard: dict[str, str]) -> None:
    """Ranks of the installed torch raise the entry's words."""
    assert_first_pattern_matches(name, heard[name])


def test_entries_name_their_cases() -> None:
    """An entry that names a case of this file has that case, and each case has
    its entry."""
    here = "tests/explain/test_messages_torch.py::"
    named = {
        entry["test"]
        for entry in ENTRIES.values()
        if entry.get("test", "").startswith(here)
    }
    cases = {f"{here}test_torch_raises[{name}]" for name in RAISES}
    cases |= {f"{here}test_ranks_raise[{name}]" for name in RANKS_RAISE}
    assert named == cases
