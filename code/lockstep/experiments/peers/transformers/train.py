"""The exam's model trained by the Trainer of Transformers, resumed as its
documentation says: `trainer.train(resume_from_checkpoint=…)`."""

import time
from typing import Any

import torch
from transformers import (
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_utils import get_last_checkpoint

from lockstep.exam.task import Model, Samples
from lockstep.experiments.peers.launching import arguments


class Stop(TrainerCallback):
    """Saves after a step, and leaves."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """The schedule is not touched."""
        if state.global_step == self.step:
            control.should_save = control.should_training_stop = True


def main() -> None:
    """Train to the end, or to the step at which to stop."""
    args = arguments()
    set_seed(args.seed)
    trainer = Trainer(
        model=Model(),
        args=TrainingArguments(
            output_dir=str(args.run_dir),
            max_steps=args.steps,
            per_device_train_batch_size=args.global_batch // args.ranks,
            learning_rate=1e-3,
            lr_scheduler_type="linear",
            warmup_steps=4,
            save_strategy="steps",
            save_steps=args.save_every,
            save_total_limit=2,
            enable_jit_checkpoint=True,
            dataloader_num_workers=args.workers,
            ddp_timeout=args.timeout_seconds,
            seed=args.seed,
            use_cpu=not torch.cuda.is_available(),
            fp16=args.precision == "fp16",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=Samples(),
        callbacks=[Stop(args.stop_at)] if args.stop_at else [],
    )
    trainer.train(resume_from_checkpoint=get_last_checkpoint(str(args.run_dir)))
    time.sleep(0.5)  # a thread of gloo lets go of its last tensors
    trainer.end()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
