"""What survives: a checkpoint is published whole, or it does not exist."""

import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
import torch.distributed as dist

from .config import require_same
from .process import on_rank0
from .step import Replica
from .telemetry import emit

Manifest = dict[str, Any]
Writer = Callable[[Path, dict[str, bytes]], Manifest]


def write_files(folder: Path, contents: dict[str, bytes]) -> Manifest:
    """The plain writer: when it returns, the bytes are on the disk."""
    wrote = {}
    for name, data in contents.items():
        (folder / name).write_bytes(data)
        sync(folder / name)
        digest = hashlib.sha256(data).hexdigest()
        wrote[name] = {"bytes": len(data), "sha256": digest}
    return wrote


def sync(path: Path) -> None:
    """Wait until a file, or a directory's list of names, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def save(r: Replica, manifest: Manifest, write: Writer) -> Manifest:
    """Publish every rank's state; returns its name and size. All ranks call
    it; if one cannot write, all raise its OSError and nothing is replaced."""
    folder = r.cfg.run_dir / "checkpoints" / "tmp"
    on_rank0(lambda: shutil.rmtree(folder, ignore_errors=True))
    on_rank0(lambda: folder.mkdir(parents=True))
    contents, weights = {}, r.strategy.full_state()
    contents[f"rank-{r.me.rank}.pt"] = packed(rng_state())
    if r.me.rank == 0:
        contents["model.safetensors"] = safetensors.torch.save(weights)
        contents["optimizer.pt"] = packed(r.optimizer.state_dict())
        contents["scaler.pt"] = packed(r.scaler.state_dict())
    everyone: list[Any] = [None] * r.me.world_size
    try:
        dist.all_gather_object(everyone, write(folder, contents))
    except OSError as error:
        dist.all_gather_object(everyone, error)
    return on_rank0(lambda: publish(r, folder, manifest, everyone))


def publish(r: Replica, tmp: Path, manifest: Manifest, wrote: list) -> Manifest:
    """Seal, sync and rename `tmp`; then drop what is too old to keep."""
    for files in wrote:
        if isinstance(files, OSError):
            raise files
        manifest["files"] = manifest.get("files", {}) | files
    manifest["sha256"] = seal(manifest)
    write_files(tmp, {"manifest.json": json.dumps(manifest).encode()})
    sync(tmp)
    root, name = tmp.parent, f"step-{manifest['step']:08d}"
    if any(root.glob(f"*{name}*")):  # a name is never used twice
        name += f"-a{manifest['attempt']}"
    tmp.rename(root / name)
    sync(root)
    verify(root / name)  # only while this one is good may another go
    for old in published(root)[r.cfg.keep_checkpoints :]:
        shutil.rmtree(old.rename(tmp))
    size = sum(file["bytes"] for file in manifest["files"].values())
    return {"checkpoint": name, "bytes": size}


def seal(manifest: Manifest) -> str:
    """The digest of all that a manifest says, but for the digest itself."""
    body = {k: v for k, v in manifest.items() if k != "sha256"}
    return hashlib.sha256(json.dumps(body).encode()).hexdigest()


def published(root: Path) -> list[Path]:
    """Checkpoints, the newest step and attempt first."""
    def age(path: Path) -> tuple[str, int, str]:
        return path.name[:13], len(path.name), path.name
    return sorted(root.glob("step-*"), key=age, reverse=True)


def verify(path: Path) -> Manifest:
    """The manifest of a checkpoint that is, byte for byte, what was published;
    anything else raises OSError, LookupError, TypeError or ValueError."""
    manifest = json.loads((path / "manifest.json").read_bytes())
    if any(file.is_symlink() for file in path.iterdir()):
        raise ValueError("a file is a link to somewhere else")
    if manifest["sha256"] != seal(manifest):
        raise ValueError("manifest.json is not as published")
    for name, wrote in manifest["files"].items():
        with (path / name).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != wrote["sha256"]:
            raise ValueError(f"{name} is not as published")
    return manifest


def restore(r: Replica, belongs: Manifest) -> Manifest | None:
    """Load the newest good checkpoint, the same on all ranks; its manifest.
    ConfigError, if it does not belong to the run that `belongs` describes."""
    root = r.cfg.run_dir / "checkpoints"
    def load(name: str) -> Any:
        return torch.load(folder / name, "cpu", weights_only=True)
    if not (found := on_rank0(lambda: newest_good(root, belongs))):
        return None
    folder, manifest = found
    r.strategy.load(safetensors.torch.load_file(folder / "model.safetensors"))
    r.optimizer.load_state_dict(load("optimizer.pt"))
    r.scaler.load_state_dict(load("scaler.pt"))
    if manifest["world_size"] == r.me.world_size:
        set_rng_state(load(f"rank-{r.me.rank}.pt"))
    else:  # other ranks, other states: a function of (seed, rank, step)
        seed_rank(r.cfg.seed, r.me.rank, manifest["step"])
    return manifest | {"checkpoint": folder.name}


def newest_good(root: Path, belongs: Manifest) -> tuple[Path, Manifest] | None:
    """Sets aside what is damaged, refuses what belongs to another run."""
    for path in published(root):
        try:
            manifest = verify(path)
        except (OSError, LookupError, TypeError, ValueError) as error:
            path.rename(root / f"damaged-{path.name}")
            emit("checkpoint_damaged", checkpoint=path.name, reason=str(error))
        else:
            require_same(belongs["config"], manifest["config"])
            require_same(belongs, {name: manifest[name] for name in belongs})
            return path, manifest
    return None


def packed(state: Any) -> bytes:
    """Tensors and plain data, as `torch.load(weights_only=True)` wants."""
    torch.save(state, buffer := BytesIO())
    return buffer.getvalue()


def seed_rank(*key: int) -> None:
    """Seed Python, NumPy and torch from `key`: unlike on every rank."""
    python, numpy, both = np.random.SeedSequence(key).generate_state(3)
    random.seed(int(python))
    np.random.seed(numpy)
    torch.manual_seed(int(both))


def rng_state() -> list[Any]:
    """Python's, NumPy's, torch's and CUDA's, as tensors and plain data."""
    numpy = np.random.get_state(legacy=False)
    numpy["state"]["key"] = numpy["state"]["key"].tolist()
    return [random.getstate(), numpy,
            torch.get_rng_state(), torch.cuda.get_rng_state_all()]


def set_rng_state(state: list[Any]) -> None:
    """The inverse of `rng_state`."""
    random.setstate(state[0])
    np.random.set_state(state[1])
    torch.set_rng_state(state[2])
    torch.cuda.set_rng_state_all(state[3])


def weights_sha256(weights: dict[str, torch.Tensor]) -> str:
    """Over names in order, dtype, shape and little-endian bytes."""
    digest = hashlib.sha256()
    for name, tensor in weights.items():
        digest.update(f"{name} {tensor.dtype} {[*tensor.shape]}".encode())
        raw = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
        digest.update(raw.numpy().tobytes())
    return digest.hexdigest()
