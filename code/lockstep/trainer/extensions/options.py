"""What one launch may choose beyond the settings of the core."""

from dataclasses import dataclass
from typing import Literal

from ..checkpoint import Writer
from ..model import DataParallel
from ..process import Process
from .writers.plain import PlainWriter


@dataclass(frozen=True)
class Options:
    """None of these is part of a run's identity: each launch may differ.

    An extension is imported only if it is chosen: sharding alone takes torch
    as long to import as a short run takes to train.
    """

    strategy: Literal["ddp", "fsdp2"] = "ddp"  # Form of data parallelism
    activation_checkpointing: bool = False  # Recomputation in backward passes
    checkpoint_format: Literal["file", "dcp"] = "file"  # One file or DCP shards
    save_in_background: bool = False  # Saves that overlap training
    fault: tuple[str, ...] = ()  # Fault, as KIND:rank=R,step=S,phase=P

    def make_strategy(self, me: Process) -> DataParallel:
        """Return the strategy that keeps this group's replicas in lock-step."""
        made = DataParallel()
        if self.strategy == "fsdp2":
            from .strategies.fsdp2 import Sharded

            made = Sharded(me)
        if self.activation_checkpointing:
            from .strategies.recompute import recomputing

            made = recomputing(made)
        return made

    def make_writer(self) -> Writer:
        """Return the checkpoint writer, which reads both formats."""
        made: Writer = PlainWriter()
        if self.checkpoint_format == "dcp":
            from .writers.dcp import ShardWriter

            made = ShardWriter()
        if self.save_in_background:
            from .writers.background import BackgroundWriter

            made = BackgroundWriter(made)
        return made
