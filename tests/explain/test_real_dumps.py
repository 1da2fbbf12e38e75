"""Real dumps of 4 x 16 ranks, with the ranks that were made to fail."""

import re
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lockstep.cli import main
from lockstep.explain import dumps

ARCHIVE = (
    Path(__file__).parents[1] / "data/nvidia_resiliency_ext/fr_traces.tar.xz"
)


@cache
def files() -> dict[str, bytes]:
    """Return the archive's files by name."""
    with tarfile.open(ARCHIVE) as archive:
        return {
            one.name: content.read()
            for one in archive
            if (content := archive.extractfile(one))
        }


def case(name: str) -> tuple[dict[int, dict[str, Any]], list[int]]:
    """Return a case's dumps by rank, and the ranks that were made to fail."""
    read = {}
    for path, data in files().items():
        if path.startswith(f"{name}/_dump_"):
            read[dumps.rank_of(Path(path))] = dumps.read(Path(path), data)
    log = files()[f"{name}/fault_injection.log"].decode()
    return read, [int(rank) for rank in re.findall(r"Rank (\d+), ", log)]


NAMES = ["gpu_error_1st", "gpu_error_2nd", "lock_gil_1st", "lock_gil_2nd"]


@pytest.mark.parametrize("name", NAMES)
def test_real_dumps_name_exactly_the_injected_ranks(name: str) -> None:
    """Two of 16 ranks were made to fail, by a GPU error or by a thread that
    holds Python's lock: the suspects are these two ranks."""
    read, injected = case(name)
    assert len(read) == 16
    assert len(injected) == 2
    assert dumps.compared(read)["suspects"] == injected


@pytest.mark.parametrize("name", NAMES)
def test_without_one_real_dump_no_other_rank_is_blamed(name: str) -> None:
    """Whichever dump is missing, every suspect is an injected rank, and there
    is always one."""
    read, injected = case(name)
    for lost in read:
        rest = {rank: dump for rank, dump in read.items() if rank != lost}
        suspects = dumps.compared(rest)["suspects"]
        assert suspects
        assert set(suspects) <= set(injected)


def test_groups_that_agree_take_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sixteen ranks in three kinds of parallelism have dozens of groups."""
    for path, data in files().items():
        if path.startswith("lock_gil_1st/_dump_"):
            (tmp_path / Path(path).name).write_bytes(data)
    assert main(["explain", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("agree on every collective") == 1
