"""The exam's adapter of the loop with Lightning."""

from lockstep.exam.adapter import Launch
from lockstep.examples import settings

name = "Lightning with Lockstep's pieces"
lacks = {
    "fp16": "it trains in fp32",
    "ema": "it keeps no averaged weights",
}


def command(launch: Launch) -> list[object]:
    """Its own command line."""
    return settings.command(launch, "lockstep.examples.lightning_loop")
