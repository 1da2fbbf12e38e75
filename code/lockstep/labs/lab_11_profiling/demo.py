"""Lab 11, to look at: milliseconds of a step, by phase and rank.

    torchrun --standalone --nproc-per-node=2 -m \\
        lockstep.labs.lab_11_profiling.demo FILE
"""

from typing import Any

import torch
import torch.distributed as dist

from lockstep.instruments import slow_trainers as slow
from lockstep.labs.demo import show


def profiled(trainer: type[slow.Trainer], timer: Any) -> list[list[float]]:
    """Milliseconds of a step in each phase, on each rank."""
    trainer(slow.Store()).train(timer)
    total = [1e3 * timer.seconds.get(name, 0) for name in slow.PHASES]
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, [ms / trainer.steps for ms in total])
    return everyone


def main(answer: Any) -> None:
    """The four as they are, and as the answer has them."""
    torch.set_num_threads(1)
    profiled(slow.A, answer.PhaseTimer())  # the first steps of a process
    lines = [f"{'':13}" + "".join(f"{name:>11}" for name in slow.PHASES)]
    for module, when in ((slow, "slow"), (answer, "mended")):
        for name in "ABCD":
            rows = profiled(getattr(module, name), answer.PhaseTimer())
            for rank, row in enumerate(rows):
                cells = "".join(f"{ms:8.1f} ms" for ms in row)
                lines.append(f"{name} {when:6} r{rank}  {cells}")
    if dist.get_rank() == 0:
        print("\n".join(lines))


if __name__ == "__main__":
    show(main)
