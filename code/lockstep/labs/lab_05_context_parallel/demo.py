"""What an answer does on two processes, and in what order."""

from typing import Any

import torch.distributed as dist

from lockstep.labs.demo import show

from .grader import alone, drawn, part, started, watched


def main(answer: Any) -> None:
    """Blocks sent, products and waits of rank 0, in both passes."""
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


if __name__ == "__main__":
    show(main)
