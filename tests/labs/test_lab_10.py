"""What the page of lab 10 shows, run by itself."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from lockstep.labs.lab_10_checkpoint import grader, solution
from lockstep.parallel.resume import (
    Loader,
    damage,
    load,
    newest,
    prune,
    publish,
    share,
    together,
)
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.data import shares
from lockstep.trainer.process import Process
from tests.ranks import RankError, run_ranks, store


def join() -> int:
    rank, world = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE"))
    dist.init_process_group("gloo", store=store(), rank=rank, world_size=world)
    return rank


def test_a_watch_sees_what_changes_below_its_folder_until_it_ends(
    tmp_path: Path,
) -> None:
    """A rename and a link change the folder that gets the new name."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    seen: list[grader.Moment] = []
    with grader.watched(inside, solution, seen.append):
        (outside / "file").write_text("1")
        os.sync()
        (outside / "file").rename(inside / "file")
        (inside / "link").symlink_to(outside)
        (inside / "file").read_text()
        (inside / "file").rename(outside / "file")
    (inside / "later").mkdir()
    kinds = [(moment.kind, moment.target) for moment in seen]
    assert kinds == [("sync", ""), ("rename", "file"), ("change", "")]


def test_a_loader_goes_on_with_the_next_batch() -> None:
    loader = Loader(range(10), 4, seed=7, prefetch=2)
    batches = [batch for _ in range(2) for batch in loader]
    again = Loader(range(10), 4, seed=7)
    first = next(iter(again))
    assert first == batches[0]
    state = again.state_dict()
    assert state == {"position": 4, "seed": 7, "length": 10}
    other = Loader(range(10), 4, seed=7, prefetch=1)
    other.load_state_dict(json.loads(json.dumps(state)))
    assert [*other, *other] == batches[1:]
    assert other.state_dict()["position"] == 20
    with pytest.raises(ValueError, match="another order"):
        Loader(range(11), 4, seed=7).load_state_dict(state)


def test_an_item_that_cannot_be_fetched_is_the_consumers_error() -> None:
    class Broken(list):
        def __getitem__(self, i):
            raise OSError("no such file")

    loader = Loader(Broken(range(4)), 2, seed=0, prefetch=2)
    with pytest.raises(OSError, match="no such file"):
        next(iter(loader))
    assert loader.state_dict()["position"] == 0


def test_shares_are_the_trainers() -> None:
    """As its sampler deals out a global batch."""
    cfg = TrainConfig(
        run_dir=Path(), seed=3, global_batch_size=6, micro_batch_size=3
    )
    for rank in range(2):
        me = Process(rank, 2, torch.device("cpu"))
        for i, (_, ids) in enumerate(shares(cfg, me, 20, 12, 36)):
            assert share(20, 3, 12 + 6 * i, 6, rank, 2) == ids.tolist()


def saved_and_restored(root: Path) -> list[str]:
    rank, said = join(), list[str]()
    assert newest(root, said.append) is None
    for step in (1, 2, 3, 4):
        model = {"model": torch.full((2,), step)} if rank == 0 else {}
        publish(root, step, {f"rank-{rank}": {"own": rank}, **model})
    if rank == 0:
        prune(root, 3)
        assert not (root / "step-00000001").exists()
        os.truncate(root / "step-00000004" / "model.pt", 9)
    dist.barrier()
    assert newest(root, said.append) == root / "step-00000003"
    assert load(root / "step-00000003", "model").tolist() == [3, 3]
    assert load(root / "step-00000003", f"rank-{rank}") == {"own": rank}
    return said


def test_a_torn_checkpoint_is_passed_over(tmp_path: Path) -> None:
    said, other = run_ranks(2, saved_and_restored, tmp_path / "run")
    assert other == []
    (line,) = said
    assert line.startswith("step-00000004: model.pt has 9 of ")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda f: f.rename(f.with_name("step-00000002")), "is of step 1"),
        (lambda f: (f / "manifest.json").unlink(), "manifest.json is missing"),
        (
            lambda f: (f / "manifest.json").write_text("[]"),
            "cannot be understood",
        ),
        (lambda f: (shutil.rmtree(f), f.touch()), "/manifest.json'"),
        (lambda f: grader.flip(f / "model.pt"), "model.pt is not as published"),
    ],
)
def test_damage_has_a_name(change, why: str, tmp_path: Path) -> None:
    run_ranks(1, one_published, tmp_path)
    change(tmp_path / "step-00000001")
    (folder,) = tmp_path.glob("step-*")
    assert damage(folder).endswith(why)


def one_published(root: Path) -> None:
    join()
    publish(root, 1, {"model": torch.zeros(3)})
    assert damage(root / "step-00000001") == ""


def test_every_bit_of_a_checkpoint_counts(tmp_path: Path) -> None:
    """Also each bit of the manifest, but for a change of its white space."""
    run_ranks(1, one_published, tmp_path)
    folder = tmp_path / "step-00000001"
    manifest = folder / "manifest.json"
    sound = manifest.read_bytes()
    for place in range(len(sound)):
        for bit in range(8):
            torn = bytearray(sound)
            torn[place] ^= 1 << bit
            manifest.write_bytes(torn)
            try:
                same = json.loads(torn) == json.loads(sound)
            except ValueError:
                same = False
            assert same or damage(folder), bytes(torn)


def one_fails(error: str) -> None:
    rank = join()

    def act() -> int:
        if rank == 1:
            raise OSError(error)
        return rank

    with pytest.raises(RuntimeError, match="rank 1: OSError: disk full"):
        together(act)


def test_an_error_of_one_rank_is_everybodys() -> None:
    run_ranks(2, one_fails, "disk full")
    with pytest.raises(RankError, match="other words"):
        run_ranks(2, one_fails, "other words")


def test_the_grader_strikes_every_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the four is killed, and the last one finishes."""
    given = str(solution.__file__), list[str]()
    launches = []

    def noted(given, home, world, attempt=0, doom=None):
        ends = launch(given, home, world, attempt, doom)
        launches.append((bool(doom), bool(ends)))
        return ends

    launch = grader.launch
    monkeypatch.setattr(grader, "launch", noted)
    grader.resumes([given])
    assert launches == [(False, True), *4 * [(True, False)], (False, True)]
