"""The loss of a run that is killed and resumed, beside one that nobody kills.

    python -m lockstep.experiments.demos.loss_after_resume [FILE]

Writes it as JSON: four curves, each a list of (step, loss). `whole` is the run
that nobody kills; `killed` ends where rank 1 dies, between two checkpoints;
`resumed` is the same command once more. `forgetful` is that too, but loses
the optimizer's moments on the way.
"""

import json
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

# An optimizer's first step imports it: here once for all ranks.
import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer

from lockstep.experiments.provenance import about
from lockstep.instruments.forked import on_ranks
from lockstep.trainer.__main__ import launch
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.extensions.events import read_events
from lockstep.trainer.extensions.options import Options
from lockstep.trainer.model import DataParallel
from lockstep.trainer.process import Process

RESULT = Path(__file__).with_suffix(".json")
DIES = 44  # rank 1, in this step's forward pass
SETTINGS: dict[str, Any] = {
    "max_steps": 80,
    "checkpoint_every_steps": 15,
    "log_every_steps": 1,
    "micro_batch_size": 128,
    "dropout": 0.0,
    "feature_dropout": 0.0,
    "timeout_seconds": 30.0,
}
Curve = list[tuple[int, float]]


class Forgetting(DataParallel):
    """Loads an optimizer whose moments begin at zero."""

    def load(self, into: nn.Module | Optimizer, state: dict[str, Any]) -> None:
        if isinstance(into, Optimizer):
            for moments in state["state"].values():
                moments["exp_avg"].zero_()
                moments["exp_avg_sq"].zero_()
        super().load(into, state)


@dataclass(frozen=True)
class Forgetful(Options):
    """Chooses it."""

    def make_strategy(self, me: Process) -> DataParallel:
        return Forgetting()


def launched(
    store: dist.Store, settings: dict[str, Any], options: Options
) -> None:
    """The trainer, as a rank of that store."""
    launch(TrainConfig(**settings), store, options)


def curve(run_dir: Path, options: Options) -> Curve:
    """A launch on two ranks: the steps and losses of its attempt."""
    before = len([*run_dir.glob("events/*-rank-0.jsonl")])
    # Where a rank is killed, the pool is broken, unless the other rank was told
    # first that its connection is closed.
    with suppress(*([RuntimeError] if options.fault else [])):
        on_ranks(2, launched, {"run_dir": run_dir} | SETTINGS, options)
    events = read_events(run_dir / f"events/attempt-{before}-rank-0.jsonl")
    return [(e["step"], e["loss"]) for e in events if e["event"] == "step"]


def curves() -> dict[str, Curve]:
    """All four."""
    fault = f"kill:rank=1,step={DIES},phase=forward"
    with TemporaryDirectory() as folder:
        whole, killed, wrong = (Path(folder, name) for name in "abc")
        found = {"whole": curve(whole, Options())}
        found["killed"] = curve(killed, Options(fault=(fault,)))
        shutil.copytree(killed, wrong)
        found["resumed"] = curve(killed, Options())
        found["forgetful"] = curve(wrong, Forgetful())
    return found


def main(result: Path = RESULT) -> None:
    """Record them."""
    text = json.dumps({"curves": curves(), "recorded": about()})
    result.write_text(text.replace("]], ", "]],\n") + "\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
