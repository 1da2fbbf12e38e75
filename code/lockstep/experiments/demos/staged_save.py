"""A checkpoint in three moves: stage a copy, write it, publish it."""

import shutil
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

from lockstep.trainer.checkpoint import sync

GPU = torch.cuda.is_available()
COPIES = StagingOptions(
    use_pinned_memory=GPU,
    use_shared_memory=False,
    use_async_staging=False,
    use_non_blocking_copy=GPU,
)


class Checkpoints:
    """Checkpoints of one run in `root`. Every rank makes every call."""

    # --8<-- [start:save]
    def __init__(self, root: Path) -> None:
        self.root, self.step = root, 0
        self.writing: Any = None  # a future, until it is published
        self.group = dist.new_group(backend="gloo")  # not the loop's group
        self.stager = DefaultStager(COPIES)  # pinned memory, reused

    def save(self, step: int, state: dict[str, Any]) -> None:
        """Copy `state` while training waits, and start to write the copy."""
        self.publish(wait=True)  # one write at a time
        tmp, self.step = self.root / f"tmp-{step:08d}", step
        if dist.get_rank() == 0:
            shutil.rmtree(tmp, ignore_errors=True)  # an earlier attempt's files
        dist.barrier(self.group)
        self.writing = dcp.async_save(
            state,
            checkpoint_id=tmp,
            process_group=self.group,
            async_stager=self.stager,
        )

    def publish(self, wait: bool = False) -> None:
        """Publish the copy if it has been written; called after every step."""
        if self.writing is None or not (wait or self.writing.done()):
            return
        written, self.writing = self.writing, None
        written.result()  # raises on all ranks if any rank failed to write
        if dist.get_rank() == 0:
            tmp = self.root / f"tmp-{self.step:08d}"
            tmp.rename(self.root / f"step-{self.step:08d}")
            sync(self.root)  # the folder holds the new name

    # --8<-- [end:save]
    def newest(self) -> Path | None:
        """Return the newest checkpoint. Rank 0 chooses for all ranks."""
        found = [max(self.root.glob("step-*"), default=None)]
        dist.broadcast_object_list(found)
        return found[0]
