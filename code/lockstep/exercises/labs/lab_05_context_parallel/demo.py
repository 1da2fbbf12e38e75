"""What an answer does on two processes, and in what order."""

import sys
from pathlib import Path

import torch.distributed as dist

from lockstep.exercises.grading.criteria import load
from lockstep.trainer.extensions.launcher import run_and_leave

from .grader import alone, drawn, part, started, watched


def main() -> None:
    """Blocks sent, products and waits of rank 0, in both passes."""
    dist.init_process_group("gloo")
    answer = load(Path(sys.argv[1]))
    rank, length = dist.get_rank(), 8
    order = [answer.zigzag_positions(length, r, 2) for r in range(2)]
    for name in ("ring_attention", "ulysses_attention"):
        *qkv, grad = part(whole := drawn(length), order[rank])
        with watched() as forward:
            out = getattr(answer, name)(*qkv, order[rank])
        with watched() as backward:
            out.backward(grad)
        off = (out - alone(whole, causal=True)[0][:, :, order[rank]]).abs()
        if rank == 0:
            print(f"{name}, rank 0 with tokens {order[0].tolist()}:")
            for way, seen in (("forward", forward), ("backward", backward)):
                print(f"  {way}:", *started(seen.events, out.nbytes))
            print("  as one process has it:", bool(off.max() < 1e-5))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    run_and_leave(main)
