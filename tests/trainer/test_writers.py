"""Every writer keeps the one contract: published whole, resumed bitwise."""

import os
import pickle
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    MetadataIndex,
)

from lockstep.trainer import checkpoint
from lockstep.trainer.checkpoint import (
    Writer,
    published,
    verify,
    weights_sha256,
)
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.extensions.audit import audit
from lockstep.trainer.extensions.events import read_events
from lockstep.trainer.extensions.options import Options
from lockstep.trainer.extensions.writers.background import BackgroundWriter
from lockstep.trainer.extensions.writers.shards import DataReader
from lockstep.trainer.loop import build
from lockstep.trainer.model import make_task
from lockstep.trainer.process import joined
from tests import ranks
from tests.conftest import daily
from tests.experiments.faults.damage import Bomb, bomb, flip, reseal
from tests.jobs import work
from tests.rank_faults import after_commit

Event = dict[str, Any]
SHORT: Event = {
    "dataset": "toy",
    "global_batch_size": 24,
    "max_steps": 6,
    "checkpoint_every_steps": 2,
    "log_every_steps": 1,
    "hidden_size": 8,
    "timeout_seconds": 60.0,
}


def train(run_dir: Path, world: int, options: Options, **changed: Any) -> str:
    """The weights that a launch ends with."""
    micro = SHORT["global_batch_size"] // world
    given = SHORT | {"run_dir": run_dir, "micro_batch_size": micro} | changed
    last = ranks.run_ranks(world, work, given, options)[0]
    return str(last["weights_sha256"])


def events(run_dir: Path, kind: str, rank: int = 0) -> list[Event]:
    """Of all launches."""
    paths = sorted(run_dir.glob(f"events/attempt-*-rank-{rank}.jsonl"))
    return [e for p in paths for e in read_events(p) if e["event"] == kind]


def newest(run_dir: Path) -> Path:
    return published(run_dir / "checkpoints")[0]


# Every pair of choices once; each day every choice.
EVERY = [
    Options("ddp", False, "file", save_in_background=True),
    Options("ddp", True, "dcp", save_in_background=False),
    Options("fsdp2", True, "file", save_in_background=False),
    Options("fsdp2", False, "dcp", save_in_background=True),
]


def name(options: Options) -> str:
    words = options.strategy, options.checkpoint_format
    return "-".join([*words, *["background"] * options.save_in_background])


@pytest.mark.parametrize("options", daily(EVERY, *EVERY[1:3]), ids=name)
def test_resume_is_bitwise_at_one_topology(
    options: Options, tmp_path: Path
) -> None:
    """On three ranks, of which no tensor's rows are a multiple."""
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    end = train(whole, 3, options)
    train(halves, 3, options, stop_at_step=3)
    assert train(halves, 3, options) == end
    for run_dir in (whole, halves):
        assert audit(run_dir).proven
        for path in published(run_dir / "checkpoints"):
            sealed = {*verify(path)["files"], "manifest.json"}
            assert {file.name for file in path.iterdir()} == sealed
    assert [e["step"] for e in events(halves, "checkpoint_restored")] == [3]


def loaded(settings: Event, options: Options, folder: Path) -> list[str]:
    """What `folder` holds, once these ranks have loaded it: the digests of
    the weights and of the optimizer's state, each of whole tensors."""
    cfg = TrainConfig(**settings)
    with joined(30, ranks.store()) as me:
        r = build(cfg, me, make_task(cfg), options.make_strategy(me))
        options.make_writer().load(r, folder)
        weights = r.strategy.full_state(r.strategy.module)
        states = r.strategy.full_state(r.optimizer)["state"]
        named = {f"{i} {k}": v for i, s in states.items() for k, v in s.items()}
        return [weights_sha256(weights), weights_sha256(named)]


def test_shards_fit_any_number_of_ranks(tmp_path: Path) -> None:
    """Saved by 2, 4, 1 and 2 ranks, DDP and plain files among them, in one
    run: any number of ranks, by DDP or FSDP2, reads the same weights and the
    same optimizer state, bit for bit."""
    fsdp2 = Options(strategy="fsdp2", checkpoint_format="dcp")
    ddp = Options(checkpoint_format="dcp")
    launches = [(2, fsdp2), (4, fsdp2), (1, ddp), (2, Options())]
    for step, (world, options) in enumerate(launches, 2):
        saved = train(tmp_path, world, options, stop_at_step=step)
        given = SHORT | {"run_dir": tmp_path, "grad_accum_steps": 1}
        found = {
            tuple(each)
            for other in (1, 2, 4)
            for reader in (fsdp2, ddp)
            for each in ranks.run_ranks(
                other, loaded, given, reader, newest(tmp_path)
            )
        }
        assert len(found) == 1
        assert found.pop()[0] == saved
    assert audit(tmp_path).proven


def test_either_format_is_read_by_either(tmp_path: Path) -> None:
    """The format is a launch's choice, and a run may change it."""
    end = train(tmp_path / "whole", 2, Options())
    for step, form in [(2, "dcp"), (4, "file"), (6, "dcp")]:
        options = Options(checkpoint_format=form)  # type: ignore[arg-type]
        last = train(tmp_path / "mixed", 2, options, stop_at_step=step)
    assert last == end


# Distributed Checkpoint, sealed


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run_dir = tmp_path_factory.mktemp("sharded")
    options = Options(strategy="fsdp2", checkpoint_format="dcp")
    train(run_dir, 2, options, stop_at_step=4)
    return run_dir


def test_dcp_alone_accepts_a_flipped_byte_and_a_seal_does_not(
    sharded: Path,
) -> None:
    """Distributed Checkpoint loads a file with a flipped byte and returns a
    wrong weight. With the trainer's checksums the file is refused."""
    folder = newest(sharded)
    path = folder / "__0_0.distcp"
    metadata = dcp.FileSystemReader(folder).read_metadata()
    key = "model/0.weight"
    (place,) = (
        info
        for index, info in metadata.storage_data.items()
        if index.fqn == key and info.relative_path == path.name
    )
    whole = {key: torch.zeros(metadata.state_dict_metadata[key].size)}
    other = {key: torch.zeros_like(whole[key])}
    dcp.load(whole, storage_reader=DataReader(folder), no_dist=True)
    raw = path.read_bytes()
    # Somewhere in the tensor's own bytes, in a zip file beside its name.
    data = whole[key][:4].numpy().tobytes()
    at = raw.index(data[:32], place.offset)
    flip(path, at + 16)
    try:
        dcp.load(other, storage_reader=DataReader(folder), no_dist=True)
        assert (other[key] != whole[key]).sum() == 1
        with pytest.raises(ValueError, match=r"__0_0\.distcp is not as"):
            verify(folder)
    finally:
        path.write_bytes(raw)
    verify(folder)


def test_sealed_metadata_with_code_run_nothing(
    sharded: Path, tmp_path: Path
) -> None:
    """DCP's metadata are a pickle; a forger who seals them gets no further."""
    folder, marker = newest(sharded), tmp_path / "executed"
    path = folder / ".metadata"
    before = {p: p.read_bytes() for p in (path, folder / "manifest.json")}
    path.write_bytes(pickle.dumps(Bomb(marker)))
    reseal(folder)
    try:
        with pytest.raises(pickle.UnpicklingError, match="is no metadata"):
            DataReader(folder).read_metadata()
        assert not marker.exists()
        with pytest.raises(AttributeError):  # what it made is no metadata,
            dcp.FileSystemReader(folder).read_metadata()
        assert marker.exists()  # but it did run
    finally:
        for file, raw in before.items():
            file.write_bytes(raw)
    verify(folder)


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_tensor_that_is_called_bytes_runs_nothing(tmp_path: Path) -> None:
    """DCP unpickles an entry that a checkpoint's metadata call bytes, even if a
    tensor is asked for. The trainer's reader refuses such metadata."""
    folder, key = tmp_path / "dcp", "weights"
    dcp.save({key: torch.ones(4)}, checkpoint_id=folder, no_dist=True)
    found = DataReader(folder).read_metadata()
    (place,) = found.storage_data.values()
    data = folder / place.relative_path
    marker = bomb(data)
    place.offset, place.length = 0, data.stat().st_size
    found.state_dict_metadata = {key: BytesStorageMetadata()}
    found.storage_data = {MetadataIndex(key): place}
    (folder / ".metadata").write_bytes(pickle.dumps(found))
    asked = {key: torch.zeros(4)}
    with pytest.raises(CheckpointException, match="is no metadata"):
        dcp.load(asked, storage_reader=DataReader(folder), no_dist=True)
    assert not marker.exists()
    dcp.load(asked, checkpoint_id=folder, no_dist=True)
    assert marker.exists()  # DCP's own reader ran it


def failing(settings: Event, where: str) -> Event:
    """Rank 1 has no space for its shard, or for its random state, in the
    second checkpoint."""
    turn = [0]

    def fail_on_second(*_: Any) -> None:
        turn[0] += 1
        if turn[0] == 2 and os.environ["RANK"] == "1":
            raise OSError(28, "No space left on device")

    if where == "shard":
        write_data = dcp.FileSystemWriter.write_data

        def full(self: Any, *plans: Any) -> Any:
            fail_on_second()
            return write_data(self, *plans)

        dcp.FileSystemWriter.write_data = full  # type: ignore[method-assign]
    else:
        packed = checkpoint.packed

        def full_file(value: Any, file: str = "") -> bytes:
            fail_on_second()
            return packed(value, file)

        checkpoint.packed = full_file
    options = Options(strategy="fsdp2", checkpoint_format="dcp")
    return work(settings, options)


@pytest.mark.parametrize("where", ["shard", "random state"])
def test_a_shard_that_cannot_be_written_is_published_by_none(
    where: str, tmp_path: Path
) -> None:
    given = SHORT | {"run_dir": tmp_path, "micro_batch_size": 12}
    last = ranks.run_ranks(2, failing, given, where)[0]
    assert last["event"] == "run_finished"
    (failed,) = events(tmp_path, "checkpoint_failed")
    assert failed["step"] == 4
    whose = "rank 1: " if where == "shard" else ""
    assert failed["reason"] == f"{whose}[Errno 28] No space left on device"
    names = sorted(path.name for path in published(tmp_path / "checkpoints"))
    assert names == ["step-00000002", "step-00000006"]


# In the background


class Slow(Writer):
    """Writes nothing before it is told to."""

    gate = threading.Event()

    def write(self, folder: Path, state: Event) -> checkpoint.Manifest:
        self.gate.wait(30)
        return super().write(folder, state)


def gated(settings: Event, opened_at: int) -> Event:
    """A run whose writer waits until step `opened_at` is committed."""

    def go(_: object) -> None:
        Slow.gate.set()

    after_commit(opened_at, go)
    Options.make_writer = lambda _: BackgroundWriter(Slow())  # type: ignore
    return work(settings, Options())


def test_the_loop_goes_on_while_a_checkpoint_is_written(
    tmp_path: Path,
) -> None:
    """Held back until step 5 is done, the checkpoint of step 2 is still that
    of step 2; that of step 4 was skipped, and the last one waited for both."""
    given = SHORT | {"run_dir": tmp_path / "held", "micro_batch_size": 12}
    ranks.run_ranks(2, gated, given, 5)
    told = [
        (e["event"], e["step"])
        for e in read_events(
            tmp_path / "held" / "events" / "attempt-0-rank-0.jsonl"
        )
        if e["event"].startswith("checkpoint") or e["event"] == "step"
    ]
    assert told.index(("checkpoint_saved", 2)) > told.index(("step", 5))
    assert [one for one in told if one[0] != "step"] == [
        ("checkpoint_skipped", 4),
        ("checkpoint_saved", 2),
        ("checkpoint_saved", 6),
    ]
    train(tmp_path / "plain", 2, Options())
    for step in (2, 6):
        held, plain = (
            tmp_path / run / "checkpoints" / f"step-{step:08d}"
            for run in ("held", "plain")
        )
        verify(held)
        for file in verify(plain)["files"]:
            assert (held / file).read_bytes() == (plain / file).read_bytes()


def dying(settings: Event) -> Event:
    """Rank 0 dies while its thread writes the checkpoint of step 4."""
    writes = [0]

    class Dying(Writer):
        def write(self, folder: Path, state: Event) -> checkpoint.Manifest:
            writes[0] += 1
            wrote = super().write(folder, state)
            if writes[0] == 2 and os.environ["RANK"] == "0":
                os.kill(os.getpid(), signal.SIGKILL)
            return wrote

    Options.make_writer = lambda _: BackgroundWriter(Dying())  # type: ignore
    # Six steps might be over before the second write: leave it the time.
    return work(settings | {"max_steps": 100_000}, Options())


def test_a_kill_while_the_background_writes_loses_nothing(
    tmp_path: Path,
) -> None:
    """Killed while a checkpoint is written in the background, the run still has
    the one before, whole."""
    given = SHORT | {"run_dir": tmp_path, "micro_batch_size": 12}
    job = ranks.Ranks(2, dying, given)
    with pytest.raises(ranks.RankError, match="died"):
        job.results()
    ready = [path.name for path in published(tmp_path / "checkpoints")]
    assert ready == ["step-00000002"]
    verify(newest(tmp_path))


def refused(settings: Event) -> Event:
    """The disk is full for the first checkpoint, and for no other."""
    writes = [0]

    class Refused(Writer):
        def write(self, folder: Path, state: Event) -> checkpoint.Manifest:
            writes[0] += 1
            if writes[0] == 1:
                raise OSError(28, "No space left on device")
            return super().write(folder, state)

    Options.make_writer = lambda _: BackgroundWriter(Refused())  # type: ignore
    return work(settings, Options())


def test_a_background_write_that_fails_is_told(tmp_path: Path) -> None:
    """A background save that fails is logged, and the run goes on and saves
    again."""
    given = SHORT | {"run_dir": tmp_path, "micro_batch_size": 12}
    last = ranks.run_ranks(2, refused, given)[0]
    assert last["event"] == "run_finished"
    (failed,) = events(tmp_path, "checkpoint_failed", 1)
    assert (failed["step"], "No space" in failed["reason"]) == (2, True)
    assert newest(tmp_path).name == "step-00000006"


def astray(settings: Event) -> Event:
    """The thread of rank 1 raises what is no full disk, at step 2."""

    class Astray(Writer):
        def write(self, folder: Path, state: Event) -> checkpoint.Manifest:
            if os.environ["RANK"] == "1":
                raise RuntimeError("went astray")
            return super().write(folder, state)

    Options.make_writer = lambda _: BackgroundWriter(Astray())  # type: ignore
    return work(settings | {"max_steps": 100_000}, Options())


def test_what_a_thread_raises_is_raised_by_the_next_save(
    tmp_path: Path,
) -> None:
    """The other rank's thread waits for it meanwhile, and trains on."""
    given = SHORT | {"run_dir": tmp_path, "micro_batch_size": 12}
    with pytest.raises(ranks.RankError, match="went astray"):
        ranks.run_ranks(2, astray, given)
    assert published(tmp_path / "checkpoints") == []
