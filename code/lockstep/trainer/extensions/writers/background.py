"""Saving in the background: the loop waits for a copy, not for the disk."""

from pathlib import Path
from threading import Thread
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

from ...checkpoint import Manifest, Writer
from ...process import on_rank0
from ...step import Replica
from ...telemetry import emit, phase

COPIES = StagingOptions(
    use_pinned_memory=torch.cuda.is_available(),
    use_shared_memory=False,
    use_async_staging=False,
    use_non_blocking_copy=False,
)


class BackgroundWriter(Writer):
    """Copies the state, and leaves it to a thread to write and publish.

    A save that comes while the one before is under way is skipped, with an
    event: rank 0 decides, since its thread is the one that publishes. A last
    save waits for it and is done in the foreground. The thread's collectives
    have a group of their own, so that they cannot be mistaken for the loop's.
    """

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.writer.group = dist.new_group(backend="gloo")
        self.copies = DefaultStager(COPIES)  # reuses its memory
        self.thread: Thread | None = None
        self.failure: Exception | None = None

    # --8<-- [start:save]
    def save(self, r: Replica, manifest: Manifest, leaving: bool) -> None:
        with phase("checkpoint"):
            if not self.busy():
                self.wait()  # it may have failed
            if not leaving and on_rank0(self.busy):
                emit("checkpoint_skipped", step=manifest["step"])
                return
            self.wait()
            state = self.writer.state(r)
            if leaving:
                self.writer.finish(r.cfg, manifest, state, leaving)
                return
            copy = self.copies.stage(state)
            self.thread = Thread(
                target=self.finish,
                args=(r.cfg, manifest, copy, leaving),
                daemon=True,  # a run that fails does not wait for it
            )
            self.thread.start()

    def finish(self, *args: Any) -> None:
        """Write one checkpoint in the background thread."""
        try:
            self.writer.finish(*args)
        except Exception as error:
            self.failure = error

    def busy(self) -> bool:
        """Whether the checkpoint before is still being written."""
        return self.thread is not None and self.thread.is_alive()

    def wait(self) -> None:
        """Until nothing is being written. What ended the thread is raised: a
        full disk, which all ranks hear of, does not end it."""
        if self.thread:
            self.thread.join()
        if self.failure:
            raise self.failure

    # --8<-- [end:save]
    def load(self, r: Replica, folder: Path) -> None:
        self.writer.load(r, folder)
