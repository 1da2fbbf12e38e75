"""The command `lockstep`."""

import sys

from tyro.extras import subcommand_cli_from_dict

from lockstep.cli import lab, plan
from lockstep.cli.audit import audit


def planning() -> None:
    """Numbers for a run, each with its formula: `lockstep plan --help`."""


def exercising() -> None:
    """Exercises that are graded: `lockstep lab --help`."""


def main(args: list[str] | None = None) -> int:
    """`lockstep COMMAND …`; returns the exit code."""
    args = sys.argv[1:] if args is None else args
    with_commands = {"lab": lab.main, "plan": plan.main}
    if args and (command := with_commands.get(args[0])):
        return command(args[1:])
    return subcommand_cli_from_dict(
        {"audit": audit, "lab": exercising, "plan": planning},
        prog="lockstep",
        args=args,
    )
