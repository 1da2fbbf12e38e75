"""A checkpoint is published whole, or it does not exist; damage is found."""

import json
import os
import pickle
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from lockstep.trainer import checkpoint
from lockstep.trainer.checkpoint import (
    Manifest,
    Writer,
    newest_good,
    packed,
    published,
    rng_state,
    seed_rank,
    set_rng_state,
    verify,
    weights_sha256,
    write_file,
)
from lockstep.trainer.config import ConfigError, TrainConfig
from lockstep.trainer.extensions.audit import audit
from lockstep.trainer.extensions.events import read_events
from lockstep.trainer.loop import run
from lockstep.trainer.model import DataParallel, build_model
from lockstep.trainer.process import joined
from lockstep.trainer.telemetry import attach
from tests import ranks
from tests.experiments.faults.damage import (
    Log,
    belonging,
    bomb,
    flip_middle,
    reseal,
    take_older,
)
from tests.jobs import work

Event = dict[str, Any]
FILES = ["model.safetensors", "optimizer.pt", "rank-0.pt", "scaler.pt"]
SHORT: Event = {
    "dataset": "toy",
    "global_batch_size": 24,
    "max_steps": 6,
    "checkpoint_every_steps": 2,
    "log_every_steps": 1,
    "hidden_size": 4,
    "timeout_seconds": 30.0,
}


def settings(run_dir: Path, world: int = 1, **changed: Any) -> Event:
    micro = SHORT["global_batch_size"] // world
    return SHORT | {"run_dir": run_dir, "micro_batch_size": micro} | changed


def train(run_dir: Path, world: int = 1, **changed: Any) -> str:
    """The weights that a run ends with."""
    given = settings(run_dir, world, **changed)
    last = ranks.run_ranks(world, work, given)
    assert last[0]["event"] == "run_finished"
    return str(last[0]["weights_sha256"])


def events(run_dir: Path, kind: str) -> list[Event]:
    """Rank 0's, of all launches."""
    paths = sorted(run_dir.glob("events/attempt-*-rank-0.jsonl"))
    return [e for p in paths for e in read_events(p) if e["event"] == kind]


def names(run_dir: Path) -> list[str]:
    return sorted(path.name for path in (run_dir / "checkpoints").iterdir())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run to its end, one rank, and the weights it ended with."""
    run_dir = tmp_path_factory.mktemp("whole")
    return run_dir, train(run_dir)


@pytest.fixture
def stopped(whole: tuple[Path, str], tmp_path: Path) -> Path:
    """A copy of that run, as if it had not got beyond step 4."""
    run_dir = Path(shutil.copytree(whole[0], tmp_path / "run"))
    shutil.rmtree(run_dir / "checkpoints" / "step-00000006")
    return run_dir


def newest(run_dir: Path) -> Path:
    return published(run_dir / "checkpoints")[0]


def good(run_dir: Path) -> list[str]:
    """The published checkpoints that verify."""
    found = []
    for path in published(run_dir / "checkpoints"):
        verify(path)
        found.append(path.name)
    return found


# Killed at any moment


def killed(given: Event, at: int) -> int:
    """Die in place of the `at`-th call that orders what is on the disk, or in
    the middle of it; returns how many calls there were, if it is beyond."""
    calls = [0]

    def dying(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            calls[0] += 1
            if calls[0] == at:
                if original is remove and Path(args[0]).exists():
                    next(Path(args[0]).iterdir()).unlink()
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*args, **options)

        return call

    remove = shutil.rmtree
    shutil.rmtree = dying(remove)  # type: ignore[assignment]
    os.fsync = dying(os.fsync)
    Path.rename = dying(Path.rename)  # type: ignore[method-assign]
    work(given)
    return calls[0]


@pytest.mark.slow
def test_kill_at_any_moment_of_publishing_resumes(
    whole: tuple[Path, str], tmp_path: Path
) -> None:
    """The run is killed before a file is synced, before the manifest, before
    and after the rename, and while an old checkpoint is dropped. Every
    checkpoint under its final name is whole, and the next launch resumes from
    it or from the start."""
    given = settings(tmp_path, stop_at_step=4, keep_checkpoints=1)
    (calls,) = ranks.run_ranks(1, killed, given | {"run_dir": tmp_path}, 0)
    assert calls > 20  # two checkpoints of five files, their names, the record
    restarted_from = set()
    for first in range(1, calls + 1, 2):  # two at a time: starting is waiting
        moments = [k for k in (first, first + 1) if k <= calls]
        run_dirs = [tmp_path / f"killed-{k}" for k in moments]
        jobs = [
            ranks.Ranks(1, killed, given | {"run_dir": run_dir}, k)
            for run_dir, k in zip(run_dirs, moments, strict=True)
        ]
        for job in jobs:
            with pytest.raises(ranks.RankError, match="died"):
                job.results()
        for run_dir in run_dirs:
            restarted_from |= set(good(run_dir)[:1] or ["the start"])
        jobs = [ranks.Ranks(1, work, settings(d)) for d in run_dirs]
        for job, run_dir in zip(jobs, run_dirs, strict=True):
            assert job.results()[0]["weights_sha256"] == whole[1]
            assert audit(run_dir).proven
            assert "tmp" not in names(run_dir)
    assert restarted_from == {"the start", "step-00000002", "step-00000004"}


# Damage: a thousand kinds of it are in test_corruption.py


@pytest.fixture
def told() -> Iterator[list[Event]]:
    """The events of this process."""
    log = Log()
    attach(log)
    yield log.seen
    attach()


def test_every_checkpoint_may_be_damaged(
    stopped: Path, told: list[Event], whole: tuple[Path, str]
) -> None:
    for path in published(stopped / "checkpoints"):
        flip_middle(path / "model.safetensors")
    belongs = belonging(verify(newest(whole[0])))
    assert newest_good(stopped / "checkpoints", belongs) is None
    damaged = [e["checkpoint"] for e in told]
    assert damaged == ["step-00000004", "step-00000002"]


def test_damaged_checkpoint_falls_back_to_the_previous(
    stopped: Path, whole: tuple[Path, str]
) -> None:
    """The newest checkpoint is damaged. The run resumes from the previous
    checkpoint, ends with the same weights, and sets the damaged checkpoint
    aside."""
    flip_middle(newest(stopped) / "optimizer.pt")
    assert train(stopped) == whole[1]
    assert names(stopped) == [
        *("damaged-step-00000004", "step-00000002"),
        *("step-00000004-a1", "step-00000006"),
    ]
    saved = events(stopped, "checkpoint_saved")
    assert [e["checkpoint"] for e in saved if e["attempt"] == 1] == [
        *("step-00000004-a1", "step-00000006"),
    ]
    assert audit(stopped).proven


def test_sealed_pickle_runs_no_code(stopped: Path) -> None:
    """A forger who knows the format seals a pickle with code into a checkpoint.
    Nothing of it runs, because only tensors and plain data are loaded."""
    folder = newest(stopped)
    marker = bomb(folder / "optimizer.pt")
    reseal(folder)
    with pytest.raises(ranks.RankError, match="UnpicklingError"):
        train(stopped)
    assert not marker.exists()
    torch.load(folder / "optimizer.pt", weights_only=False)
    assert marker.exists()  # it would have


# What is published, and kept


def test_manifest_describes_the_checkpoint(tmp_path: Path) -> None:
    """The manifest holds the run's settings, step, position and the size and
    digest of each file, and ends with its own digest."""
    train(tmp_path, 2, stop_at_step=2)
    folder = newest(tmp_path)
    manifest = json.loads((folder / "manifest.json").read_text())
    started = events(tmp_path, "run_started")[0]
    step = events(tmp_path, "step")[-1]
    for name in (
        *("world_size", "global_batch_size", "config_digest", "seed"),
        *("dataset_length", "dataset_fingerprint", "torch_version"),
        *("config", "attempt"),
    ):
        assert manifest[name] == started[name], name
    for name in ("step", "position", "learning_rate", "loss"):
        assert manifest[name] == step[name], name
    assert (manifest["step"], manifest["position"]) == (2, 48)
    assert manifest["world_size"] == 2
    assert [*manifest][-1] == "sha256"  # it ends with its own digest
    wrote = {path.name for path in folder.iterdir()} - {"manifest.json"}
    assert set(manifest["files"]) == wrote == {*FILES, "rank-1.pt"}
    for name, file in manifest["files"].items():
        assert file["bytes"] == (folder / name).stat().st_size
    for name in wrote - {"model.safetensors"}:
        torch.load(folder / name, weights_only=True)
    model = build_model(TrainConfig(**settings(tmp_path)), 32, 4)
    model.load_state_dict(load_file(folder / "model.safetensors"))
    end = events(tmp_path, "run_finished")[0]
    assert weights_sha256(model.state_dict()) == end["weights_sha256"]


def test_each_rank_saves_random_states_of_its_own(tmp_path: Path) -> None:
    train(tmp_path, 2, stop_at_step=2)
    first, second = (
        (newest(tmp_path) / f"rank-{rank}.pt").read_bytes() for rank in (0, 1)
    )
    assert first != second


@pytest.mark.parametrize("keep", [1, 2, 5])
def test_the_newest_are_kept(keep: int, tmp_path: Path) -> None:
    train(tmp_path, keep_checkpoints=keep)
    every = ["step-00000002", "step-00000004", "step-00000006"]
    assert names(tmp_path) == every[-keep:]
    assert len(good(tmp_path)) == min(keep, 3)


def test_newest_is_by_step_and_then_by_attempt(tmp_path: Path) -> None:
    order = ["step-00000010", "step-00000009-a11", "step-00000009-a2"]
    order += ["step-00000009", "step-00000008-a40"]
    for name in sorted(order):
        (tmp_path / name).mkdir()
    for name in ("tmp", "damaged-step-00000011"):
        (tmp_path / name).mkdir()
    assert [path.name for path in published(tmp_path)] == order


def damaging(given: Event) -> Event:
    """The disk damages the checkpoint of step 4 as soon as it has its name."""
    rename = Path.rename

    def bad(self: Path, target: Path) -> Path:
        renamed = rename(self, target)
        if target.name == "step-00000004":
            flip_middle(target / "model.safetensors")
        return renamed

    Path.rename = bad  # type: ignore[assignment,method-assign]
    return work(given)


def test_the_last_good_one_is_never_dropped(
    whole: tuple[Path, str], tmp_path: Path
) -> None:
    """Told to keep one, and the one just published is bad: the one before it
    stays, and the next launch goes on from there."""
    given = settings(tmp_path, keep_checkpoints=1, stop_at_step=4)
    with pytest.raises(ranks.RankError, match="not as published"):
        ranks.run_ranks(1, damaging, given)
    assert names(tmp_path) == ["step-00000002", "step-00000004"]
    assert train(tmp_path) == whole[1]
    restored = events(tmp_path, "checkpoint_restored")
    assert [e["step"] for e in restored] == [2]


def failing(given: Event, at: int) -> tuple[str, list[list[str]], list[Event]]:
    """A run in which rank 1 cannot write the checkpoint of step `at`:
    (what was raised, the good checkpoints before every try, the events)."""
    cfg = TrainConfig(**given)
    tries: list[list[str]] = []

    class Full(Writer):
        def write(self, folder: Path, state: Event) -> Manifest:
            step = 2 * (1 + len(tries))
            tries.append(good(cfg.run_dir))
            if step == at and int(os.environ["RANK"]) == 1:
                raise OSError("rank 1 has no space left")
            return super().write(folder, state)

    raised, log = "", Log()
    with joined(cfg.timeout_seconds, ranks.store()) as me:
        attach(log)
        cfg = cfg.for_launch(me.world_size, {})
        try:
            run(cfg, me, 0, DataParallel(), Full())
        except OSError as error:
            raised = str(error)
    return raised, tries, log.seen


def test_what_one_rank_cannot_write_is_published_by_none(
    tmp_path: Path,
) -> None:
    """All go on from a failed checkpoint, with an event; the good one before
    it is still there at the next try, although only one is to be kept."""
    given = settings(tmp_path, 2, keep_checkpoints=1)
    for raised, tries, told in ranks.run_ranks(2, failing, given, 4):
        assert raised == ""
        assert tries == [[], ["step-00000002"], ["step-00000002"]]
        failed = [e for e in told if e["event"] == "checkpoint_failed"]
        assert [(e["step"], e["reason"]) for e in failed] == [
            (4, "rank 1 has no space left")
        ]
        saved = [e for e in told if e["event"] == "checkpoint_saved"]
        assert [e["step"] for e in saved] == [2, 6]
        assert told[-1]["event"] == "run_finished"
    assert good(tmp_path) == ["step-00000006"]


def test_a_last_checkpoint_that_fails_is_an_error_on_all(
    tmp_path: Path,
) -> None:
    given = settings(tmp_path, 2, keep_checkpoints=1)
    for raised, *_ in ranks.run_ranks(2, failing, given, 6):
        assert raised == "rank 1 has no space left"
    assert good(tmp_path) == ["step-00000004"]


# What may be restored


def test_checkpoint_of_a_different_run_is_refused_by_field(
    stopped: Path, told: list[Event]
) -> None:
    """A checkpoint whose manifest differs in any identifying field is refused
    with the name of that field, and stays where it is."""
    root = stopped / "checkpoints"
    belongs = belonging(verify(newest(stopped)))
    others: list[tuple[str, Manifest]] = [
        (name, belongs | {name: "other"})
        for name in belongs
        if name != "config"
    ]
    others += [
        (name, belongs | {"config": belongs["config"] | {name: "other"}})
        for name in belongs["config"]
    ]
    for name, other in others:
        setting = name.replace("dataset_", "dataset or --task: ")
        flag = "--" + setting.replace("_", "-")
        with pytest.raises(ConfigError, match=f"^{flag} is 'other'; it must"):
            newest_good(root, other)
    assert told == []  # not damaged: it stays where it is
    assert names(stopped) == ["step-00000002", "step-00000004"]


def test_a_checkpoint_of_another_run_above_one_of_this_is_set_aside(
    stopped: Path, told: list[Event]
) -> None:
    belongs = belonging(verify(newest(stopped)))
    reseal(newest(stopped), seed=8)
    found = newest_good(stopped / "checkpoints", belongs)
    assert found
    assert found[0].name == "step-00000002"
    assert names(stopped) == ["damaged-step-00000004", "step-00000002"]
    (said,) = told
    assert said["event"] == "checkpoint_damaged"
    assert said["checkpoint"] == "step-00000004"
    assert said["reason"].startswith("--seed is 0; it must be 8")


def test_foreign_checkpoint_is_refused_by_every_rank(stopped: Path) -> None:
    """The run directory has lost its identity file. A launch with a different
    seed finds the checkpoints there, and every rank refuses them."""
    (stopped / "run.json").unlink()
    with pytest.raises(ranks.RankError, match="--seed is 7; it must be 0"):
        train(stopped, 2, seed=7)


RESEALED = {"position": 95, "learning_rate": 1e-3, "optimizer_steps": [5]}


@pytest.mark.parametrize("name", [*RESEALED, "step", "scaler"])
def test_state_that_contradicts_its_manifest_is_refused(
    name: str, stopped: Path
) -> None:
    """A checkpoint is sealed again with one value in its manifest that
    contradicts the run. The seal verifies, and the launch still refuses the
    checkpoint and restores nothing."""
    wrong = RESEALED | {"step": 3, "scaler": ["scale"]}
    reseal(newest(stopped), **{name: wrong[name]})
    with pytest.raises(ranks.RankError, match=r"ConfigError: --.* must be"):
        train(stopped)
    assert not events(stopped, "checkpoint_restored")


def test_optimizer_of_a_different_step_is_refused(stopped: Path) -> None:
    """A checkpoint whose optimizer comes from an earlier step than its weights
    is refused."""
    take_older(newest(stopped) / "optimizer.pt")
    reseal(newest(stopped))
    with pytest.raises(ranks.RankError, match=r"--optimizer-steps is \[2\]"):
        train(stopped)


# RNG states


def seeded(given: Event) -> list[tuple[int, ...]]:
    """With which keys a launch seeded its generators."""
    keys = []
    original = checkpoint.seed_rank

    def noting(*key: int) -> None:
        keys.append(key)
        original(*key)

    checkpoint.seed_rank = noting
    work(given)
    return keys


def test_rng_states_at_a_different_world_size_are_derived(
    stopped: Path,
) -> None:
    """At the same world size each rank restores the RNG state that it saved. At
    a different world size the ranks derive new states from seed, rank and
    step."""
    given = settings(stopped, stop_at_step=5)
    assert ranks.run_ranks(1, seeded, given) == [[(0, 0)]]
    given = settings(stopped, 3, stop_at_step=6)
    keys = ranks.run_ranks(3, seeded, given)
    assert keys == [[(0, rank), (0, rank, 5)] for rank in range(3)]
    assert audit(stopped).proven
    with pytest.raises(ranks.RankError, match="a number of ranks that divides"):
        ranks.run_ranks(5, work, settings(stopped, 5))


@pytest.fixture
def own_state() -> Iterator[None]:
    before = rng_state()
    yield
    set_rng_state(before)


def draw() -> list[float]:
    mine = random.gauss(0, 1), np.random.normal(), torch.randn(()).item()
    return [float(value) for value in mine]


@pytest.mark.usefixtures("own_state")
def test_random_states_survive_their_file() -> None:
    """Second halves of Gaussian pairs, which generators keep back, as well."""
    seed_rank(3, 1)
    draw()
    file = BytesIO(packed(rng_state()))
    after = [draw(), draw()]
    seed_rank(4)
    set_rng_state(torch.load(file, weights_only=True))
    assert [draw(), draw()] == after


@pytest.mark.usefixtures("own_state")
def test_the_state_of_a_gpu_follows_its_rank_to_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four ranks on two machines of two GPUs each may go on on one of four: the
    rank that had the first GPU there has the third here."""
    states, mine = [0, 0, 0, 0], 0

    def set_state(state: int) -> None:
        states[mine] = state

    def set_all(new: list[int]) -> None:
        states[: len(new)] = new

    for name, fake in {
        "is_available": lambda: True,
        "get_rng_state": lambda: states[mine],
        "set_rng_state": set_state,
        "get_rng_state_all": lambda: states[:2],
        "set_rng_state_all": set_all,
    }.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    states[0] = 7
    saved = rng_state()
    states, mine = [0, 0, 0, 0], 2
    set_rng_state(saved)
    assert states == [0, 0, 7, 0]


@pytest.mark.usefixtures("own_state")
def test_ranks_are_seeded_apart_and_again_alike() -> None:
    drawn = []
    for key in [(0, 0), (0, 1), (1, 0), (0, 0, 5), (0, 1, 5), (0, 0, 6)]:
        seed_rank(*key)
        drawn.append(draw())
        seed_rank(*key)
        assert draw() == drawn[-1]
    for each in zip(*drawn, strict=True):  # Python's, NumPy's, torch's
        assert len(set(each)) == len(drawn)


# Digests


def test_the_writer_tells_what_it_wrote(tmp_path: Path) -> None:
    wrote = write_file(tmp_path / "a", b"abc")
    assert (tmp_path / "a").read_bytes() == b"abc"
    assert wrote["bytes"] == 3
    # The published digest of "abc" (FIPS 180-2, appendix B.1).
    assert wrote["sha256"].startswith("ba7816bf8f01cfea414140de5dae2223")


def test_the_digest_of_weights_is_of_all_that_they_are() -> None:
    a, b = torch.arange(6.0), torch.ones(2)
    base = {"a": a, "b": b}
    assert weights_sha256(base) == weights_sha256({"a": a.clone(), "b": b})
    strided = torch.stack([a, a], dim=1)[:, 0]
    assert weights_sha256({"a": strided, "b": b}) == weights_sha256(base)
    changed = a.clone()
    changed[3] = torch.nextafter(changed[3], changed[4])
    others = [
        {"b": b, "a": a},
        {"A": a, "b": b},
        {"a": a.view(2, 3), "b": b},
        {"a": a.view(torch.int32), "b": b},
        {"a": changed, "b": b},
        {"a": a},
    ]
    digests = {weights_sha256(other) for other in others}
    assert len(digests | {weights_sha256(base)}) == len(others) + 1


def test_what_is_loaded_is_data_alone() -> None:
    with pytest.raises(pickle.UnpicklingError):
        torch.load(BytesIO(packed([Path("x")])), weights_only=True)
