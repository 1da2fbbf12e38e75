"""The core's plain files, and a way back to them from other formats."""

from pathlib import Path

from ...checkpoint import Writer
from ...step import Replica


class PlainWriter(Writer):
    """Writes as the core does; reads what Distributed Checkpoint wrote too."""

    def load(self, r: Replica, folder: Path) -> None:
        if not (folder / ".metadata").exists():
            super().load(r, folder)
            return
        from .dcp import ShardWriter

        ShardWriter().load(r, folder)
