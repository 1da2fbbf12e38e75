"""The command `lockstep`."""

import os
import sys

from tyro.extras import subcommand_cli_from_dict

from lockstep.cli import bug, drill, export, lab, plan, quiz
from lockstep.cli.audit import audit
from lockstep.cli.exam import exam
from lockstep.cli.explain import explain

# What the extras of the package bring, as Python imports it, and which extra a
# command wants; the others want `train`.
OPTIONAL = frozenset(
    {"fsrs", "jinja2", "markdown_it", "numpy", "platformdirs", "psutil",
     "pydantic", "safetensors", "simpy", "sklearn", "torch", "yaml"}
)  # fmt: skip
EXTRAS = {
    "exam": "exam",
    "explain": "explain",
    "export": "cards",
    "plan": "fleet",
    "quiz": "cards",
}


def planning() -> None:
    """Plan a run: memory, traffic and time, each with its formula."""


def drilling() -> None:
    """Build the interview trainer in five timed drills."""


def exercising() -> None:
    """Start and grade labs."""


def mending() -> None:
    """Find and fix the bugs of broken trainers."""


def quizzing() -> None:
    """Practice cards with spaced repetition."""


def exporting() -> None:
    """Export the question bank as an Anki deck."""


def main(args: list[str] | None = None) -> int:
    """Run `lockstep COMMAND` and return its exit code: 2 if the command needs
    an extra that isn't installed."""
    args = sys.argv[1:] if args is None else args
    try:
        try:
            return run(args)
        finally:
            sys.stdout.flush()  # here, where a closed pipe can be caught
    except BrokenPipeError:
        # Python flushes once more when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
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
    """Run the command that the first word names, or print the help."""
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
            "explain": explain,
            "export": exporting,
            "lab": exercising,
            "plan": planning,
            "quiz": quizzing,
        },
        prog="lockstep",
        args=args,
    )
