"""Seconds and bytes of something that a device does."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

import torch


def device() -> torch.device:
    """The GPU, or the CPU where there is none (for the tests of this code)."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def wait() -> None:
    """Until the device has done what it was given."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds(
    call: Callable[[], object], repeats: int = 10, warm: int = 3
) -> float:
    """Median over `repeats` calls, each timed by itself until the device has
    done it; the first `warm` are left out."""
    found = []
    for _ in range(warm + repeats):
        wait()
        began = time.perf_counter()
        call()
        wait()
        found.append(time.perf_counter() - began)
    return median(found[warm:])


def queued(call: Callable[[], object], repeats: int = 20) -> float:
    """Of one call in a row of `repeats`, without waiting in between, as a
    step's kernels follow each other: the device's own time for a kernel."""
    call()
    call()
    wait()
    began = time.perf_counter()
    for _ in range(repeats):
        call()
    wait()
    return (time.perf_counter() - began) / repeats


@dataclass
class Peak:
    """Bytes that the allocator gave out beyond those of before."""

    bytes: int = 0


@contextmanager
def peak() -> Iterator[Peak]:
    """The most that was allocated at once inside, beyond what was before."""
    gc.collect()
    found = Peak()
    if not torch.cuda.is_available():
        yield found
        return
    wait()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    yield found
    wait()
    found.bytes = torch.cuda.max_memory_allocated() - before
