"""The loops with the trainer's pieces end where nobody stopped them, prove what
they trained on, and refuse what is not theirs."""

import hashlib
import json
import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

from lockstep.pieces import Run
from lockstep.trainer import checkpoint
from lockstep.trainer.config import ConfigError
from lockstep.trainer.extensions.audit import audit
from lockstep.trainer.extensions.progress import Notices
from lockstep.trainer.telemetry import attach

LOOPS = "plain_loop", "accelerate_loop", "lightning_loop"


@pytest.fixture(autouse=True)
def env(warm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches and their ranks start with torch loaded, and on one thread."""
    monkeypatch.setenv("PATH", f"{warm}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def words(
    loop: str, run_dir: Path, *settings: object, ranks: int = 2
) -> list[str]:
    """How a loop is launched."""
    said = [
        "torchrun", "--standalone",
        "--nproc-per-node", ranks, "-m", f"lockstep.examples.{loop}",
        "--run-dir", run_dir, "--save-every", 5, "--seconds", 60,
        "--steps", 12, *settings,
    ]  # fmt: skip
    return [str(word) for word in said]


def launch(
    loop: str, run_dir: Path, *settings: object, ranks: int = 2
) -> "subprocess.CompletedProcess[str]":
    """To its end."""
    asked = words(loop, run_dir, *settings, ranks=ranks)
    return subprocess.run(asked, text=True, capture_output=True)


def weights(run_dir: Path, step: int) -> dict[str, Any]:
    """Of a checkpoint."""
    return saved_part(run_dir, step, "model")


def saved_part(run_dir: Path, step: int, name: str) -> Any:
    """Of a checkpoint."""
    folder = run_dir / f"checkpoints/step-{step:08d}"
    return checkpoint.unpacked(folder / f"{name}.pt")


def events(run_dir: Path, attempt: int) -> list[dict[str, Any]]:
    """What rank 0 wrote down in a launch."""
    path = run_dir / f"events/attempt-{attempt}-rank-0.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("loop", LOOPS)
def test_a_stopped_loop_ends_as_one_that_was_not(
    loop: str, tmp_path: Path
) -> None:
    """A loop with the trainer's pieces that was stopped in the middle of an
    epoch ends with the weights of one that was not, bit by bit, and its record
    proves that every sample was trained on once."""
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    for run_dir, *stop in (whole,), (parted, "--stop-at", 7), (parted,):
        ended = launch(loop, run_dir, *stop)
        assert ended.returncode == 0, ended.stderr
    one, other = weights(whole, 12), weights(parted, 12)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    report = audit(parted)
    assert report.proven, report.findings
    assert (report.steps, report.restarts, report.epochs) == (12, 1, 2)
    restored = [e for e in events(parted, 1) if "restored" in e["event"]]
    assert [e["step"] for e in restored] == [7]


@pytest.mark.timeout(300)
def test_loop_with_warm_up_pass_is_bitwise_on_four_ranks(
    tmp_path: Path,
) -> None:
    """The plain loop discards one backward pass at the start of each launch.
    After a stop it ends with the same bits on four ranks too."""
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    for run_dir, *stop in (whole,), (parted, "--stop-at", 7), (parted,):
        ended = launch("plain_loop", run_dir, *stop, ranks=4)
        assert ended.returncode == 0, ended.stderr
    one, other = weights(whole, 12), weights(parted, 12)
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture
def alone() -> Iterator[None]:
    """A process group of this process."""
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("alone")
def test_a_checkpoint_keeps_every_generator(tmp_path: Path) -> None:
    """What a rank draws from Python's, NumPy's and torch's generators after a
    checkpoint is loaded is what it drew after the checkpoint was saved."""

    def draw() -> list[float]:
        return [random.random(), np.random.rand(), float(torch.rand(()))]

    Run(tmp_path, {}, {}, 0).save()
    drawn = draw()
    Run(tmp_path, {}, {}, 0).restore()
    assert draw() == drawn


@pytest.mark.usefixtures("alone")
def test_rng_at_a_different_world_size_follows_seed_rank_and_step(
    tmp_path: Path,
) -> None:
    """A launch at a different world size has no saved RNG states to load. Its
    random numbers follow from seed, rank and step, and differ from the numbers
    at the run's start."""
    saved = Run(tmp_path, {}, {}, 3)
    saved.world = 2
    saved.save()
    drawn = []
    for _ in range(2):
        torch.manual_seed(3)
        begun = torch.get_rng_state()
        Run(tmp_path, {}, {}, 3).restore()
        assert not torch.equal(torch.get_rng_state(), begun)
        drawn.append([random.random(), np.random.rand(), torch.rand(()).item()])
    assert drawn[0] == drawn[1]


@pytest.mark.usefixtures("alone")
def test_a_save_that_fails_is_told_and_training_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a checkpoint cannot be written, one line says so and the newest
    one stays as it was."""
    run = Run(tmp_path, {}, {"keep": 3}, 0)
    saved(run, 1)
    path = run.root / "tmp"
    path.write_text("a file where a folder has to be made")
    attach(Notices())
    saved(run, 2)
    attach()
    assert "no checkpoint of 2: " in capsys.readouterr().err
    assert Run(tmp_path, {}, run.about, 0).restore() == 1


def saved(run: Run, step: int) -> None:
    """Publish the checkpoint of a step."""
    run.state["step"] = step
    run.save(keep=run.about["keep"])


class Tensor:
    """A part of so many bytes."""

    def __init__(self, size: int) -> None:
        self.size = size

    def state_dict(self) -> dict[str, Any]:
        return {"w": torch.zeros(self.size, dtype=torch.uint8)}

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


@pytest.mark.usefixtures("alone")
def test_a_save_reads_back_no_checkpoint_but_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A save reads back what it has just written, and none of the older
    checkpoints, however many are kept."""
    size, read = 1_000_000, list[int]()
    whole = hashlib.file_digest

    def counted(file: Any, name: str) -> Any:
        read.append(os.fstat(file.fileno()).st_size)
        return whole(file, name)

    monkeypatch.setattr(hashlib, "file_digest", counted)
    run = Run(tmp_path, {"model": Tensor(size)}, {"keep": 4}, 0)
    for step in range(1, 9):
        read.clear()
        saved(run, step)
        assert size <= sum(read) < 1.5 * size
    assert len([*run.root.glob("step-*")]) == 4


@pytest.mark.usefixtures("alone")
def test_what_is_damaged_on_the_disk_never_replaces_the_last_good_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the disk returns other bytes than were written, no good checkpoint
    is removed; once it is sound again, the damaged ones go."""
    run = Run(tmp_path, {}, {"keep": 2}, 0)
    for step in (1, 2, 3):
        saved(run, step)
    sound = checkpoint.write_file

    def damaging(path: Path, data: bytes) -> dict[str, Any]:
        found = sound(path, data)
        if path.suffix == ".pt":
            path.write_bytes(data[:-1] + b"?")
        return found

    monkeypatch.setattr(checkpoint, "write_file", damaging)
    for step in (4, 5, 6, 7, 8):
        saved(run, step)
        assert steps(run, whole=True) == [2, 3]
    monkeypatch.undo()
    for step in (9, 10, 11):
        saved(run, step)
        assert step in steps(run, whole=True)
    assert steps(run) == [10, 11]


def steps(run: Run, whole: bool = False) -> list[int]:
    """Those that have a checkpoint, or one that is as it was published."""
    found = []
    for path in sorted(run.root.glob("step-*")):
        with suppress(ValueError):
            if whole:
                checkpoint.verify(path)
            found.append(int(path.name[5:]))
    return found


@pytest.mark.usefixtures("alone")
def test_a_checkpoint_that_was_changed_is_set_aside(tmp_path: Path) -> None:
    """A launch that finds the newest checkpoint overwritten says so, keeps it
    under another name and goes on from the one before."""
    run = Run(tmp_path, {}, {"keep": 2}, 0)
    for step in (1, 2):
        saved(run, step)
    file = run.root / "step-00000002/rank-0.pt"
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert Run(tmp_path, {}, run.about, 0).restore() == 1
    names = sorted(path.name for path in run.root.glob("*step-*"))
    assert names == ["damaged-step-00000002", "step-00000001"]


@pytest.mark.usefixtures("alone")
def test_a_checkpoint_of_an_older_version_is_refused(tmp_path: Path) -> None:
    """Its run does not start over, and nothing of it is renamed."""
    old = tmp_path / "checkpoints/step-00000004"
    old.mkdir(parents=True)
    (old / "manifest.json").write_text('{"step": 4, "files": {}}')
    (old / "run.pt").touch()
    with pytest.raises(ConfigError, match="saved by an older version"):
        Run(tmp_path, {}, {}, 0).restore()
    assert sorted(path.name for path in old.iterdir()) == [
        "manifest.json",
        "run.pt",
    ]


@pytest.mark.timeout(300)
def test_repeated_steps_have_the_same_losses(
    tmp_path: Path,
) -> None:
    """A launch that resumes from step 5 repeats steps 6 and 7. It logs the same
    samples, rates and losses that the first launch logged for them."""
    assert launch("plain_loop", tmp_path, "--stop-at", 7).returncode == 0
    shutil.rmtree(tmp_path / "checkpoints/step-00000007")
    assert launch("plain_loop", tmp_path).returncode == 0
    first, second = (
        {
            e["step"]: (e["position"], e["learning_rate"], e["loss"])
            for e in events(tmp_path, attempt)
            if e["event"] == "step"
        }
        for attempt in (0, 1)
    )
    assert min(second) == 6
    assert [second[k] for k in (6, 7)] == [first[k] for k in (6, 7)]


def test_loader_iterator_advances_the_dropout_generator() -> None:
    """Each iterator that a DataLoader makes advances torch's default generator,
    which dropout uses too, unless the loader has its own generator."""
    own = torch.Generator()
    for generator, moves in (None, True), (own, False):
        loader = DataLoader(range(4), generator=generator)  # type: ignore[arg-type]
        before = torch.get_rng_state()
        iter(loader)
        assert torch.equal(before, torch.get_rng_state()) != moves


@pytest.mark.timeout(300)
def test_averages_scaler_and_workers_go_on_too(tmp_path: Path) -> None:
    """In fp16 with averaged weights and two loader workers the plain loop ends
    with the same average and the same scale."""
    settings = "--fp16", "--workers", 2
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    for run_dir, *stop in (whole,), (parted, "--stop-at", 7), (parted,):
        ended = launch("plain_loop", run_dir, *settings, *stop)
        assert ended.returncode == 0, ended.stderr
    for part in "ema", "scaler", "scheduler":
        one, other = (saved_part(run, 12, part) for run in (whole, parted))
        assert str(one) == str(other), part
    assert saved_part(whole, 12, "scaler")["scale"] < 65536


@pytest.mark.timeout(300)
def test_another_run_is_refused_and_a_busy_directory(tmp_path: Path) -> None:
    """A loop that is launched with another seed into a run's directory ends
    with one line that names the seed, and leaves the run as it was."""
    assert launch("plain_loop", tmp_path, "--stop-at", 5).returncode == 0
    ended = launch("plain_loop", tmp_path, "--seed", 1)
    assert ended.returncode == 1
    assert "--seed is 1; it must be 0, as when this run began" in ended.stderr
    assert weights(tmp_path, 5)
    assert audit(tmp_path).steps == 5


@pytest.mark.timeout(300)
@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_that_is_told_to_end_saves_and_leaves(
    loop: str, tmp_path: Path
) -> None:
    """On SIGTERM all ranks finish the same step, save it and leave; the next
    launch goes on from there."""
    long = "--steps", 10**6, "--save-every", 10**6
    with subprocess.Popen(
        words(loop, tmp_path, *long), stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr
        path = tmp_path / "events/attempt-0-rank-0.jsonl"
        deadline = time.monotonic() + 120
        while not path.exists() or '"step": 3' not in path.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.terminate()
        said = process.stderr.read()
    assert "got signal: 15" in said  # so says torchrun
    (saved,) = (tmp_path / "checkpoints").glob("step-*")
    last = max(e["step"] for e in events(tmp_path, 0) if e["event"] == "step")
    assert saved.name == f"step-{last:08d}"
    report = audit(tmp_path)
    assert report.proven, report.findings
