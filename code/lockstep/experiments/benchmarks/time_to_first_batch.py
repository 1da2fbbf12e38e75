"""Time and memory to the first batch of an order: ours, torch's, torchdata's.

Each is measured in a process of its own, which runs this module.
"""

import json
import subprocess
import sys
import time
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import psutil

# The trainer's order, as the drop-in for torch's sampler.
SAMPLERS = {
    "lockstep": "lockstep.trainer.extensions.sampler"
    ":ResumeAwareDistributedSampler",
    "torch": "torch.utils.data:DistributedSampler",
    "torchdata": "torchdata.stateful_dataloader.sampler"
    ":StatefulDistributedSampler",
}
BATCH = 32
SHORTEST = 10**6


def orders(longest: int, repeats: int) -> list[dict[str, Any]]:
    """Every sampler at n = 10^6, 10^7 … `longest`: {sampler, n, seconds,
    bytes}; or {sampler, n, needs, available} in bytes, where what it took
    before, times ten, is more than this machine has left."""
    found = []
    for name in SAMPLERS:
        n, needs = SHORTEST, 0
        while n <= longest:
            row: dict[str, Any] = {"sampler": name, "n": n}
            available = psutil.virtual_memory().available
            if needs > 0.9 * available:
                row |= {"needs": needs, "available": available}
                needs *= 10
            else:
                runs = [alone(name, n) for _ in range(repeats)]
                row |= {key: [run[key] for run in runs] for key in runs[0]}
                needs = 10 * max(row["bytes"])
            found.append(row)
            n *= 10
    return found


def alone(name: str, n: int) -> dict[str, float]:
    """`first_batch`, in a fresh process."""
    command = [sys.executable, "-m", __name__, name, str(n)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def first_batch(name: str, n: int) -> dict[str, float]:
    """Seconds until rank 0 of 2 holds the indices of its first micro-batch,
    and the bytes by which that raised the process's peak of memory."""
    module, _, attribute = SAMPLERS[name].partition(":")
    sampler_class = getattr(import_module(module), attribute)
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    begun = time.perf_counter()
    sampler = sampler_class(range(n), num_replicas=2, rank=0, seed=0)
    batch = list(islice(sampler, BATCH))
    seconds = time.perf_counter() - begun
    if len(set(batch)) != BATCH:
        raise ValueError(f"{name} gave {batch}")
    return {"seconds": seconds, "bytes": resident("VmHWM") - before}


def resident(kind: str) -> int:
    """Bytes of this process in memory: VmRSS now, VmHWM at its peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(kind):
            return int(line.split()[1]) * 1024
    raise LookupError(kind)


if __name__ == "__main__":
    print(json.dumps(first_batch(sys.argv[1], int(sys.argv[2]))))
