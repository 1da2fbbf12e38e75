"""The command `lockstep`."""

import sys

from tyro.extras import subcommand_cli_from_dict

from lockstep.cli import plan
from lockstep.cli.audit import audit


def planning() -> None:
    """Numbers for a run, each with its formula: `lockstep plan --help`."""


def main(args: list[str] | None = None) -> int:
    """`lockstep COMMAND …`; returns the exit code."""
    args = sys.argv[1:] if args is None else args
    if args[:1] == ["plan"]:
        return plan.main(args[1:])
    return subcommand_cli_from_dict(
        {"audit": audit, "plan": planning}, prog="lockstep", args=args
    )
