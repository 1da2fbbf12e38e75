"""The core's plain files, and a way back to them from other formats."""

from pathlib import Path

from ...checkpoint import Writer
from ...step import Replica
from . import METADATA


class PlainWriter(Writer):
    """Writes as the core does; reads what Distributed Checkpoint wrote too."""

    def load(self, r: Replica, folder: Path) -> None:
        if not (folder / METADATA).exists():
            super().load(r, folder)
            return
        from .shards import load_shards  # it takes a second to import DCP

        load_shards(r, folder)
