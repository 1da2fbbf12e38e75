"""What must hold of each cell of the interview cut, whoever has typed it.

A check gets the typed file as a module. It knows the names that one cell calls
in another, and nothing of how they are written. What holds when it passes is
its docstring.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from subprocess import DEVNULL, TimeoutExpired
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy, one_hot

from lockstep.drills.rehearsal.tools import (
    BATCH,
    MICRO,
    SECONDS,
    configured,
    expect,
    folder,
    micro_batches,
    refused,
    replica,
    tensors,
    torchrun,
)
from lockstep.drills.running import every, torn
from lockstep.trainer.extensions.audit import audit, permutation_order
from lockstep.trainer.extensions.events import read_events
from lockstep.trainer.extensions.sample_record import MAGIC
from lockstep.trainer.step import learning_rate

PHASES = {"load", "h2d", "forward", "backward", "sync", "optimizer"}
RECORD = "int64 words: magic, attempt, step, position, count, ids"
RESTORED = {"step", "position", "learning_rate", "saved"}
LOGGED = {  # what the audit, or this rehearsal, reads of each event
    "run_started": {"world_size", "config", "steps", "seed", "dataset_length"}
    | {"order"},
    "step": {"step", "position", "loss", "learning_rate"},
    "checkpoint_saved": {"step"},
    "checkpoint_restored": RESTORED,
    "run_finished": {"step", "position", "loss", "weights_sha256"},
}


def config(cut: Any) -> None:
    """64 samples a step on 1, 2 and 4 ranks; 3 are refused."""
    cfg = configured(cut)
    sizes = [cfg.grad_accum_steps(w) * w * MICRO for w in (1, 2, 4)]
    expect(
        set(sizes) == {BATCH},
        f"1, 2 and 4 ranks train on {sizes} samples a step: derive the"
        " accumulation from global_batch_size",
    )
    expect(
        refused(cfg.grad_accum_steps, 3),
        f"3 ranks x {MICRO} do not divide {BATCH}: exit, and name the setting",
    )
    expect(
        cfg.identity() == configured(cut, run_dir=Path("other")).identity(),
        "identity() holds run_dir: leave out what a launch decides",
    )
    expect(
        cfg.identity() != configured(cut, seed=cfg.seed + 1).identity(),
        "identity() lacks the seed: keep what decides the training",
    )


def data(cut: Any) -> None:
    """Each sample once per epoch at any world size."""
    samples, (x, y) = cut.toy()
    n = len(samples)
    cfg = configured(cut, max_steps=2 * n // BATCH)  # into a second epoch

    def stream(world: int, position: int = 0) -> list[int]:
        """What `world` ranks train on, in order of position."""
        draws = [cut.sampler(cfg, r, world, n, position) for r in range(world)]
        steps = zip(*(np.concatenate([*draw]) for draw in draws), strict=False)
        return [int(i) for step in steps for i in step]

    alone = stream(1)
    once = len(set(alone[:n]))
    expect(once == n, f"the first {n} draws hold {once} samples, not all {n}")
    expect(
        stream(2) == stream(4) == alone,
        "2 or 4 ranks train on other samples than one: make the global batch"
        " first, then take batch[rank::world]",
    )
    at = 5 * BATCH
    expect(
        stream(2, position=at) == alone[at:],
        f"from position {at} it does not go on as after {at} samples: let the"
        " range begin at position",
    )
    expect(
        alone == permutation_order(n, cfg.seed)(np.arange(len(alone))).tolist(),
        "the order is not the one that the audit knows, epoch by epoch"
        " default_rng([seed, epoch]).permutation(n)",
    )
    expect(
        {len(m) for m in cut.sampler(cfg, 0, 2, n, 0)} == {MICRO},
        f"a micro-batch is not of {MICRO}: split the share by accumulation",
    )
    ids, inputs, labels = samples[:]
    expect(torch.equal(ids, torch.arange(n)), "a sample of toy() lacks its id")
    linear = torch.linalg.lstsq(inputs, one_hot(labels).float()).solution
    right = ((x @ linear).argmax(1) == y).float().mean().item()
    expect(
        right > 0.5,
        f"a linear model learns {right:.0%} of the held-out labels: let a"
        " teacher label, so that there is a truth to learn",
    )


def model(cut: Any) -> None:
    """Equal on every rank; the rate is a function of the step."""
    cfg = configured(cut)
    (net, optimizer), (other, _) = cut.build(cfg), cut.build(cfg)
    pairs = zip(net.parameters(), other.parameters(), strict=True)
    expect(
        all(torch.equal(*pair) for pair in pairs),
        "two builds differ: seed before the layers are made",
    )
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    expect(
        held == {id(p) for p in net.parameters()},
        "the optimizer does not hold the model's parameters",
    )
    for step in 0, cfg.warmup_steps, cfg.max_steps - 1:
        due = learning_rate(cfg, step, cfg.max_steps)
        rate = cut.learning_rate(cfg, step)
        expect(
            rate == due,
            f"at step {step} the audit expects {due}, not {rate}: a cosine from"
            " 1 to 0.1, times (step + 1) / (warmup_steps + 1) while that is"
            " below 1",
        )


def ranks(cut: Any) -> None:
    """One group; rank 0 decides; gradients are averaged."""
    rank, world, device = cut.join()
    expect(
        (rank, world) == (dist.get_rank(), dist.get_world_size()),
        f"join() says rank {rank} of {world}: return what the group says",
    )
    answers = every(cut.on_rank0(lambda: rank))
    expect(
        answers == [0] * world,
        f"on_rank0() gives the ranks {answers}: broadcast what rank 0 decides",
    )
    ddp = cut.wrap(cut.build(configured(cut, dropout=0.0))[0], device)
    left = any(p.grad is not None and p.grad.any() for p in ddp.parameters())
    expect(
        ddp.training and not left,
        "wrap() leaves the wasted pass behind: zero_grad(), then train()",
    )
    ddp(torch.full((1, 32), rank + 1.0)).sum().backward()
    sums = every([p.grad.sum().item() for p in ddp.parameters()])
    expect(
        sums == [sums[0]] * world,
        "ranks hold different gradients: wrap the model in DDP",
    )


def step(cut: Any) -> None:
    """2 ranks x 2 micro-batches step as one batch of 64."""
    r = replica(cut, dropout=0.0, clip_norm=1e9)
    # Adam would hide a gradient of the wrong scale.
    r.optimizer = torch.optim.SGD(r.ddp.parameters(), lr=0.5)
    dtypes: set[torch.dtype] = set()
    r.ddp.register_forward_hook(lambda *seen: dtypes.add(seen[-1].dtype))
    total, ids = cut.train_step(r, micro_batches(cut, r))
    expect(
        dtypes == {torch.float32},
        f"fp32 was asked for, and {dtypes} computed: let the setting switch"
        " autocast",
    )
    model, _ = cut.build(r.cfg)
    _, x, y = cut.toy()[0][:BATCH]
    loss = cross_entropy(model(x), y)
    loss.backward()
    torch.optim.SGD(model.parameters(), lr=0.5).step()
    pairs = zip(r.ddp.parameters(), model.parameters(), strict=True)
    expect(  # close: the order of additions differs
        all(torch.allclose(*pair, rtol=1e-4, atol=1e-6) for pair in pairs),
        f"two ranks x two micro-batches step elsewhere than one batch of"
        f" {BATCH}: scale the summed loss by world / {BATCH}, and let the last"
        " pass alone synchronize",
    )
    losses = every(float(total))
    trained = sorted(np.concatenate(every(np.asarray(ids))).tolist())
    expect(
        trained == [*range(BATCH)]
        and abs(sum(losses) / BATCH - loss.item()) < 1e-4,
        "train_step() does not return the share's summed loss and its ids",
    )
    untimed = PHASES - r.log.seen
    expect(not untimed, f"no phase is named {listed(untimed)}")
    expect(
        refused(cut.train_step, r, micro_batches(cut, r, scale=torch.nan)),
        "a gradient of NaN is applied: raise before the update",
    )


def checkpoint(cut: Any) -> None:
    """Complete or absent; each rank's RNG state is restored."""
    r = replica(cut, run_dir=folder("6", "checkpoints"))
    cut.train_step(r, micro_batches(cut, r))
    torch.manual_seed(r.rank)
    state = {"step": 4, "position": 4 * BATCH, "loss": 0.5}
    about = {"config": r.cfg.identity(), "world_size": r.world, "attempt": 0}
    cut.save(r, {**state, **about, "rank": r.rank, "learning_rate": 0.1})
    saved, drawn = tensors(r), torch.rand(3)
    with torch.no_grad():
        for weight in r.ddp.parameters():
            weight.zero_()
    r.optimizer.state.clear()
    found = tuple(cut.restore(r))
    expect(found == (4, 0.5), f"restore() gives {found}, and not (4, 0.5)")
    told = r.log.told.get("checkpoint_restored", {})
    lack = RESTORED - told.keys() or {"attempt", "loss"} - told["saved"].keys()
    expect(
        not lack,
        f"checkpoint_restored lacks {listed(lack)}: emit the saved state, and"
        " once more as saved",
    )
    back = tensors(r)
    expect(
        len(saved) == len(back) and all(map(torch.equal, saved, back)),
        "weights or optimizer do not come back: load every part",
    )
    expect(
        torch.equal(drawn, torch.rand(3)),
        f"rank {r.rank} draws other numbers than before: save each rank's own"
        " RNG state",
    )
    with patch("torch.save", torn):
        refused(cut.save, r, {**state, **about, "step": 8})
    expect(
        not refused(cut.restore, r) and tuple(cut.restore(r)) == (4, 0.5),
        "a save that was killed half-way is restored: write to a temporary"
        " directory, and rename it when it is whole",
    )
    r.cfg = replace(r.cfg, seed=r.cfg.seed + 1)
    expect(
        refused(cut.restore, r),
        "it restores a run of another seed: compare the identities",
    )


def metrics(cut: Any) -> None:
    """Every rank logs; 1,001 answers are counted once."""
    rank, run_dir = dist.get_rank(), folder("7", "events", "samples")
    log = cut.Log(run_dir, rank, 0, gpu=False)
    log.emit("greeting", step=3, attempt=9)  # as a restored state says it
    log.trained_on(3, 3 * BATCH, torch.arange(5))
    with log.phase("load"):
        pass
    file = f"attempt-0-rank-{rank}"
    (event,) = read_events(run_dir / "events" / f"{file}.jsonl")
    due = {"event": "greeting", "step": 3, "rank": rank, "attempt": 0}
    expect(
        due.items() <= event.items(),
        f"emit() wrote {event}: name the event, this rank and this attempt,"
        " whatever a restored state says",
    )
    words = np.fromfile(run_dir / "samples" / f"{file}.bin", np.int64).tolist()
    record = [MAGIC, 0, 3, 3 * BATCH, 5, *range(5)]
    expect(
        words == record, f"trained_on() wrote {words}, not {record}; {RECORD}"
    )
    expect("load" in log.seconds, "phase() adds nothing to seconds")
    x = torch.eye(2)[torch.zeros(1001, dtype=torch.long)]
    y = torch.ones(1001, dtype=torch.long)
    y[0] = 0  # the one answer that is right
    group = {"rank": rank, "world": dist.get_world_size()}
    everyone = SimpleNamespace(
        **group, device=torch.device("cpu"), ddp=nn.Identity()
    )
    right = cut.evaluate(everyone, x, y) * len(y)
    expect(
        right == 1,
        f"1 of 1,001 answers is right, and evaluate() finds {right:g}: give"
        " each sample to one rank, and pad nothing",
    )
    model, _ = cut.build(configured(cut))
    before = cut.weights_sha256(model)
    with torch.no_grad():
        next(model.parameters())[0, 0] += 1
    expect(
        cut.weights_sha256(model) != before,
        "weights_sha256() does not see that a weight changed",
    )


def launch(cut: Any) -> None:
    """Stopped and relaunched: equal weights, proven."""
    whole, stopped = folder("8-whole"), folder("8-stopped")
    for run_dir, stop in (whole, 0), (stopped, 25), (stopped, 0):
        asked = f"--run-dir {run_dir} --max-steps 60 --stop-at-step {stop}"
        job = torchrun(cut.__file__, *asked.split(), stdout=DEVNULL)
        try:
            code = job.wait(SECONDS)
        except TimeoutExpired:
            job.terminate()  # torchrun, which ends its ranks
            code = job.wait()
        expect(
            code == 0, f"exit code {code} from torchrun {cut.__file__} {asked}"
        )
    lacking = unlogged(stopped)
    expect(not lacking, "; ".join(lacking))
    report = audit(stopped)
    expect(report.proven, f"the audit finds {'; '.join(report.findings)}")
    expect(
        report.replayed_steps == 0,
        f"launched again after step 25, it trains {report.replayed_steps}"
        " steps twice: restore before the loop",
    )
    ends = (
        {**event, "time": 0, "attempt": 0}
        for log in (whole / "events/attempt-0", stopped / "events/attempt-1")
        for event in read_events(log.with_name(f"{log.name}-rank-0.jsonl"))
        if event["event"] == "run_finished"
    )
    expect(
        next(ends, 0) == next(ends, 1),
        "stopped at step 25 and launched again, it does not end as in one"
        " piece: same loss, same weights",
    )


def unlogged(run_dir: Path) -> list[str]:
    """What each kind of event lacks in the logs of a run; nothing, if whole.
    Whether a launch was restored at all, the audit sees better."""
    kinds: dict[str, set[str]] = {}
    for log in run_dir.glob("events/*.jsonl"):
        for event in read_events(log):
            kind = event["event"]
            kinds[kind] = kinds.get(kind, set(event)) & set(event)
    return [
        f"{kind} lacks {listed(lack)}" if kind in kinds else f"no event {kind}"
        for kind, due in LOGGED.items()
        if (lack := due - kinds.get(kind, set()))
        and (kind in kinds or kind != "checkpoint_restored")
    ]


def listed(names: set[str]) -> str:
    """In one line, in a fixed order."""
    return ", ".join(sorted(names))


# Each check, and what other cells call in its cell.
CELLS = {
    config: ("TrainConfig",),
    data: ("toy", "sampler"),
    model: ("build", "learning_rate"),
    ranks: ("join", "on_rank0", "wrap"),
    step: ("train_step",),
    checkpoint: ("save", "restore"),
    metrics: ("Log", "evaluate", "weights_sha256"),
    launch: ("train",),
}
