"""The timers do not wait for the device; one line does, at every step."""

from pathlib import Path

from lockstep.debugging.bugs.rig import KERNELS, step_on_a_gpu

SYMPTOM = (
    "A phase is booked the time of queueing; the one that reads, all else."
)


def prove(trainer: Path, folder: Path) -> None:
    """Time three kernels on the stand-in with the trainer's timers."""
    booked, _ = step_on_a_gpu(trainer, folder)
    seconds = {name: round(booked[name], 1) for name in KERNELS}
    assert seconds == KERNELS, f"kernels take {KERNELS}, booked are {seconds}"
