"""A link measured, and predictions from it: torchrun --standalone
--nproc-per-node=2 -m lockstep.labs.lab_08_topology.demo FILE."""

from statistics import median
from typing import Any

import torch.distributed as dist

from lockstep.labs.demo import show


def main(answer: Any) -> None:
    """α and β of these two processes, a size that was left out, and clusters
    on paper."""
    rank = dist.get_rank()
    link = answer.fit(answer.ping_pong([2**k for k in range(10, 25, 2)], 9))
    asked = 2**21
    took = median(answer.ping_pong([asked], 9)[asked])
    near, far = answer.Link(5e-6, 1 / 25e9), answer.Link(14e-6, 1 / 16e9)
    cluster = answer.Cluster(2, 8, near, far)
    axes = {"tp": answer.Axis(8, 10e9), "cp": answer.Axis(16, 11e9)}
    if rank == 0:
        plan = (link.alpha + asked * link.beta) * 1e6
        print(f"a message: {link.alpha * 1e6:.0f} µs, and", end=" ")
        print(f"{1 / link.beta / 1e9:.2f} GB/s")
        print(f"2 MiB: predicted {plan:.0f} µs, measured {took * 1e6:.0f} µs")
        for megabytes in (1, 20, 100):
            print(f"{megabytes} MB:", answer.choose(megabytes * 1e6, cluster))
        print("outermost to innermost:", *answer.mesh_order(axes, 8))


if __name__ == "__main__":
    show(main)
