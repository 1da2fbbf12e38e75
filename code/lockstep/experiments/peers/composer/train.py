"""The exam's model and samples under Composer's Trainer, with Streaming."""

import argparse
import datetime
import signal
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import torch
from composer import Callback, ComposerModel, State, Trainer
from composer.utils import dist, reproducibility
from streaming import MDSWriter, StreamingDataLoader, StreamingDataset
from torch import Tensor

from lockstep.exam.task import Model, Samples
from lockstep.experiments.peers.launching import arguments

COLUMNS = {"x": "ndarray:float32:33", "labels": "int64"}


class Learner(ComposerModel):
    """The exam's model as Composer takes it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Model()

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """Compute the loss along with the logits."""
        return self.inner(**batch)

    def loss(self, outputs: dict[str, Tensor], batch: object) -> Tensor:
        """Return what to minimize."""
        return outputs["loss"]


def shards(folder: Path) -> Path:
    """Write the samples as MDS shards, unless they lie there already."""
    samples = Samples()
    out = folder / f"{crc32(samples.x.numpy().tobytes()):08x}"
    if dist.get_global_rank() == 0 and not (out / "index.json").exists():
        with MDSWriter(out=str(out), columns=COLUMNS) as writer:
            for sample in samples:
                writer.write({k: v.numpy()[()] for k, v in sample.items()})
    dist.barrier()
    return out


class RandomStates(Callback):
    """Mended: put back before the first batch, which Composer leaves undone
    where a streaming dataset resumes by itself."""

    saved: list[dict[str, Any]] | None = None

    def state_dict(self) -> dict[str, Any]:
        """Gather those of all ranks."""
        return {"states": reproducibility.get_rng_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Keep them until the loader has drawn its own numbers."""
        self.saved = state["states"]

    def epoch_start(self, *_: object) -> None:
        """Whether a new epoch comes first, or the rest of one."""
        if self.saved:
            reproducibility.load_rng_state(self.saved)
        self.saved = None

    after_dataloader = epoch_start


class Notice(Callback):
    """Mended: SIGTERM ends the training after a batch, with a checkpoint."""

    def __init__(self) -> None:
        self.told = False
        signal.signal(signal.SIGTERM, self.tell)

    def tell(self, *_: object) -> None:
        """Remember the signal."""
        self.told = True

    def batch_end(self, state: State, *_: object) -> None:
        """All ranks stop at the same batch."""
        told = torch.tensor(int(self.told))
        dist.all_reduce(told, "MAX")
        if told:
            state.stop_training()


def mended(args: argparse.Namespace) -> dict[str, Any]:
    """What else to give the trainer, so that it passes what failed."""
    torch.serialization.add_safe_globals(
        [
            torch.torch_version.TorchVersion,
            datetime.timedelta,
            np.ndarray,
            np.dtype,
            type(np.dtype(np.uint32)),
            np._core.multiarray._reconstruct,
        ]
    )  # with TORCH_FORCE_WEIGHTS_ONLY_LOAD=1
    data = crc32(Samples().x.numpy().tobytes())
    return {
        "callbacks": [RandomStates(), Notice()],
        "run_name": f"{data:08x}-{args.seed}",
        "save_folder": str(args.run_dir / "checkpoints" / "{run_name}"),
        "save_filename": "ep{epoch}-ba{batch}-rank{rank}.pt.gz",
        "save_latest_filename": "latest-rank{rank}.pt.gz",
        "save_overwrite": True,
    }


def main() -> None:
    """Train, going on from the newest checkpoint if there is one."""
    args = arguments()

    dist.initialize_dist("cpu", timeout=args.timeout_seconds)
    reproducibility.seed_all(args.seed)
    model = Learner()
    batch_size = args.global_batch // dist.get_world_size()
    dataset = StreamingDataset(
        local=str(shards(args.run_dir / "data")),
        shuffle=True,
        shuffle_seed=args.seed,
        batch_size=batch_size,
    )
    loader = StreamingDataLoader(
        dataset, batch_size=batch_size, num_workers=args.workers
    )

    def factor(state: State, ssr: float = 1.0) -> float:
        """Of the learning rate: warmup in four batches, then decay."""
        done = int(state.timestamp.batch)
        return min((done + 1) / 4, 1 - done / args.steps)

    options = {
        "run_name": "exam",
        "save_folder": str(args.run_dir / "checkpoints"),
    }
    trainer = Trainer(
        model=model,
        train_dataloader=loader,
        optimizers=torch.optim.AdamW(model.parameters(), lr=1e-3),
        schedulers=factor,
        max_duration=f"{args.steps}ba",
        autoresume=True,
        save_interval=f"{args.save_every}ba",
        save_num_checkpoints_to_keep=3,
        device="cpu",
        seed=args.seed,
        dist_timeout=args.timeout_seconds,
        progress_bar=False,
        **(mended(args) if args.mended else options),
    )
    done = int(trainer.state.timestamp.batch)
    stop = f"{args.stop_at - done}ba" if args.stop_at else None
    if done < args.steps or not args.mended:
        trainer.fit(duration=stop)
    trainer.close()


if __name__ == "__main__":
    main()
