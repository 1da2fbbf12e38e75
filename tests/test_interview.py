"""The interview cut: it resumes bitwise, is audited, and can be typed."""

import importlib
import json
import os
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from lockstep import interview
from lockstep.trainer.checkpoint import weights_sha256
from lockstep.trainer.extensions.audit import audit
from tests import interview_cut, ranks
from tests.conftest import daily

SOURCE = Path(interview.__file__)
SHORT: dict[str, Any] = {"checkpoint_every_steps": 16}


def test_it_can_be_typed() -> None:
    """250 lines as a page shows them: nobody types the markers of sections."""
    lines = SOURCE.read_text().splitlines()
    shown = [line for line in lines if "--8<--" not in line]
    assert len(shown) <= 250
    assert max(map(len, lines)) <= 80


def outcome(last: dict[str, Any]) -> dict[str, Any]:
    """Of `run_finished`, what every launch and rank must agree on."""
    return {k: last[k] for k in ("step", "position", "loss", "weights_sha256")}


EVERY = (1, "fp32"), (2, "fp32"), (4, "fp32"), (2, "bf16"), (2, "fp16")


@pytest.mark.parametrize(
    ("world", "precision"),
    daily(EVERY, (1, "fp32"), (4, "fp32"), (2, "fp16")),
)
def test_resume_is_bitwise(world: int, precision: str, tmp_path: Path) -> None:
    """The one-file trainer, stopped in an epoch and at its end and resumed,
    ends with the bits of an undisturbed run, on 1, 2 and 4 ranks."""
    same = {**SHORT, "precision": precision, "max_steps": 80}
    whole = interview_cut.launch(world, tmp_path / "whole", **same)
    for step in (20, 63):  # in an epoch; where one ends and the next begins
        interview_cut.launch(world, tmp_path / "run", stop_at_step=step, **same)
    last = interview_cut.launch(world, tmp_path / "run", num_workers=2, **same)
    agreed = outcome(whole[0])
    assert [outcome(end) for end in whole + last] == [agreed] * (2 * world)
    report = audit(tmp_path / "run")
    assert report.findings == []
    assert report.finished
    assert (report.steps, report.restarts, report.epochs) == (80, 2, 1)


def train_and_die(cfg: interview.TrainConfig) -> None:
    """Every rank is killed once all have trained on step 27."""
    trained_on = interview.Log.trained_on

    def dying(self: Any, step: int, *rest: Any) -> None:
        trained_on(self, step, *rest)
        if step == 27:
            dist.barrier()  # a rank that sees another one die would raise
            os.kill(os.getpid(), signal.SIGKILL)

    interview.Log.trained_on = dying
    interview_cut.train(cfg)


@pytest.mark.parametrize("world", [1, 2, 4])
def test_killed_job_loses_no_sample(world: int, tmp_path: Path) -> None:
    """A job is killed at a step and launched again. It ends with the result of
    an uninterrupted run, and its audit is proven."""
    whole = interview_cut.launch(world, tmp_path / "whole", **SHORT)[0]
    job = ranks.Ranks(
        world,
        train_and_die,
        interview_cut.config(world, tmp_path / "run", **SHORT),
    )
    with pytest.raises(ranks.RankError, match=r"rank \d died"):
        job.results()
    last = interview_cut.launch(world, tmp_path / "run", **SHORT)[0]
    assert outcome(last) == outcome(whole)
    report = audit(tmp_path / "run")
    assert report.proven
    assert (report.restarts, report.replayed_steps) == (1, 27 - 16)


def test_different_world_size_keeps_the_batch(tmp_path: Path) -> None:
    """The cut resumes at a different world size with the run's order, schedule
    and batch. Only the last bits of sums differ, so the losses are close and
    not equal."""
    plain = {"dropout": 0.0, "max_steps": 24, "log_every_steps": 4}
    alone = interview_cut.launch(1, tmp_path / "alone", **plain)[0]
    for world in (4, 2, 1):
        stop = {4: 8, 2: 16, 1: 0}[world]
        last = interview_cut.launch(
            world, tmp_path / "run", stop_at_step=stop, **plain
        )
    assert last[0]["loss"] == pytest.approx(alone["loss"], rel=1e-4)
    assert audit(tmp_path / "run").proven


class Node:
    """The functions of `torch.cuda` for a process on a node with `gpus` GPUs,
    of which it has set number `mine`."""

    def __init__(self, gpus: int, mine: int) -> None:
        self.states = [torch.tensor([100 * mine])] * gpus
        self.mine = mine

    def get_rng_state(self) -> torch.Tensor:
        return self.states[self.mine]

    def set_rng_state(self, state: torch.Tensor) -> None:
        self.states[self.mine] = state

    def get_rng_state_all(self) -> list[torch.Tensor]:
        return list(self.states)

    def set_rng_state_all(self, states: list[torch.Tensor]) -> None:
        for gpu, state in enumerate(states):
            self.states[gpu] = state


def move_between_nodes(
    name: str, run_dir: Path, before: int, after: int
) -> int:
    """Save on nodes with `before` GPUs each and restore on nodes with `after`;
    return the state that this rank's GPU then has."""
    file = importlib.import_module(name)
    cfg = file.TrainConfig(run_dir)
    world, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    file.join(store=ranks.store(), rank=rank, world_size=world)
    log = SimpleNamespace(emit=lambda *_, **__: None)
    r = SimpleNamespace(cfg=cfg, rank=rank, world=world, log=log, parts={})
    r.device = torch.device("cuda")
    for gpus in before, after:
        node = Node(gpus, rank % gpus)
        for verb in ("get", "set"):
            for function in (f"{verb}_rng_state", f"{verb}_rng_state_all"):
                setattr(torch.cuda, function, getattr(node, function))
        if gpus == before:
            node.set_rng_state(torch.tensor([rank]))
            state = {"step": 1, "loss": 0.0, "config": {}, "world_size": world}
            file.save(r, state)
        else:
            file.restore(r)
    return int(node.get_rng_state())


@pytest.mark.parametrize(
    "name", ["lockstep.interview", "lockstep.drills.drill_3_resume.solution"]
)
@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 4)])
def test_gpu_rng_state_follows_its_rank_to_nodes_of_a_different_size(
    name: str, before: int, after: int, tmp_path: Path
) -> None:
    """The one-file trainer saves on one node with four GPUs and resumes on two
    nodes with two GPUs each, and the other way round. Each rank's GPU gets the
    RNG state that this rank saved."""
    (tmp_path / "checkpoints").mkdir()
    job = move_between_nodes, name, tmp_path, before, after
    assert ranks.run_ranks(4, *job) == [0, 1, 2, 3]


def test_the_audit_sees_what_a_cut_did_wrong(tmp_path: Path) -> None:
    """With one bit of a recorded sample id flipped, the audit of the one-file
    trainer's run names the step and the rank."""
    interview_cut.launch(2, tmp_path)
    assert audit(tmp_path).proven
    record = tmp_path / "samples" / "attempt-0-rank-1.bin"
    raw = bytearray(record.read_bytes())
    raw[5 * 8] ^= 1  # the first sample id of the first step, after its header
    record.write_bytes(raw)
    findings = " ".join(audit(tmp_path).findings)
    assert "order_kept: step 1: rank 1" in findings


def test_an_order_that_the_audit_does_not_know_is_not_proven(
    tmp_path: Path,
) -> None:
    interview_cut.launch(1, tmp_path)
    log = tmp_path / "events" / "attempt-0-rank-0.jsonl"
    log.write_text(log.read_text().replace('"permutation"', '"secret"'))
    (finding,) = audit(tmp_path).findings
    assert finding == "order_kept: 'secret' is none of keyed, permutation"


def test_it_digests_weights_as_the_trainer_does() -> None:
    model, _ = interview.build(interview.TrainConfig())
    assert interview.weights_sha256(model) == weights_sha256(model.state_dict())


def test_a_finished_run_says_so_again(tmp_path: Path) -> None:
    first, again = (interview_cut.launch(1, tmp_path)[0] for _ in range(2))
    assert {**again, "time": 0, "attempt": 0} == {**first, "time": 0}


def test_a_gradient_that_is_not_finite_raises(tmp_path: Path) -> None:
    with pytest.raises(ranks.RankError, match="gradient norm nan"):
        ranks.run_ranks(1, train_on_nan, interview_cut.config(1, tmp_path))


def train_on_nan(cfg: interview.TrainConfig) -> None:
    (data, held_out) = interview.toy()
    data.tensors[1][7] = torch.nan
    interview.toy = lambda: (data, held_out)
    interview_cut.train(cfg)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"global_batch_size": 60},
            "--global-batch-size 60 must be a multiple",
        ),
        ({"micro_batch_size": 0}, "--micro-batch-size x 1 ranks, here 0"),
        (
            {"global_batch_size": 4096, "micro_batch_size": 4096},
            "--global-batch-size 4096 exceeds 4000 samples",
        ),
        ({"precision": "fp8"}, "--precision: ['fp32', 'bf16', 'fp16']"),
    ],
)
def test_bad_input_ends_in_one_line(
    settings: dict[str, Any], said: str, tmp_path: Path
) -> None:
    """Each wrong setting of the one-file trainer is refused in one line that
    says what it must be."""
    given = {"micro_batch_size": 16, **settings}
    (found,) = ranks.run_ranks(
        1, refusal, interview_cut.config(1, tmp_path, **given)
    )
    assert said in found
    assert "\n" not in found


def refusal(cfg: interview.TrainConfig) -> str:
    try:
        interview_cut.train(cfg)
    except SystemExit as stop:
        return str(stop.code)
    return "accepted"


def test_torchrun_launches_the_interview_cut(
    tmp_path: Path, warm: Path
) -> None:
    """The command line from the page launches the cut under torchrun, and rank
    0 prints the line that the page shows."""
    command = [str(warm / "torchrun"), "--standalone", "--nproc-per-node=2"]
    command += [str(SOURCE), "--run-dir", str(tmp_path)]
    done = subprocess.run(
        [*command, "--max-steps", "8", "--learning-rate", "0.01"],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["step"] == 8
    assert audit(tmp_path).proven
