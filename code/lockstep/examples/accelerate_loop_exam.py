"""The exam's adapter of the loop with Accelerate."""

from pathlib import Path

from lockstep.exam.adapter import Launch
from lockstep.examples import plain_loop_exam

SCRIPT = Path(__file__).with_name("accelerate_loop.py")
name = "Accelerate with Lockstep's pieces"
lacks = {
    "scaler": "it trains in fp32",
    "ema": "it keeps no averaged weights",
    "micro-batch": "it does not accumulate gradients",
}


def command(launch: Launch) -> list[object]:
    """Its own command line."""
    return plain_loop_exam.command(launch, SCRIPT)
