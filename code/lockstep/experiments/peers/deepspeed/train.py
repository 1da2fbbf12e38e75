"""The exam's model and samples under DeepSpeed's engine, with ZeRO stage 1."""

import argparse
import hashlib
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import deepspeed
import torch
from deepspeed import comm as dist
from deepspeed.runtime.fp16.loss_scaler import LossScaler
from deepspeed.runtime.zero.config import ZeroStageEnum
from deepspeed.utils.tensor_fragment import fragment_address

from lockstep.exam.task import Model, Samples
from lockstep.experiments.peers.launching import arguments
from lockstep.experiments.peers.repairs import Notice


def config(args: argparse.Namespace, micro_batch: int) -> dict[str, Any]:
    """Fill in what DeepSpeed reads as JSON."""
    fp16 = args.precision == "fp16"
    # So that the engine reduces in the default group, with its timeout.
    mesh = {
        "data_parallel_size": args.global_batch // micro_batch,
        "sequence_parallel_size": 1,
    }
    return (mesh if args.mended else {}) | {
        "train_batch_size": args.global_batch,
        "train_micro_batch_size_per_gpu": micro_batch,
        # With ZeRO the scale of fp16 never falls, so that no step is taken.
        "zero_optimization": {"stage": 0 if fp16 else 1},
        "torch_autocast": {"enabled": fp16, "dtype": "float16"},
        "scheduler": {
            "type": "WarmupDecayLR",
            "params": {
                "total_num_steps": args.steps,
                "warmup_num_steps": 4,
                "warmup_max_lr": 1e-3,
                "warmup_type": "linear",
            },
        },
    }


class Mended:
    """What DeepSpeed leaves to its user, by means of the client state."""

    def __init__(self, engine: Any, args: argparse.Namespace) -> None:
        self.engine, self.notice, self.random = engine, Notice(), None
        self.scaler = engine.torch_autocast_z0_gradscaler
        self.run = args.seed, Samples().x.double().sum().item()
        torch.serialization.add_safe_globals(
            [ZeroStageEnum, LossScaler, fragment_address]
        )  # with TORCH_FORCE_WEIGHTS_ONLY_LOAD=1

    def save(self, folder: str, state: dict[str, Any]) -> None:
        """Add the random states of all ranks, the scaler's, and whose run it
        is; and a digest of each file, before the checkpoint is the latest."""
        states: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(states, torch.get_rng_state())
        state |= {"random": states, "run": self.run}
        if self.scaler:
            state["scaler"] = self.scaler.state_dict()
        self.engine.save_checkpoint(
            folder, client_state=state, save_latest=False
        )
        tag = f"global_step{self.engine.global_steps}"
        if dist.get_rank() == 0:
            digests = Path(folder, tag, "digests")
            digests.write_text(digest(Path(folder, tag)))
            Path(folder, "latest").write_text(tag)
        dist.barrier()

    def load(self, folder: str) -> dict[str, Any] | None:
        """Refuse a damaged checkpoint, and one of another run."""
        latest = Path(folder, "latest")
        if latest.exists():
            found = Path(folder, latest.read_text())
            if (found / "digests").read_text() != digest(found):
                raise SystemExit(f"{found} is damaged")
        _, state = self.engine.load_checkpoint(folder)
        if state:
            if state["run"] != self.run:
                raise SystemExit(f"{folder} is another run's")
            if self.scaler:
                self.scaler.load_state_dict(state["scaler"])
            self.random = state["random"][dist.get_rank()]
        return state

    def draw_on(self) -> None:
        """Set the random state that was loaded, once."""
        if self.random is not None:
            torch.set_rng_state(self.random)
        self.random = None


def digest(checkpoint: Path) -> str:
    """Of all that DeepSpeed wrote."""
    found = hashlib.sha256()
    for path in sorted(checkpoint.glob("*.pt")):
        found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()


def main() -> None:
    """Train, going on from the newest checkpoint if there is one."""
    args = arguments("--local_rank")

    deepspeed.init_distributed(timeout=timedelta(seconds=args.timeout_seconds))
    torch.manual_seed(args.seed + dist.get_rank())
    model = Model()
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3),
        config=config(args, args.global_batch // dist.get_world_size()),
    )
    loader = engine.deepspeed_io(Samples(), num_local_io_workers=args.workers)
    folder = str(args.run_dir / "checkpoints")
    more = Mended(engine, args) if args.mended else None
    if more:
        state = more.load(folder)
    else:
        _, state = engine.load_checkpoint(folder)
    step = state["step"] if state else 0
    end = args.stop_at or args.steps
    while step < end:
        if more:
            loader.data_sampler.set_epoch(step // len(loader))
        skip = step % len(loader)  # what was trained on
        if more and not skip:
            more.draw_on()  # it was saved before this iterator was made
        for k, batch in enumerate(loader):
            if k < skip:
                continue
            if more:
                more.draw_on()
            engine.backward(engine(**batch)["loss"])
            engine.step()
            step += 1
            if more and more.notice.by_anyone():
                end = step
            if step % args.save_every == 0 or step == end:
                if more:
                    more.save(folder, {"step": step})
                else:
                    engine.save_checkpoint(folder, client_state={"step": step})
            if step == end:
                break
    dist.destroy_process_group()
    os._exit(0)  # in the interpreter's shutdown gloo's threads may abort


if __name__ == "__main__":
    main()
