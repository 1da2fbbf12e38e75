"""Lightning's Trainer with pieces that pass the exam of resume.

    torchrun --standalone --nproc-per-node=2 \\
        -m lockstep.examples.lightning_loop --run-dir runs/lightning

Lightning runs the loop and the optimizer; order, checkpoints and guards are
ours, told by hooks. To Lightning what is left of the run is one epoch.
"""

# --8<-- [start:loop]
import signal
import sys
from contextlib import ExitStack
from typing import Any

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy
from torch import Tensor
from torch.utils.data import DataLoader

from lockstep.exam.task import Model, Samples
from lockstep.examples.settings import Settings, about, read
from lockstep.pieces import Batches, Stateful, attached


class Training(lightning.LightningModule):
    """From wherever the run is to its end."""

    def __init__(self, s: Settings) -> None:
        super().__init__()
        torch.manual_seed(s.seed)
        self.s, self.data = s, Samples()
        self.model = Model()  # or yours, with observe(self.model)
        self.held, self.leave = ExitStack(), False

    def configure_optimizers(self) -> Any:
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 3e-3)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, self.s.rate
        )
        steps = {"scheduler": self.scheduler, "interval": "step"}
        return {"optimizer": self.optimizer, "lr_scheduler": steps}

    def on_fit_start(self) -> None:
        """Restore, now that the group and the optimizers exist."""
        s, data = self.s, self.data
        torch.manual_seed(s.seed * 1000 + self.global_rank)
        parts: dict[str, Stateful] = {
            "model": self.model, "optimizer": self.optimizer,
            "scheduler": self.scheduler,
        }  # fmt: skip
        run_is = s.run_dir, parts, about(s, data), len(data), s.seed, s.seconds
        self.run = self.held.enter_context(attached(*run_is))
        self.step = self.run.restore()

    def train_dataloader(self) -> DataLoader:
        s = self.s
        size = len(self.data)
        batches = Batches(size, s.seed, s.batch, self.step, s.end)
        self.ids = iter(batches)
        return DataLoader(
            self.data, batch_sampler=batches, num_workers=s.workers,
            generator=torch.Generator(),  # the default one is for dropout
        )  # fmt: skip

    def on_train_start(self) -> None:
        """Lightning has taken SIGTERM for itself by now, and leaves without a
        checkpoint. Our listener is still there: it reads of the signal from a
        pipe, whoever handles it."""
        signal.signal(signal.SIGTERM, lambda *_: None)

    def training_step(self, batch: dict[str, Tensor], _: int) -> Tensor:
        self.rate = self.optimizer.param_groups[0]["lr"]
        return self.model(**batch)["loss"]

    def on_train_batch_end(self, outputs: Any, batch: Any, index: int) -> None:
        self.step += 1
        at, loss = self.step * self.s.batch, float(outputs["loss"])
        ids = next(self.ids)
        self.leave = self.run.committed(self.step, at, ids, self.rate, loss)
        if self.leave:
            self.trainer.should_stop = True

    def on_train_batch_start(self, batch: Any, index: int) -> int | None:
        """Commit the step, now that the scheduler has stepped, too."""
        if index:
            self.save()
        return -1 if self.leave else None

    def on_train_end(self) -> None:
        self.save()
        if self.step == self.s.steps:
            self.run.finished()

    def save(self) -> None:
        """If it is time to."""
        if self.leave or self.s.saves(self.step):
            self.run.save()


def train(s: Settings) -> int:
    """Train, and return the exit code."""
    # Bucket orders stay as they are where DDP looks for unused parameters.
    strategy = DDPStrategy(
        process_group_backend="gloo", timeout=s.timeout,
        find_unused_parameters=True,
    )  # fmt: skip
    module = Training(s)
    trainer = lightning.Trainer(
        accelerator="cpu", devices=s.ranks, strategy=strategy, max_epochs=1,
        use_distributed_sampler=False, enable_checkpointing=False,
        logger=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    with module.held:
        trainer.fit(module)
    return 75 if module.leave else 0


# --8<-- [end:loop]
def main() -> int:
    """Train as the command line says; return the exit code."""
    return train(read())


if __name__ == "__main__":
    sys.exit(main())
