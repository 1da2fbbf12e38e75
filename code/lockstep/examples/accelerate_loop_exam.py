"""The exam's adapter of the loop with Accelerate."""

from lockstep.exam.adapter import Launch
from lockstep.examples import settings

name = "Accelerate with Lockstep's pieces"
lacks = {
    "fp16": "it trains in fp32",
    "ema": "it keeps no averaged weights",
}


def command(launch: Launch) -> list[object]:
    """Its own command line."""
    return settings.command(launch, "lockstep.examples.accelerate_loop")
