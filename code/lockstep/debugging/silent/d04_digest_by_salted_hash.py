"""Defect 4: a config digest built on `hash()`, salted in every process."""

import os
import subprocess
import sys
from dataclasses import asdict, dataclass


# --8<-- [start:copy]
@dataclass(frozen=True)
class TrainConfig:
    """What a run is."""

    dataset: str = "toy"
    learning_rate: float = 3e-4
    global_batch_size: int = 64
    seed: int = 0

    def digest(self) -> str:
        """Equal for equal settings: restoring compares it."""
        settings = tuple(sorted(asdict(self).items()))
        return f"{hash(settings) & 0xFFFFFFFFFFFFFFFF:016x}"


# --8<-- [end:copy]
def demonstrate() -> None:
    """One config in one process, then in two."""
    same = TrainConfig(seed=3).digest() == TrainConfig(seed=3).digest()
    print(f"equal inside one process: {same}")
    code = f"import {__name__} as m; print(m.TrainConfig(seed=3).digest())"
    for launch in range(2):
        command = [sys.executable, "-c", code]
        env = os.environ | {"PYTHONHASHSEED": "random"}  # as it is by default
        digest = subprocess.check_output(command, env=env, text=True).strip()
        print(f"launch {launch}: {digest}")
