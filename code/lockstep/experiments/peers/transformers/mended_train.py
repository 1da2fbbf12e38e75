"""The same training, mended where the documented way does not pass.

- Another random state on each rank.
- Checkpoints are sealed with hashes and the run's name once all ranks have
  written them; the newest whole one is resumed.
- All ranks decide together whether SIGTERM was received, after a step.
- The process group is made with a timeout before the Trainer makes it without,
  as it does on CPUs.
"""

import json
import signal
import time
from collections.abc import Iterator
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from accelerate import PartialState
from train import Stop, arguments
from transformers import (
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
    set_seed,
)

from lockstep.exam.task import Model, Samples
from lockstep.experiments.peers.repairs import digests

SEAL = "seal.json"


class Mend(TrainerCallback):
    """Seals what is saved, and leaves in order on SIGTERM."""

    def __init__(self, run: str, patience: int) -> None:
        self.run, self.patience, self.told = run, patience, False
        signal.signal(signal.SIGTERM, self.on_signal)

    def on_signal(self, *_: object) -> None:
        """Noted, as a step may be under way; the end, if none ends any more."""
        self.told = True
        signal.alarm(self.patience)

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Save and stop on all ranks if any was told to."""
        told = torch.tensor(int(self.told), device=args.device)
        dist.all_reduce(told)
        if told:
            signal.alarm(0)
            control.should_save = control.should_training_stop = True

    def on_save(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """When the last rank has written its part."""
        dist.barrier()
        if state.is_world_process_zero:
            folder = Path(args.output_dir, f"checkpoint-{state.global_step}")
            seal = {"run": self.run, "files": digests(folder, SEAL)}
            (folder / SEAL).write_text(json.dumps(seal))


def whole(root: Path, run: str) -> Iterator[str]:
    """The checkpoints of `run` that are as they were saved, newest first."""
    found = list(root.glob(f"checkpoint-*/{SEAL}"))
    found.sort(key=lambda path: -int(path.parent.name.split("-")[1]))
    for path in found:
        try:
            seal = json.loads(path.read_text())
        except ValueError:
            continue
        if seal["run"] != run:
            raise SystemExit(f"{path.parent} belongs to another run")
        if digests(path.parent, SEAL) == seal["files"]:
            yield str(path.parent)
    if found:
        raise SystemExit(f"no checkpoint in {root} is whole")


def main() -> None:
    """Train to the end, or to the step at which to stop."""
    args = arguments()
    PartialState(
        cpu=not torch.cuda.is_available(),
        timeout=timedelta(seconds=args.timeout_seconds),
    )
    set_seed(args.seed)
    samples = Samples()
    data = sha256(samples.x.numpy().tobytes()).hexdigest()
    run = f"seed {args.seed}, {args.steps} steps, data {data}"
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
            dataloader_num_workers=args.workers,
            seed=args.seed,
            data_seed=args.seed,
            use_cpu=not torch.cuda.is_available(),
            fp16=args.precision == "fp16",
            accelerator_config={"use_configured_state": True},
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=samples,
        callbacks=[
            Mend(run, args.timeout_seconds),
            *([Stop(args.stop_at)] if args.stop_at else []),
        ],
    )
    torch.manual_seed(args.seed + trainer.args.process_index)
    newest = next(whole(args.run_dir, run), None)
    trainer.train(resume_from_checkpoint=newest)
    time.sleep(0.5)  # a thread of gloo lets go of its last tensors
    trainer.end()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
