"""A staged checkpoint exists once every rank has written, and not before."""

import threading
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict_saver import AsyncSaveResponse
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from lockstep.experiments.demos.staged_save import COPIES, Checkpoints
from lockstep.trainer.process import joined
from tests import ranks

write = dcp.FileSystemWriter.write_data
ON_A_CPU = {
    "use_pinned_memory": False,
    "use_shared_memory": False,
    "use_non_blocking_copy": False,
}


def shard() -> tuple[Tensor, dict[str, Any]]:
    """Return this rank's half of a tensor, and a state that holds it."""
    mine = torch.ones(2)
    mesh = init_device_mesh("cpu", (2,))
    return mine, {"weights": DTensor.from_local(mine, mesh, [Shard(0)])}


def named(path: Path | None) -> str:
    return path.name.rpartition("-")[0] if path else ""


def loaded(path: Path) -> list[float]:
    """Read the only checkpoint of a step in a single process."""
    state = {"weights": torch.zeros(4)}
    (found,) = path.parent.glob(f"{path.name}-*")
    dcp.load(state, checkpoint_id=found, no_dist=True)
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


def launched_twice(root: str) -> bool:
    """Save step 10 in two launches; return whether the first published it. Rank
    0 of the first launch writes once more during the second launch's save."""
    with joined(60, ranks.store()):
        _, state = shard()
        first, second = Checkpoints(Path(root)), Checkpoints(Path(root))
        first.save(10, state)
        first.close()
        published = first.newest() is not None
        second.save(10, state)
        if dist.get_rank() == 0:
            late = Path(root) / f"tmp-{first.name[0]}"
            late.mkdir()
            (late / "__0_0.distcp").write_bytes(b"late")
        second.close()
        return published


def test_two_launches_publish_the_same_step_under_two_names(
    tmp_path: Path,
) -> None:
    """`close` publishes the last save. A second launch saves the same step
    again, and a late rank of the first launch changes neither checkpoint."""
    assert ranks.run_ranks(2, launched_twice, str(tmp_path)) == [True, True]
    both = sorted(tmp_path.glob("step-00000010-*"))
    assert len(both) == 2
    for path in both:
        state = {"weights": torch.zeros(4)}
        dcp.load(state, checkpoint_id=path, no_dist=True)
        assert state["weights"].tolist() == [1, 1, 1, 1]


def test_a_copy_that_is_asynchronous_returns_no_future_of_the_write(
    tmp_path: Path,
) -> None:
    """With the stager's default options, `async_save` returns two futures in
    one response that has no `done`. So the code asks for a synchronous copy."""
    options = StagingOptions(use_async_staging=True, **ON_A_CPU)
    stager = DefaultStager(options)
    saved = dcp.async_save(
        {"weights": torch.ones(2)},
        checkpoint_id=tmp_path / "tmp",
        async_stager=stager,
        no_dist=True,
    )
    assert isinstance(saved, AsyncSaveResponse)
    assert not hasattr(saved, "done")
    saved.upload_completion.result()
    stager.close()
    assert StagingOptions().use_async_staging
    assert not COPIES.use_async_staging
