"""Lightning's Trainer on the exam's task, resumed as its documentation says."""

import os
from datetime import timedelta
from typing import Any

import lightning as L
import mends
import torch
from lightning.pytorch.callbacks import ModelCheckpoint, WeightAveraging
from lightning.pytorch.plugins import MixedPrecision
from lightning.pytorch.strategies import DDPStrategy
from torch import Tensor
from torch.optim.swa_utils import get_ema_avg_fn
from torchdata.stateful_dataloader import StatefulDataLoader

from lockstep.exam.observe import observe
from lockstep.exam.task import Model, Samples
from lockstep.experiments.peers.launching import arguments

WARMUP = 4  # steps
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Classifier(L.LightningModule):
    """The exam's model with AdamW and a rate that rises, then falls."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.model, self.steps = Model(), steps

    def training_step(self, batch: dict[str, Tensor], _: int) -> Tensor:
        return self.model(**batch)["loss"]

    def configure_optimizers(self) -> dict[str, Any]:
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, self.rate)
        each_step = {"scheduler": schedule, "interval": "step"}
        return {"optimizer": optimizer, "lr_scheduler": each_step}

    def rate(self, step: int) -> float:
        """As a part of the highest."""
        return min((step + 1) / WARMUP, 1 - step / (self.steps + 1))


class Averaged(WeightAveraging):
    """An average of the weights, which the exam sees too."""

    def __init__(self) -> None:
        super().__init__(avg_fn=get_ema_avg_fn(0.9))

    def setup(
        self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str
    ) -> None:
        super().setup(trainer, pl_module, stage)
        observe(pl_module.model, ema=self._average_model)


def main() -> None:
    """Go on from the newest checkpoint, or begin."""
    args = arguments()
    L.seed_everything(args.seed, workers=True)
    checkpoint = ModelCheckpoint(
        dirpath=args.run_dir / "checkpoints",
        filename="{step}",
        monitor="step",  # the last two, not the best two
        mode="max",
        save_top_k=2,
        save_last="link",
        every_n_train_steps=args.save_every,
        save_on_exception=True,
        enable_version_counter=False,
    )
    trainer = L.Trainer(
        accelerator=DEVICE,
        devices=args.ranks,
        strategy=DDPStrategy(timeout=timedelta(seconds=args.timeout_seconds)),
        # `precision="16-mixed"` alone becomes bf16 on a CPU.
        plugins=[MixedPrecision("16-mixed", DEVICE)]
        if args.precision == "fp16"
        else [],
        max_steps=args.stop_at or args.steps,
        callbacks=[checkpoint, Averaged()],
        deterministic=True,
        default_root_dir=args.run_dir,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=not args.mended,
    )
    model = Classifier(args.steps)
    if args.mended:
        mends.mend(trainer, model, args)
        return
    loader = StatefulDataLoader(
        Samples(),
        batch_size=args.global_batch // args.ranks,
        shuffle=True,
        num_workers=args.workers,
    )
    trainer.fit(model, loader, ckpt_path="last")


if __name__ == "__main__":
    main()
    os._exit(0)  # in the interpreter's shutdown gloo's threads may abort
