"""Where the time of a step goes: a timer for every phase."""

import time
from collections import defaultdict
from typing import Any

import torch

from ..model import DataParallel
from ..telemetry import Observer

PHASES = "load", "h2d", "forward", "backward", "optimizer", "checkpoint"


class PhaseTimers(Observer):
    """Adds `phases`, seconds per step since the event before, to `step`; knows
    which phase began or ended last, and when.

    On a GPU a phase ends when its kernels do, not when they are queued: CUDA
    events mark both ends, and are read only at a logged step, which waits for
    the device anyway. `sync` runs from the first gradient bucket launched to
    the last one done, in the newest backward pass that DDP timed, which is one
    in `every`; it overlaps `backward`, and `sync_exposed` is the part that
    outlasts the computation. Other strategies keep no such times.
    """

    phases = PHASES

    def __init__(
        self, device: torch.device, strategy: DataParallel, every: int = 1
    ) -> None:
        self.cuda = device.type == "cuda"
        self.strategy, self.every = strategy, every
        self.newest = "start", time.perf_counter()  # who began or ended last
        self.open: dict[str, Any] = {}
        self.spans: dict[str, list[tuple[Any, Any]]] = defaultdict(list)
        self.since: tuple[float, int, int] | None = None

    def mark(self, place: str) -> Any:
        self.newest = place, (now := time.perf_counter())
        if not self.cuda:
            return now
        event = torch.cuda.Event(enable_timing=True)  # gpu
        event.record()  # gpu
        return event  # gpu

    def begin(self, phase: str) -> None:
        self.open[phase] = self.mark(phase)

    def end(self, phase: str) -> None:
        span = self.open.pop(phase), self.mark("after " + phase)
        self.spans[phase].append(span)

    def seconds(self) -> dict[str, float]:
        """Total of each phase since the last call."""
        if self.cuda:
            torch.cuda.synchronize()  # gpu
        total = {
            phase: sum(
                begin.elapsed_time(end) / 1e3 if self.cuda else end - begin
                for begin, end in spans
            )
            for phase, spans in self.spans.items()
        }
        self.spans.clear()
        return total

    def sync(self) -> dict[str, float]:
        """Return DDP's own timings of the newest backward pass, in seconds."""
        if not (ddp := self.ddp):
            return {}
        ddp.logger.set_runtime_stats_and_log()
        ns = ddp._get_ddp_logging_data()
        end = ns["backward_comm_time_end"]
        tail = end - ns["backward_compute_time_end"]
        return {
            "sync": (end - ns["backward_comm_time_start"]) / 1e9,
            "sync_exposed": max(0, tail) / 1e9,
        }

    def event(self, record: dict[str, Any]) -> None:
        now = time.perf_counter()
        if record["event"] == "run_started":
            self.ddp = getattr(self.strategy, "ddp", None)
            if self.ddp:
                self.ddp._set_ddp_runtime_logging_sample_rate(self.every)
        if record["event"] == "step":
            step, position = record["step"], record["position"]
            total = self.seconds()
            if self.since:
                then, step_then, position_then = self.since
                steps, wall = step - step_then, now - then
                record["step_seconds"] = wall / steps
                record["samples_per_second"] = (position - position_then) / wall
                record["phases"] = {k: v / steps for k, v in total.items()}
                record["phases"] |= self.sync()
            self.since = now, step, position
