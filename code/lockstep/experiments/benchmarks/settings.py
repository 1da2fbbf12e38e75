"""What is measured, how often, and what the trainer is held to."""

from dataclasses import dataclass
from pathlib import Path

RESULT = Path(__file__).with_name("result.json")
HIDDEN_SIZES = {"tiny": 128, "wide": 1024}  # the default, and a costly one
WORLD_SIZE, ACCUM, MICRO_BATCH = 2, 2, 32
# Some gradients pass this norm and some do not: only then do equal weights
# prove equal weighting and equal clipping.
CLIP_NORM = 0.5
STEPS = 10  # of each loop in a round: the trainer logs every tenth
LIMIT = 1.03  # the trainer's CPU time per step over the bare loop's
FIXED = {
    "hidden_sizes": HIDDEN_SIZES,
    "ranks": WORLD_SIZE,
    "accumulation": ACCUM,
    "micro_batch": MICRO_BATCH,
    "clip_norm": CLIP_NORM,
    "steps_in_a_round": STEPS,
}


@dataclass(frozen=True)
class Settings:
    """How much is measured; each field is a flag of the command line."""

    builds: int = 5  # of everything anew, for each model
    tiny_rounds: int = 200  # of each build
    wide_rounds: int = 40
    saves: int = 20  # checkpoints of each model
    repeats: int = 3  # of each order at each length
    longest: int = 10**9  # samples in an order

    def rounds(self, model: str) -> int:
        """Of one build."""
        return {"tiny": self.tiny_rounds, "wide": self.wide_rounds}[model]
