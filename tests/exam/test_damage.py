"""Files are damaged as is said, and a booby trap is one."""

import gzip
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from lockstep.exam import damage


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A file of torch's."""
    path = tmp_path / "state.pt"
    torch.save({"w": torch.ones(1000), "step": 3}, path)
    return path


def test_cut_short_and_flipped(saved: Path) -> None:
    """Half of a file is left; one bit of another differs, in a tensor, and
    torch loads it without a word."""
    before = saved.read_bytes()
    damage.flip(saved)
    after = saved.read_bytes()
    assert sum(a != b for a, b in zip(before, after, strict=True)) == 1
    loaded = torch.load(saved, weights_only=True)
    assert (loaded["w"] != 1).sum() == 1
    empty = saved.with_name("whole")
    empty.touch()
    damage.flip(empty)  # a marker, say: there is nothing to flip
    damage.truncate(saved)
    assert saved.stat().st_size == len(before) // 2


def test_files_come_largest_first(tmp_path: Path) -> None:
    """Of a folder with folders in it, or a file that is a checkpoint."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/large").write_bytes(b"123")
    (tmp_path / "small").write_bytes(b"1")
    names = [path.name for path in damage.files(tmp_path)]
    assert names == ["large", "small"]
    assert damage.files(tmp_path / "small") == [tmp_path / "small"]


def test_a_trap_goes_off_where_code_of_a_file_is_run(
    saved: Path, tmp_path: Path
) -> None:
    """A pickle that was trapped runs a command when it is loaded, and holds
    what it held; `weights_only=True` refuses it."""
    touched = tmp_path / "a folder's file; touched"
    assert damage.booby_trap(saved, touched) == 1
    with pytest.raises(pickle.UnpicklingError):
        torch.load(saved, weights_only=True)
    assert not touched.exists()
    loaded = torch.load(saved, weights_only=False)
    assert touched.exists()
    assert loaded["step"] == 3
    assert loaded["w"].sum() == 1000


def test_gzipped_archive_is_booby_trapped_inside(
    saved: Path, tmp_path: Path
) -> None:
    """The exam puts a trap into a pickle inside an archive that gzip has
    packed, and the rest of the archive can still be read."""
    touched = tmp_path / "touched"
    packed = tmp_path / "state.pt.gz"
    packed.write_bytes(gzip.compress(saved.read_bytes()))
    assert damage.booby_trap(packed, touched) == 1
    false = tmp_path / "false"
    false.write_bytes(b"\x1f\x8b and no gzip")
    assert damage.booby_trap(false, touched) == 0
    with gzip.open(packed) as file:
        loaded = torch.load(file, weights_only=False)
    assert touched.exists()
    assert loaded["step"] == 3


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_pickles_of_each_protocol(tmp_path: Path, protocol: int) -> None:
    path, touched = tmp_path / "state.pkl", tmp_path / "touched"
    value: Any = {"a": [1, 2.5, "three"], "b": (None, b"x" * 300)}
    path.write_bytes(pickle.dumps(value, protocol))
    assert damage.booby_trap(path, touched) == 1
    assert pickle.loads(path.read_bytes()) == value
    assert touched.exists()


def test_what_is_no_pickle_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    path.write_bytes(b"\x80not a pickle")
    assert damage.booby_trap(path, tmp_path / "touched") == 0
    assert path.read_bytes() == b"\x80not a pickle"
