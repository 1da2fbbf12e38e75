"""Distributed Checkpoint: every rank writes its shard, any number can read."""

from pathlib import Path
from typing import Any

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException

from ...checkpoint import Manifest, digest, rng_state, sync
from ...step import Replica
from ...telemetry import phase
from . import METADATA
from .plain import PlainWriter
from .shards import parted

SHARDS = "shards"  # not a file, but many: DCP names them


class ShardWriter(PlainWriter):
    """Tensors by DCP, each rank its own part; the rest as the core writes it.

    DCP alone accepts a torn or a flipped file. Here its files are digested,
    sealed and published like all others, into a directory never used before.
    """

    # --8<-- [start:state]
    def state(self, r: Replica) -> dict[str, Any]:
        tensors, rest = parted(r)
        own = {f"rank-{r.me.rank}.pt": rng_state(), SHARDS: tensors}
        if r.me.rank == 0:
            own["rest.pt"] = rest
        return own

    def write(self, folder: Path, state: dict[str, Any]) -> Manifest:
        try:  # first what all ranks do together: none may fail before it
            dcp.save(
                state[SHARDS],
                storage_writer=PhasedFiles(folder, sync_files=False),
                process_group=self.group,
            )
        except CheckpointException as error:  # no subclass of Exception
            whose = [f"rank {n}: {e}" for n, (e, _) in error.failures.items()]
            raise OSError("; ".join(whose)) from error
        plain = {k: v for k, v in state.items() if k != SHARDS}
        wrote, rank = super().write(folder, plain), dist.get_rank()
        mine = [*folder.glob(f"__{rank}_*.distcp")]
        for path in [*mine, folder / METADATA] if rank == 0 else mine:
            with phase("fsync"):
                sync(path)
            size = path.stat().st_size
            wrote[path.name] = {"bytes": size, "sha256": digest(path)}
        return wrote

    # --8<-- [end:state]


class PhasedFiles(dcp.FileSystemWriter):
    """DCP's files, its writing a phase. What a rank raises there reaches all
    ranks, which DCP gathers it for."""

    def write_data(self, *plans: Any) -> Any:
        with phase("write"):
            return super().write_data(*plans)
