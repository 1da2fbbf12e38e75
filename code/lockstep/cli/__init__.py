"""The command `lockstep`."""

import sys

from tyro.extras import subcommand_cli_from_dict

from lockstep.cli import bug, drill, export, lab, plan, quiz
from lockstep.cli.audit import audit
from lockstep.cli.exam import exam

# What the extras of the package bring, as Python imports it, and which extra a
# command wants; the others want `train`.
OPTIONAL = frozenset(
    {"fsrs", "jinja2", "markdown_it", "numpy", "platformdirs", "psutil",
     "pydantic", "safetensors", "simpy", "sklearn", "torch", "yaml"}
)  # fmt: skip
EXTRAS = {
    "exam": "exam",
    "export": "cards",
    "plan": "fleet",
    "quiz": "cards",
}


def planning() -> None:
    """Numbers for a run, each with its formula: `lockstep plan --help`."""


def drilling() -> None:
    """The interview cut, built by the clock: `lockstep drill --help`."""


def exercising() -> None:
    """Exercises that are graded: `lockstep lab --help`."""


def mending() -> None:
    """Broken trainers to mend: `lockstep bug --help`."""


def quizzing() -> None:
    """Cards, each when it is about to be forgotten: `lockstep quiz --help`."""


def exporting() -> None:
    """The question bank as an Anki deck: `lockstep export --help`."""


def main(args: list[str] | None = None) -> int:
    """`lockstep COMMAND …`; returns the exit code, 2 where a command wants more
    than is installed."""
    args = sys.argv[1:] if args is None else args
    try:
        return run(args)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in OPTIONAL:
            raise
        extra = EXTRAS.get(args[0], "train")
        print(
            f"error: lockstep {args[0]} needs {missing}:"
            f" pip install 'lockstep-handbook[{extra}]'",
            file=sys.stderr,
        )
        return 2


def run(args: list[str]) -> int:
    """The command that the first word names, or the help."""
    with_commands = {
        "bug": bug.main,
        "drill": drill.main,
        "export": export.main,
        "lab": lab.main,
        "plan": plan.main,
        "quiz": quiz.main,
    }
    if args and (command := with_commands.get(args[0])):
        return command(args[1:])
    return subcommand_cli_from_dict(
        {
            "audit": audit,
            "bug": mending,
            "drill": drilling,
            "exam": exam,
            "export": exporting,
            "lab": exercising,
            "plan": planning,
            "quiz": quizzing,
        },
        prog="lockstep",
        args=args,
    )
