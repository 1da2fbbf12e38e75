"""What a Distributed Checkpoint holds: a rank's state in parts, and back."""

import pickle
from inspect import isclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor, dtype
from torch.distributed.checkpoint import metadata
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_state_dict,
)

from ...checkpoint import unpacked
from ...step import Replica
from . import METADATA

FLAT = StateDictOptions(flatten_optimizer_state_dict=True)
# An entry of this class is unpickled by `dcp.load`, even in place of a tensor.
BYTES = metadata.BytesStorageMetadata
CLASSES = {k: v for k, v in vars(metadata).items() if isclass(v)}
KNOWN = {
    *((metadata.__name__, k) for k, v in CLASSES.items() if v is not BYTES),
    *(("torch", k) for k, v in vars(torch).items() if isinstance(v, dtype)),
    ("torch", "Size"),
    ("torch.serialization", "_get_layout"),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    (type(Path()).__module__, type(Path()).__name__),
}


def parted(r: Replica) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return this rank's tensors by name, and everything else separately: DCP
    would pickle that, and would unpickle anything."""
    model, optimizer = get_state_dict(
        r.strategy.module, r.optimizer, options=FLAT
    )
    named: dict[str, Any] = {f"model/{k}": v for k, v in model.items()}
    named |= {f"optimizer/{k}": v for k, v in optimizer.items()}
    tensors = {k: v for k, v in named.items() if isinstance(v, Tensor)}
    rest = {k: v for k, v in named.items() if k not in tensors}
    return tensors, rest | {"scaler": r.scaler.state_dict()}


def load_shards(r: Replica, folder: Path) -> None:
    """Invert `parted`, from files that any number of ranks wrote."""
    tensors, _ = parted(r)
    dcp.load(tensors, storage_reader=DataReader(folder))
    state = tensors | unpacked(folder / "rest.pt")
    r.scaler.load_state_dict(state.pop("scaler"))
    parts: dict[str, dict[str, Any]] = {"model": {}, "optimizer": {}}
    for name, value in state.items():
        part, _, key = name.partition("/")
        parts[part][key] = value
    set_state_dict(
        r.strategy.module,
        r.optimizer,
        model_state_dict=parts["model"],
        optim_state_dict=parts["optimizer"],
        options=FLAT,
    )


# --8<-- [start:metadata]
class DataReader(dcp.FileSystemReader):
    """Reads `.metadata`, a pickle, as data: other classes than DCP's own for
    tensors are refused, and none of their code runs."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> metadata.Metadata:
        with Path(self.path, METADATA).open("rb") as file:
            found: metadata.Metadata = Unpickler(file).load()
        found.storage_meta = metadata.StorageMeta(load_id=self.load_id)
        return found


class Unpickler(pickle.Unpickler):
    """Knows what DCP's metadata of tensors are made of, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in KNOWN:
            raise pickle.UnpicklingError(f"{module}.{name} is no metadata")
        return super().find_class(module, name)


# --8<-- [end:metadata]
