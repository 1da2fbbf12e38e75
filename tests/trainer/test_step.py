"""One optimizer step: the same on any number of ranks, or refused by all."""

import sys
import time
from collections.abc import Callable, Iterator
from itertools import product
from math import cos, inf, isfinite, nan, pi
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy

from lockstep.trainer.config import TrainConfig
from lockstep.trainer.data import shares
from lockstep.trainer.loop import build, run
from lockstep.trainer.model import DataParallel, make_task
from lockstep.trainer.order import GlobalOrder
from lockstep.trainer.process import joined
from lockstep.trainer.step import Replica, learning_rate, mean, train_step
from lockstep.trainer.telemetry import Observer, attach
from tests import ranks
from tests.conftest import daily

BATCH, STEPS = 48, 4
LAST = 17  # samples in the run's last batch: some micro-batches stay empty
TOTAL = (STEPS - 1) * BATCH + LAST
# Splits add the same fp32 numbers in other orders: a relative rounding error
# of some 1e-7 per sum, which AdamW's division by the root of a small second
# moment enlarges. After four steps at a rate of 1e-2 that stays below 1e-5; a
# share weighted wrongly in one step of them is over ten times that (below).
ATOL = 1e-5


def config(run_dir: Path, **changed: Any) -> TrainConfig:
    settings: dict[str, Any] = {
        "run_dir": run_dir,
        "dataset": "toy",
        "global_batch_size": BATCH,
        "learning_rate": 1e-2,
        "warmup_steps": 0,
        "clip_norm": 0.1,  # below the norms met, so that it always clips
        "hidden_size": 16,
        "dropout": 0.0,
        "timeout_seconds": 30.0,
    }
    return TrainConfig(**settings | changed)


def as_rank(work: Callable[..., Any], cfg: TrainConfig, *args: Any) -> Any:
    """`work(replica, its micro-batches, *args)`.

    The replica is gone before its group is left."""
    with joined(cfg.timeout_seconds, ranks.store()) as me:
        cfg = cfg.for_launch(me.world_size, {})
        task = make_task(cfg)
        mine = shares(cfg, me, len(task.data), 0, TOTAL)
        source = map(task.data.__getitem__, mine)
        return work(build(cfg, me, task, Noted()), source, *args)


class Noted(DataParallel):
    """Notes the norms, for AdamW's weights are those of any other scale of the
    gradients: it divides by a root of their squares."""

    def __init__(self) -> None:
        self.norms: list[float] = []

    def clip(self, norm: float) -> Tensor:
        found = super().clip(norm)
        self.norms.append(found.item())
        return found


Trained = tuple[list[float], list[float], dict[str, np.ndarray]]


def train(r: Replica, source: Iterator[Any]) -> Trained:
    """(loss of every step, norms of the gradients, weights after the last)."""
    losses = []
    for step in range(STEPS):
        count = min(BATCH, TOTAL - step * BATCH)
        set_rate(r, r.cfg.learning_rate)
        total, _ = train_step(r, source, count, step)
        losses.append(mean(total, count))
    weights = plain(r.strategy.full_state(r.strategy.module))
    return losses, r.strategy.norms, weights


def plain(weights: dict[str, Tensor]) -> dict[str, np.ndarray]:
    """A copy that outlives its process: a tensor is sent by shared memory."""
    return {name: value.numpy().copy() for name, value in weights.items()}


def set_rate(r: Replica, rate: float) -> None:
    for group in r.optimizer.param_groups:
        group["lr"] = rate


def by_hand(cfg: TrainConfig) -> Trained:
    """As `train`, of one big batch, in float64: nothing of the trainer but its
    model, data and order."""
    norms, losses = [], []
    task = make_task(cfg)
    data = task.data
    with joined(5, ranks.store()) as me:
        model = build(cfg, me, task, DataParallel()).strategy.module.double()
    optimizer = torch.optim.AdamW(
        model.parameters(), cfg.learning_rate, weight_decay=cfg.weight_decay
    )
    order = GlobalOrder(len(data), cfg.seed)
    for step in range(STEPS):
        stream = np.arange(step * BATCH, min((step + 1) * BATCH, TOTAL))
        ids = order(stream)
        _, x, y = data[np.stack([stream // len(data), ids])]
        loss = cross_entropy(model(x.double()), y)
        optimizer.zero_grad()
        loss.backward()
        norms.append(
            float(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1))
        )
        optimizer.step()
        losses.append(loss.item())
    return losses, norms, plain(model.state_dict())


SPLITS = [
    (world, accum, micro)
    for world, accum in product((1, 2, 4), (1, 2, 4))
    for micro in (BATCH // (world * accum),)
]
SPLITS += [(1, 48, 1), (4, 12, 1), (2, 8, 3)]


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    run_dir = tmp_path_factory.mktemp("oracle")
    losses, norms, weights = ranks.run_ranks(1, by_hand, config(run_dir))[0]
    assert min(norms) > 0.1  # clipping is at work in every step
    return losses, norms, weights


@pytest.mark.parametrize(
    ("world", "accum", "micro"),
    daily(SPLITS, (1, 1, BATCH), (2, 2, BATCH // 4), (4, 12, 1), (2, 8, 3)),
)
def test_every_split_trains_like_one_process(
    world: int,
    accum: int,
    micro: int,
    oracle: Trained,
    tmp_path: Path,
) -> None:
    """Every split of the batch gives the losses, norms and weights of one
    process with one big batch, even when the last batch is short and some ranks
    have fewer micro-batches. The logged loss is the global mean."""
    cfg = config(tmp_path, micro_batch_size=micro, grad_accum_steps=accum)
    results = ranks.run_ranks(world, as_rank, train, cfg)
    for losses, norms, weights in results:
        assert losses == pytest.approx(oracle[0], abs=ATOL)
        assert norms == pytest.approx(oracle[1], rel=1e-4)
        for name, expected in oracle[2].items():
            assert weights[name] == pytest.approx(expected, rel=0, abs=ATOL)
            assert np.array_equal(weights[name], results[0][2][name])


def test_last_batch_comparison_detects_mean_of_means(
    oracle: Trained, tmp_path: Path
) -> None:
    """A mean of per-rank means over unequal shares differs from one process by
    more than the tolerance, so the comparison with one process can fail."""
    cfg = config(tmp_path, micro_batch_size=BATCH // 2)
    losses, weights = ranks.run_ranks(2, as_rank, mean_of_means, cfg)[0]
    assert losses == pytest.approx(oracle[0], abs=ATOL)  # it looks right
    apart = max(
        np.abs(weights[name] - expected).max()
        for name, expected in oracle[2].items()
    )
    assert apart > 10 * ATOL


def mean_of_means(
    r: Replica, source: Iterator[Any]
) -> tuple[list[float], dict[str, np.ndarray]]:
    """`train`, every share weighted by its own count instead of the batch's."""
    right = Tensor.backward
    scale, losses = [1.0], []

    def wrong(loss: Tensor) -> None:
        right(loss * scale[0])

    Tensor.backward = wrong  # type: ignore[assignment,method-assign]
    for step in range(STEPS):
        count = min(BATCH, TOTAL - step * BATCH)
        own = len(range(r.me.rank, count, r.me.world_size))
        scale[0] = count / (own * r.me.world_size)
        set_rate(r, r.cfg.learning_rate)
        total, _ = train_step(r, source, count, step)
        losses.append(mean(total, count))
    return losses, plain(r.strategy.full_state(r.strategy.module))


def test_a_rank_without_samples_still_takes_part(tmp_path: Path) -> None:
    """Two samples for four ranks: two of them have nothing, and the same
    weights after the step as the others, finite and changed."""
    cfg = config(tmp_path, micro_batch_size=6, grad_accum_steps=2)
    results = ranks.run_ranks(4, as_rank, two_samples, cfg)
    assert [taken for taken, *_ in results] == [1, 1, 0, 0]
    for _, before, after in results:
        assert np.array_equal(after, results[0][2])
        assert not np.array_equal(after, before)
        assert np.isfinite(after).all()


def two_samples(
    r: Replica, _: Iterator[Any]
) -> tuple[int, np.ndarray, np.ndarray]:
    data = r.task.data
    source = map(data.__getitem__, shares(r.cfg, r.me, len(data), 0, 2))
    set_rate(r, 1e-2)
    before = flat(r)
    _total, ids = train_step(r, source, 2, 0)
    return len(ids), before, flat(r)


def flat(r: Replica) -> np.ndarray:
    """All weights, in one vector of their own."""
    weights = plain(r.strategy.full_state(r.strategy.module)).values()
    return np.concatenate([value.flatten() for value in weights])


def leave_again_and_again(times: int) -> bool:
    """Join, synchronize, leave; the replica is freed only afterwards, while a
    thread of the group waits for Python's lock."""
    store = ranks.store()
    sys.setswitchinterval(1000)  # the lock goes only to who is given it
    for i in range(times):
        with joined(30.0, dist.PrefixStore(str(i), store)) as me:
            model = DataParallel().wrap(torch.nn.Linear(4, 4), me.device)
            model(torch.ones(2, 4)).sum().backward()
            dist.barrier()
            dist.all_reduce(torch.ones(1 << 20), async_op=True)
            until = time.monotonic() + 0.2
            while time.monotonic() < until:
                pass  # the group's thread is done, and wants the lock
        del model
    return True


def test_a_rank_can_end_right_after_a_collective() -> None:
    """DDP's destructor holds Python's lock. If it were the last to hold the
    group, it would wait for the group's threads, which may want that lock to
    drop what the collective used. A traceback can keep a DDP for long."""
    assert all(ranks.run_ranks(2, leave_again_and_again, 3, timeout=40))


# What is not finite


class Events(Observer):
    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    def event(self, record: dict[str, Any]) -> None:
        self.seen.append(record)


def poisoned(
    r: Replica, source: Iterator[Any], where: str, value: float
) -> tuple[str, bool, list[str], float, bool]:
    """One step in which rank 1 meets `value`, in its input or its gradient:
    (what was raised, weights kept, events, scale, optimizer state kept)."""
    log = Events()
    attach(log)
    set_rate(r, 1e-2)
    train_step(r, source, BATCH, 0)
    before, steps = flat(r), taken(r)
    batches = [next(source) for _ in range(r.cfg.grad_accum_steps or 1)]
    if r.me.rank == 1 and where == "input":
        batches[0][1][0, 0] = value
    if r.me.rank == 1 and where == "gradient":
        weight = next(r.model.parameters())
        weight.register_hook(lambda grad: grad * value)
    raised = ""
    try:
        train_step(r, iter(batches), BATCH, 1)
    except FloatingPointError as error:
        raised = str(error)
    kept = np.array_equal(flat(r), before)
    names = [e["event"] for e in log.seen]
    return raised, kept, names, r.scaler.get_scale(), steps == taken(r)


def taken(r: Replica) -> list[float]:
    return [float(s["step"]) for s in r.optimizer.state.values()]


@pytest.mark.parametrize(
    ("value", "precision"),
    daily(
        product((nan, inf), ("fp32", "bf16", "fp16")),
        *((nan, "fp32"), (inf, "bf16"), (nan, "fp16")),
    ),
)
def test_a_loss_that_is_not_finite_raises_on_all_ranks(
    value: float, precision: str, tmp_path: Path
) -> None:
    """One rank meets it, no rank's weights change; in fp16 a smaller scale
    would not help, so it is no overflow to be skipped."""
    cfg = config(tmp_path, precision=precision, micro_batch_size=6)
    for result in ranks.run_ranks(2, as_rank, poisoned, cfg, "input", value):
        raised, kept, events, _, same_state = result
        assert raised.startswith("step 1: gradient norm ")
        assert kept
        assert same_state
        assert events == []


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_gradient_that_is_not_finite_raises_on_all_ranks(
    precision: str, tmp_path: Path
) -> None:
    """In fp32 and bf16 an infinite gradient on one rank raises on both, and
    neither updates its weights."""
    cfg = config(tmp_path, precision=precision, micro_batch_size=6)
    inf = float("inf")
    for result in ranks.run_ranks(2, as_rank, poisoned, cfg, "gradient", inf):
        raised, kept, events, _, same_state = result
        assert raised.startswith("step 1: gradient norm ")
        assert kept
        assert same_state
        assert events == []


def test_fp16_overflow_on_one_rank_is_skipped_by_all(
    tmp_path: Path,
) -> None:
    """An fp16 overflow on one of two ranks makes both ranks skip the update and
    halve the loss scale."""
    cfg = config(tmp_path, precision="fp16", micro_batch_size=6)
    inf = float("inf")
    for result in ranks.run_ranks(2, as_rank, poisoned, cfg, "gradient", inf):
        raised, kept, events, scale, same_state = result
        assert raised == ""
        assert kept
        assert same_state
        assert events == ["update_skipped"]
        assert scale == 2.0**15  # it began with 2**16


def overflowing_run(cfg: TrainConfig) -> tuple[list[dict[str, Any]], int]:
    """A whole run whose scaler begins far too high."""
    first = torch.amp.GradScaler.__init__

    def high(self: Any, *args: Any, **given: Any) -> None:
        first(self, *args, **given | {"init_scale": 2.0**40})

    torch.amp.GradScaler.__init__ = high  # type: ignore[method-assign]
    log = Events()
    attach(log)
    with joined(cfg.timeout_seconds, ranks.store()) as me:
        run(cfg.for_launch(me.world_size, {}), me)
    return log.seen, me.rank


def test_after_an_overflow_everything_but_the_weights_goes_on(
    tmp_path: Path,
) -> None:
    """Step, position and schedule advance, the scale halves, until updates
    fit; the same on every rank."""
    cfg = config(
        tmp_path,
        precision="fp16",
        micro_batch_size=24,
        max_steps=40,
        warmup_steps=5,
        log_every_steps=1,
    )
    logs = [log for log, _ in ranks.run_ranks(2, overflowing_run, cfg)]
    for log in logs:
        skipped = [e for e in log if e["event"] == "update_skipped"]
        scales = [e["scale"] for e in skipped]
        assert scales == [2.0 ** (40 - i) for i in range(len(scales))]
        assert 5 < len(scales) < 35
        steps = [e for e in log if e["event"] == "step"]
        assert [e["step"] for e in steps] == list(range(1, 41))
        assert [e["position"] for e in steps] == [48 * i for i in range(1, 41)]
        assert [e["learning_rate"] for e in steps] == [
            learning_rate(cfg, i, 40) for i in range(40)
        ]
        assert steps[0]["optimizer_steps"] == []
        assert steps[-1]["optimizer_steps"] == [40 - len(scales)]
        assert all(isfinite(e["loss"]) for e in steps)
    assert [e["loss"] for e in logs[0] if e["event"] == "step"] == [
        e["loss"] for e in logs[1] if e["event"] == "step"
    ]


# The schedule


@given(st.integers(0, 300), st.integers(1, 1000), st.data())
def test_the_rate_is_a_function_of_the_step(
    warm: int, steps: int, data: st.DataObject
) -> None:
    step = data.draw(st.integers(0, steps - 1))
    cfg = config(Path("run"), warmup_steps=warm, learning_rate=0.5)
    rate = learning_rate(cfg, step, steps)
    decay = 0.1 + 0.9 * (1 + cos(pi * step / steps)) / 2  # cosine to a tenth
    expected = 0.5 * decay * min(1, (step + 1) / (warm + 1))
    assert rate == pytest.approx(expected, rel=1e-12)
    learning_rate(cfg, 0, steps)  # a call leaves nothing behind
    assert learning_rate(cfg, step, steps) == rate
    assert 0 < rate <= 0.5


def test_warm_up_rises_and_decay_falls() -> None:
    cfg = config(Path("run"), warmup_steps=10)
    rates = [learning_rate(cfg, step, 1000) for step in range(1000)]
    assert rates[:11] == sorted(rates[:11])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[-1] == pytest.approx(cfg.learning_rate / 10, rel=1e-4)


# Waiting for the device

READS = ["item", "__bool__", "__float__", "__int__", "tolist"]


def host_reads(cfg: TrainConfig) -> dict[int, int]:
    """How often each step read a value from a tensor, and so waited for the
    device that it lies on; the loop's own work included."""
    counts: dict[int, int] = {0: 0}
    now = [0]

    class Steps(Observer):
        phases = ("load",)

        def begin(self, phase: str) -> None:
            counts.setdefault(now[0], 0)

        def committed(self, step: int, position: int, ids: Any) -> None:
            now[0] = step

    def counting(name: str) -> Any:
        original = getattr(Tensor, name)

        def read(self: Tensor, *args: Any) -> Any:
            # An optimizer counts its steps on the host, wherever it runs.
            if self.dtype.is_floating_point and training[0]:
                counts[now[0]] = counts.get(now[0], 0) + 1
            return original(self, *args)

        return read

    training = [False]
    adam = torch.optim.AdamW.step

    def own(self: Any, *args: Any) -> Any:
        training[0] = False
        try:
            return adam(self, *args)
        finally:
            training[0] = True

    for name in READS:
        setattr(Tensor, name, counting(name))
    torch.optim.AdamW.step = own  # type: ignore[assignment,method-assign]
    attach(Steps())
    with joined(cfg.timeout_seconds, ranks.store()) as me:
        training[0] = True
        run(cfg.for_launch(me.world_size, {}), me)
    return counts


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_step_that_logs_nothing_reads_one_value(
    precision: str, tmp_path: Path
) -> None:
    """The gradient norm; with fp16 the scaler reads whether it overflowed."""
    cfg = config(
        tmp_path,
        precision=precision,
        micro_batch_size=12,
        grad_accum_steps=2,
        max_steps=12,
        log_every_steps=5,
        checkpoint_every_steps=100,
    )
    for counts in ranks.run_ranks(2, host_reads, cfg):
        # A step's logging is counted to it, its training to the one before.
        assert {counts[k] for k in (0, 2, 3, 4, 6, 7, 8, 9, 11)} == {1}
        assert counts[5] > 1  # so reads are seen
