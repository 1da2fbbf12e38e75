"""The exam's adapter of the plain loop."""

from lockstep.exam.adapter import Launch
from lockstep.examples import settings

name = "A plain loop with Lockstep's pieces"


def command(launch: Launch) -> list[object]:
    """Its own command line."""
    return settings.command(launch, "lockstep.examples.plain_loop")
