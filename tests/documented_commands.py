"""The commands that README.md and CONTRIBUTING.md tell, and who runs them.

`make TARGET` is run by CI: by a stage of `.ci/run`, by a test of the
door, or by a job of a workflow.
All other commands are run as they are printed by
`tests/door/test_documented.py`, where only README's commands have been.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.makefile import rules

ROOT = Path(__file__).parents[1]
PAGES = "README.md", "CONTRIBUTING.md"
# What is to be filled in, and what a newcomer might fill in.
PLACES = {
    "FILE": "code/lockstep/interview.py",
    "ID": "adam-hides-the-scale",
    "NAME": "process-topology",
    "NN": "01",
    "QUESTION": "one-fsdp-step",
    "ROUND": "train-70b-on-512",
}
_PLACE = re.compile(rf"\b({'|'.join(PLACES)})\b")
_FENCED = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.M | re.S)
_SPAN = re.compile(r"`([^`]+)`")
_PROGRAMS = {".", "lockstep", "make", "pip", "pytest", "python", "torchrun"}
_SET = re.compile(r"[A-Z_]+=\S+")
_EXPRESSION = re.compile(r"\$\{\{ *([\w.]+) *\}\}")


def commands(page: str) -> list[str]:
    """Each command of a page once, as printed, in the order of the page."""
    text = (ROOT / page).read_text("utf-8")
    found: list[str] = []
    prose, *fences = _FENCED.split(text)
    while True:
        spans = (" ".join(span.split()) for span in _SPAN.findall(prose))
        found += [span for span in spans if _is_command(span)]
        if not fences:
            return list(dict.fromkeys(found))
        language, block, prose, *fences = fences
        found += _lines(block) if language == "bash" else []


def _lines(block: str) -> Iterator[str]:
    """The commands of a fence, without what a shell does not read."""
    for line in re.sub(r"\\\n\s*", "", block).splitlines():
        if words := shlex.split(line, comments=True):
            yield line if "#" not in line else shlex.join(words)


def _is_command(span: str) -> bool:
    words = [word for word in span.split() if not _SET.fullmatch(word)]
    return words == ["make"] or (len(words) > 1 and words[0] in _PROGRAMS)


def filled(command: str) -> str:
    """The command with something in each place that is left open."""
    return _PLACE.sub(lambda found: PLACES[found[1]], command)


def target(command: str) -> str | None:
    """What it makes, if it is no more than `make TARGET`, or that with settings
    behind it, as in `make exam PEER=accelerate`."""
    found = re.fullmatch(r"make ([\w-]+)( [A-Z]+=\S+)*", command)
    return found[1] if found else None


def of_the_door() -> list[str]:
    """The commands that no stage runs by making a target."""
    told = itertools.chain.from_iterable(map(commands, PAGES))
    return list(dict.fromkeys(x for x in told if not target(x)))


def workflow(name: str) -> dict:
    """A workflow of `.github/workflows`."""
    path = ROOT / ".github" / "workflows" / name
    return dict(yaml.safe_load(path.read_text("utf-8")))


def runs(job: dict) -> list[str]:
    """What a job of a workflow runs, once for each value of its matrix."""
    matrix = (job.get("strategy") or {}).get("matrix") or {}
    lists = {k: v for k, v in matrix.items() if isinstance(v, list)}
    drawn = itertools.product(*lists.values())
    given = [
        {f"matrix.{k}": str(v) for k, v in zip(lists, one, strict=True)}
        for one in drawn
    ]
    return [
        _EXPRESSION.sub(lambda x, one=one: one.get(x[1], x[0]), step["run"])
        for one in given
        for step in job["steps"]
        if "run" in step
    ]


def made_in_ci() -> dict[str, str]:
    """Each target that CI makes, and where."""
    found: dict[str, str] = {}

    def reach(name: str, where: str) -> None:
        if name in known and name not in found:
            found[name] = where
            for need in known[name].needs:
                reach(need, where)

    known = rules()
    stages = re.findall(
        r"^stage (\w+) \d+ (make .+)$", (ROOT / ".ci/run").read_text(), re.M
    )
    for stage, command in stages:
        for name in command.split()[1:]:
            reach(name, f"stage {stage} of .ci/run")
    for path in sorted((ROOT / "tests/door").glob("*.py")):
        for name in re.findall(r'\bmake(?: |", ")([\w-]+)', path.read_text()):
            reach(name, "stage door of .ci/run")
    for path in sorted((ROOT / ".github/workflows").glob("*.yml")):
        for job, steps in workflow(path.name)["jobs"].items():
            for command in runs(steps):
                for name in re.findall(r"\bmake ([\w-]+)", command):
                    reach(name, f"job {job} of {path.name}")
    return found
