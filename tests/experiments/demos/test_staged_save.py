"""A staged checkpoint exists once every rank has written, and not before."""

import threading
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from lockstep.experiments.demos.staged_save import Checkpoints
from lockstep.trainer.process import joined
from tests import ranks

write = dcp.FileSystemWriter.write_data


def shard() -> tuple[Tensor, dict[str, Any]]:
    """Return this rank's half of a tensor, and a state that holds it."""
    mine = torch.ones(2)
    mesh = init_device_mesh("cpu", (2,))
    return mine, {"weights": DTensor.from_local(mine, mesh, [Shard(0)])}


def named(path: Path | None) -> str:
    return path.name if path else ""


def loaded(path: Path) -> list[float]:
    """Read a checkpoint in a single process."""
    state = {"weights": torch.zeros(4)}
    dcp.load(state, checkpoint_id=path, no_dist=True)
    return state["weights"].tolist()


def trained_while_writing(root: str) -> list[str]:
    """Change the weights while rank 1 still writes; return what is newest
    then, and at the end."""
    with joined(60, ranks.store()):
        mine, state = shard()
        checkpoints = Checkpoints(Path(root))
        held = threading.Event()

        def late(*given: Any) -> Any:
            if dist.get_rank() == 1:
                assert held.wait(30)
            return write(*given)

        dcp.FileSystemWriter.write_data = late
        checkpoints.save(10, state)
        mine += 1  # the next step
        checkpoints.publish()
        found = [named(checkpoints.newest())]
        held.set()
        checkpoints.publish(wait=True)
        return [*found, named(checkpoints.newest())]


def test_staged_save_publishes_the_copy_once_all_ranks_have_written(
    tmp_path: Path,
) -> None:
    """The weights change while rank 1 still writes. Until it has written, no
    checkpoint exists; then the checkpoint has the weights of its step."""
    found = ranks.run_ranks(2, trained_while_writing, str(tmp_path))
    assert found == [["", "step-00000010"]] * 2
    assert loaded(tmp_path / "step-00000010") == [1, 1, 1, 1]


def failed_then_repeated(root: str) -> list[str]:
    """Let rank 1 fail while it writes step 20; save step 20 again."""
    with joined(60, ranks.store()):
        mine, state = shard()
        checkpoints = Checkpoints(Path(root))
        checkpoints.save(10, state)
        checkpoints.publish(wait=True)

        def fails(*given: Any) -> Any:
            if dist.get_rank() == 1:
                raise OSError("killed")
            return write(*given)

        dcp.FileSystemWriter.write_data = fails
        checkpoints.save(20, state)
        try:
            checkpoints.publish(wait=True)
        except CheckpointException as error:
            found = [str("killed" in str(error)), named(checkpoints.newest())]
        dcp.FileSystemWriter.write_data = write  # type: ignore[method-assign]
        mine += 2
        checkpoints.save(20, state)
        checkpoints.publish(wait=True)
        return [*found, named(checkpoints.newest())]


def test_staged_save_that_fails_on_one_rank_leaves_the_previous_checkpoint(
    tmp_path: Path,
) -> None:
    """Both ranks are told, the previous checkpoint loads unchanged, and a new
    save of the same step succeeds."""
    found = ranks.run_ranks(2, failed_then_repeated, str(tmp_path))
    assert found == [["True", "step-00000010", "step-00000020"]] * 2
    assert loaded(tmp_path / "step-00000010") == [1, 1, 1, 1]
    assert loaded(tmp_path / "step-00000020") == [3, 3, 3, 3]
