"""What gloo's collectives put on the wire, counted by the kernel."""

from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

from lockstep.experiments.demos.collectives import calls
from lockstep.instruments.forked import in_a_group
from lockstep.planner.collectives import BUS, collective

RANKS, NUMBERS = 4, 1 << 20  # of 4 bytes


# --8<-- [start:written]
def written() -> int:
    """Bytes that this process has written so far, to sockets as to files: what
    gloo sends, it writes."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["wchar"])


def sent(act: Callable[[], object]) -> int:
    """Bytes that this rank sends while all do `act`."""
    dist.barrier()
    before = written()
    act()
    after = written()
    dist.barrier()
    return after - before


# --8<-- [end:written]
def of_all() -> dict[str, int]:
    """Bytes that this rank sends, by collective, for one buffer."""
    whole, other = torch.ones(NUMBERS), torch.ones(NUMBERS)
    each = calls(whole, torch.ones(NUMBERS // RANKS), other)
    return {op: sent(each[op][2]) for op in BUS}


def planned(op: str) -> float:
    """Bytes that a ring's rank sends, as the planner has it."""
    given = {"op": op, "bytes": 4 * NUMBERS, "ranks": RANKS}
    given |= {"algorithm": "ring", "bandwidth": 0, "latency": 0}
    return float(collective(given)["bytes_sent_per_rank"])


def main() -> None:
    """Bytes over the buffer's: the planner's ring, and every rank of gloo."""
    ranks = in_a_group(RANKS, of_all)
    print(f"{'':16}{'a ring':>8}   gloo's ranks")
    for op in ranks[0]:
        found = [rank[op] / (4 * NUMBERS) for rank in ranks]
        each = "".join(f"{one:7.2f}" for one in found)
        print(f"{op:16}{planned(op) / (4 * NUMBERS):8.2f}  {each}")


if __name__ == "__main__":
    main()
