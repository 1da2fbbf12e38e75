"""What survives: a checkpoint is published whole, or it does not exist."""

import hashlib
import json
import os
import random
import shutil
from io import BytesIO
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import safetensors.torch
import torch
import torch.distributed as dist

from .config import ConfigError, TrainConfig, require_same
from .process import on_rank0
from .step import Replica
from .telemetry import emit, phase

Manifest = dict[str, Any]


class Writer:
    """Writes whole tensors, one file each, and waits until they are on the
    disk. A room may write other files, or later; what is published, and that
    it is, is decided below."""

    group: dist.ProcessGroup | None = None  # the default one

    def save(self, r: Replica, manifest: Manifest, leaving: bool) -> None:
        """Publish the state of this moment. All ranks call it."""
        with phase("checkpoint"):
            self.finish(r.cfg, manifest, self.state(r), leaving)

    def finish(self, cfg: TrainConfig, manifest: Manifest,
               state: dict[str, Any], leaving: bool) -> None:
        """Write `state`, publish, and say so. What one rank cannot write is
        published by none, and training goes on, unless it is `leaving`."""
        step, tmp = manifest["step"], cfg.run_dir / "checkpoints" / "tmp"
        begun, wrote = perf_counter(), [Manifest()] * dist.get_world_size()
        try:
            on_rank0(lambda: fresh(tmp), self.group)
            try:
                mine: Any = self.write(tmp, state)
            except OSError as error:
                mine = error
            dist.all_gather_object(wrote, mine, self.group)
            for files in wrote:
                if isinstance(files, OSError):
                    raise files
                manifest["files"] = manifest.get("files", {}) | files
            saved = on_rank0(lambda: publish(cfg, tmp, manifest), self.group)
        except (OSError, ValueError) as error:
            on_rank0(lambda: shutil.rmtree(tmp, True), self.group)  # its space
            emit("checkpoint_failed", step=step, reason=str(error))
            if leaving:
                raise
        else:
            seconds = perf_counter() - begun
            emit("checkpoint_saved", step=step, seconds=seconds, **saved)

    # --8<-- [start:writes]
    def state(self, r: Replica) -> dict[str, Any]:
        """What this rank is to write, by file name; no copy."""
        own = {f"rank-{r.me.rank}.pt": rng_state()}
        whole = {"model.safetensors": r.strategy.full_state(r.strategy.module),
                 "optimizer.pt": r.strategy.full_state(r.optimizer),
                 "scaler.pt": r.scaler.state_dict()}
        return own | whole if r.me.rank == 0 else own

    def write(self, folder: Path, state: dict[str, Any]) -> Manifest:
        """What was written, by file name: size and digest."""
        return {name: write_file(folder / name, packed(value, name))
                for name, value in state.items()}

    def load(self, r: Replica, folder: Path) -> None:
        """Model, optimizer and scaler, as `state` found them."""
        weights = safetensors.torch.load_file(folder / "model.safetensors")
        r.strategy.load(r.strategy.module, weights)
        r.strategy.load(r.optimizer, unpacked(folder / "optimizer.pt"))
        r.scaler.load_state_dict(unpacked(folder / "scaler.pt"))


# --8<-- [end:writes]
def fresh(folder: Path) -> None:
    """Make `folder` anew, whatever an earlier try left there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(exist_ok=True)  # but never a run that has vanished
    folder.mkdir()


def write_file(path: Path, data: bytes) -> Manifest:
    """When it returns, the bytes are on the disk."""
    with phase("write"):
        path.write_bytes(data)
    with phase("fsync"):
        sync(path)
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def sync(path: Path) -> None:
    """Wait until a file, or a directory's list of names, is on the disk."""
    os.fsync(handle := os.open(path, os.O_RDONLY))
    os.close(handle)


def digest(path: Path) -> str:
    """SHA-256 of a file, which need not fit into memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def publish(cfg: TrainConfig, tmp: Path, manifest: Manifest) -> Manifest:
    """Seal, sync and rename `tmp`; then drop what is too old to keep."""
    manifest["sha256"] = seal(manifest)
    with phase("manifest"):
        write_file(tmp / "manifest.json", json.dumps(manifest).encode())
        sync(tmp)
    root, name = tmp.parent, f"step-{manifest['step']:08d}"
    if any(root.glob(f"*{name}*")):  # a name is never used twice
        name += f"-a{manifest['attempt']}"
    with phase("rename"):
        tmp.rename(root / name)
        sync(root)
    with phase("prune"):
        verify(root / name)  # only while this one is good may another go
        for old in published(root)[cfg.keep_checkpoints :]:
            shutil.rmtree(old.rename(tmp))
    size = sum(file["bytes"] for file in manifest["files"].values())
    return {"checkpoint": name, "bytes": size}


def seal(manifest: Manifest) -> str:
    """The digest of all that a manifest says, but for the digest itself."""
    body = {k: v for k, v in manifest.items() if k != "sha256"}
    return hashlib.sha256(json.dumps(body).encode()).hexdigest()


def published(root: Path) -> list[Path]:
    """Checkpoints, the newest step and attempt first."""
    return sorted(root.glob("step-*"), reverse=True,
                  key=lambda path: (path.name[:13], len(path.name), path.name))


def verify(path: Path) -> Manifest:
    """The manifest of a checkpoint that is, byte for byte, what was published;
    anything else raises OSError, LookupError, TypeError or ValueError."""
    manifest = json.loads((path / "manifest.json").read_bytes())
    if any(file.is_symlink() for file in (path, *path.iterdir())):
        raise ValueError("it is, or it holds, a link to somewhere else")
    if manifest["sha256"] != seal(manifest):
        raise ValueError("manifest.json is not as published")
    for name, wrote in manifest["files"].items():
        if digest(path / name) != wrote["sha256"]:
            raise ValueError(f"{name} is not as published")
    return manifest


def restore(r: Replica, belongs: Manifest, writer: Writer) -> Manifest | None:
    """Load the newest good checkpoint, the same on all ranks; its manifest.
    ConfigError, if it does not belong to the run that `belongs` describes."""
    root = r.cfg.run_dir / "checkpoints"
    if not (found := on_rank0(lambda: newest_good(root, belongs))):
        return None
    folder, manifest = found
    writer.load(r, folder)
    if manifest["world_size"] == r.me.world_size:
        set_rng_state(unpacked(folder / f"rank-{r.me.rank}.pt"))
    else:  # other ranks, other states: a function of (seed, rank, step)
        seed_rank(*(key := (r.cfg.seed, r.me.rank, manifest["step"])))
        emit("random_state_derived", key=key, saved=manifest["world_size"])
    return manifest | {"checkpoint": folder.name}


def newest_good(root: Path, belongs: Manifest) -> tuple[Path, Manifest] | None:
    """Sets aside what is damaged, and what another run left above it.
    ConfigError, where there is none but of another run."""
    foreign: dict[Path, ConfigError] = {}
    for path in published(root):
        try:
            manifest = verify(path)
            require_same(belongs["config"], manifest["config"])
            require_same(belongs, {name: manifest[name] for name in belongs})
        except ConfigError as error:
            foreign[path] = error
        except (OSError, LookupError, TypeError, ValueError) as error:
            set_aside(path, error)
        else:
            for other, why in foreign.items():
                set_aside(other, why)
            return path, manifest
    for why in foreign.values():  # this launch is the one that differs
        raise why
    return None


def set_aside(path: Path, why: Exception) -> None:
    """No later launch finds it; a person may."""
    path.rename(path.with_name(f"damaged-{path.name}"))
    emit("checkpoint_damaged", checkpoint=path.name, reason=str(why))


def packed(value: Any, name: str = "") -> bytes:
    """As a file of that name: safetensors, or what `unpacked` reads."""
    if name.endswith(".safetensors"):
        return safetensors.torch.save(value)
    torch.save(value, buffer := BytesIO())
    return buffer.getvalue()


def unpacked(path: Path) -> Any:
    """Tensors and plain data on the CPU; nothing in the file is executed."""
    return torch.load(path, "cpu", weights_only=True)


def seed_rank(*key: int) -> None:
    """Seed Python, NumPy and torch from `key`: unlike on every rank."""
    python, numpy, both = np.random.SeedSequence(key).generate_state(3)
    random.seed(int(python))
    np.random.seed(numpy)
    torch.manual_seed(int(both))


def rng_state() -> list[Any]:
    """Python's, NumPy's, torch's and this rank's GPU's, as plain data."""
    numpy = np.random.get_state(legacy=False)
    numpy["state"]["key"] = numpy["state"]["key"].tolist()
    gpu = [torch.cuda.get_rng_state()] if torch.cuda.is_available() else []
    return [random.getstate(), numpy, torch.get_rng_state(), gpu]


def set_rng_state(state: list[Any]) -> None:
    """The inverse of `rng_state`."""
    random.setstate(state[0])
    np.random.set_state(state[1])
    torch.set_rng_state(state[2])
    for own in state[3]:
        torch.cuda.set_rng_state(own)


def weights_sha256(weights: dict[str, torch.Tensor]) -> str:
    """Over names in order, dtype, shape and little-endian bytes."""
    digest = hashlib.sha256()
    for name, tensor in weights.items():
        digest.update(f"{name} {tensor.dtype} {[*tensor.shape]}".encode())
        raw = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
        digest.update(raw.numpy().tobytes())
    return digest.hexdigest()
