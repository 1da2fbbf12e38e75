"""What loads after one bit of a checkpoint was flipped.

python -m lockstep.experiments.demos.checkpoint_bit_flip
"""

import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file, save_file
from torch import Tensor


# --8<-- [start:flipped]
def flip(path: Path, weights: Tensor) -> None:
    """Turn one bit of the first weight, where it lies in a file."""
    raw = bytearray(path.read_bytes())
    raw[raw.index(weights.numpy().tobytes()) + 3] ^= 1
    path.write_bytes(raw)


def read_back(folder: Path, weights: Tensor) -> dict[str, Tensor]:
    """What three readers make of a file with a bit turned."""
    saved, loaded = {"w": weights}, {"w": torch.zeros_like(weights)}
    torch.save(saved, pt := folder / "w.pt")
    save_file(saved, safe := folder / "w.safetensors")
    dcp.save(saved, checkpoint_id=folder / "dcp", no_dist=True)
    for path in pt, safe, folder / "dcp" / "__0_0.distcp":
        flip(path, weights)
    dcp.load(loaded, checkpoint_id=folder / "dcp", no_dist=True)
    return {
        "torch.load": torch.load(pt, weights_only=True)["w"],
        "safetensors": load_file(safe)["w"],
        "dcp.load": loaded["w"],
    }


# --8<-- [end:flipped]
def main() -> None:
    """Who finds it."""
    with TemporaryDirectory() as name:
        weights = torch.arange(1.0, 65.0)
        for reader, found in read_back(Path(name), weights).items():
            print(f"{reader}: no error, 1.0 became {found[0]}")
        bad = zipfile.ZipFile(Path(name) / "w.pt").testzip()
        print("unzip -t would say: bad CRC in", bad)


if __name__ == "__main__":
    main()
