"""Defect 4: a config digest built on `hash()`, salted in every process."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class TrainConfig:
    dataset: str = "toy"
    learning_rate: float = 3e-4
    global_batch_size: int = 64
    seed: int = 0

    def digest(self) -> str:
        """Equal for equal settings: restoring compares it."""
        settings = tuple(sorted(asdict(self).items()))
        return f"{hash(settings) & 0xFFFFFFFFFFFFFFFF:016x}"
