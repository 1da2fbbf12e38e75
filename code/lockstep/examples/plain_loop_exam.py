"""The exam's adapter of the plain loop."""

from pathlib import Path

from lockstep.exam.adapter import Launch
from lockstep.examples import settings

SCRIPT = Path(__file__).with_name("plain_loop.py")
name = "A plain loop with Lockstep's pieces"


def command(launch: Launch) -> list[object]:
    """Its own command line."""
    return settings.command(launch, SCRIPT)
