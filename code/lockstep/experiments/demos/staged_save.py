"""A checkpoint in three moves: stage a copy, write it, publish it."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

from lockstep.trainer.checkpoint import sync

# --8<-- [start:save]
GPU = torch.cuda.is_available()
COPIES = StagingOptions(
    use_pinned_memory=GPU,
    use_non_blocking_copy=GPU,
    use_shared_memory=False,  # True: for a process that writes
    use_async_staging=False,  # True: save returns before the copy is complete
)


class Checkpoints:
    """Checkpoints of one run in `root`. Every rank makes every call."""

    def __init__(self, root: Path) -> None:
        self.root, self.name = root, [""]
        self.writing: Any = None  # a future, until it is published
        self.group = dist.new_group(backend="gloo")  # not the loop's group
        self.stager = DefaultStager(COPIES)  # reuses its memory

    def save(self, step: int, state: dict[str, Any]) -> None:
        """Copy `state` while training waits, and start to write the copy."""
        self.publish(wait=True)  # one write at a time
        self.name = [f"{step:08d}-{uuid4().hex}"]  # no other launch's
        dist.broadcast_object_list(self.name, group=self.group)
        self.writing = dcp.async_save(
            state,
            checkpoint_id=self.root / f"tmp-{self.name[0]}",
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
            tmp = self.root / f"tmp-{self.name[0]}"
            tmp.rename(self.root / f"step-{self.name[0]}")
            sync(self.root)  # the folder holds the new name

    def close(self) -> None:
        """Publish the last save and free the copy; called after training."""
        try:
            self.publish(wait=True)
        finally:
            self.stager.close()

    # --8<-- [end:save]
    def newest(self) -> Path | None:
        """Return the newest checkpoint. Rank 0 chooses for all ranks."""
        found = [max(self.root.glob("step-*"), default=None)]
        dist.broadcast_object_list(found)
        return found[0]
