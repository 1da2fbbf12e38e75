"""Examine a peer, or show what was found.

python -m lockstep.experiments.peers --help
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import tyro

from lockstep.exam.adapter import Launch, load
from lockstep.exam.examine import Exam, examine
from lockstep.exam.questions import BY_ID, Result, Verdict, current
from lockstep.exam.report import Streamed, conclusion
from lockstep.exam.sandbox import ExamError
from lockstep.experiments.peers import tables
from lockstep.experiments.provenance import about, gpu, write
from lockstep.experiments.resume_mutants.forked import starter

HOME = Path(__file__).parent
EXAMPLES = HOME.parents[1] / "examples"
FOLDER = Path(".cache/exam")
Part = Literal["two", "four", "mended", "one", "gpu", "gpu-mended"]
# Of two ranks everything is asked; of four, what more ranks could change.
FOUR = frozenset(
    {"reproducible", "rank-seeds", "resumes-latest", "exactly-once", "order",
     "rng-state", "kill"}
)  # fmt: skip
# Of one rank on a GPU, what a device may change: what a step computes, and what
# has to go on for the next one to be the same. And the same on a CPU.
ONE = frozenset(
    {"reproducible", "batch", "reshuffled", "resumes-latest", "total-steps",
     "exactly-once", "order", "learning-rate", "optimizer", "buffers",
     "rng-state", "ema", "final-weights", "epoch-boundary", "kill",
     "two-restarts", "loader-workers", "scaler"}
)  # fmt: skip
# The parts with a file of their own: which script, on how many ranks, is asked
# what; nothing means everything.
OWN: dict[Part, tuple[str, int, frozenset[str]]] = {
    "mended": ("mended.py", 2, frozenset()),
    "one": ("adapter.py", 1, ONE),
    "gpu": ("adapter.py", 1, ONE),
    "gpu-mended": ("mended.py", 1, ONE),
}
ON_GPU = {"gpu", "gpu-mended"}
# The exam stops a launch's processes for moments to kill it between two files,
# and it cannot stop a fork of another process.
COLD = frozenset({"kill-during-save"})
START = 30  # seconds in which the ranks of a cold launch meet


def run(
    peer: tyro.conf.Positional[str],
    python: str = sys.executable,
    only: tuple[str, ...] = (),
    parts: tuple[Part, ...] = ("two", "four", "mended"),
    revision: str = "",
    cold: str = "",
) -> int:
    """Examine a peer and write what was found into its folder.

    Args:
        peer: the name of a folder here.
        python: the interpreter of the peer's environment.
        only: ask these questions, print the answers and write nothing.
        parts: everything on two ranks; a few questions on four; everything of
            the mended script on two; what a device may change, on one rank, and
            on one GPU of either script. What was recorded of the others stays.
        revision: of the code, where it is no checkout.
        cold: the interpreter for questions where the exam has to stop
            processes, if `python` is one whose launches are forks, as those of
            `lockstep.site.verify.warm` are; `fork` for forks of this process,
            which then has the peer's packages.
    """
    home = HOME / peer
    if ON_GPU & {*parts} and not gpu():
        sys.exit("parts gpu and gpu-mended need a GPU, and torch sees none")
    if only:
        for name in "adapter.py", "mended.py":
            if (home / name).exists():
                examined(home / name, python, 2, frozenset(only), cold=cold)
        return 0
    path, now = home / "result.json", about(())
    found = json.loads(path.read_text()) if path.exists() else {}
    if "two" in parts:
        found |= {**now, "versions": versions(home, python)}
        found["ranks 2"] = examined(home / "adapter.py", python, 2, cold=cold)
        found.pop("again", None)
    if "four" in parts:
        found["ranks 4"] = examined(
            home / "adapter.py", python, 4, FOUR, cold=cold
        )
        found["ranks 4"]["revision"] = now["revision"]
    write(found, path)
    for part, (script, ranks, asked) in OWN.items():
        if part in parts and (home / script).exists():
            own = {**about(()), "versions": versions(home, python)}
            own["revision"] = revision or own["revision"]
            if on_gpu := part in ON_GPU:
                own["gpu"] = gpu()
            answers = examined(
                home / script, python, ranks, asked, on_gpu, cold
            )
            write(own | {f"ranks {ranks}": answers}, home / f"{part}.json")
    return render()


def again(
    peer: tyro.conf.Positional[str],
    questions: tyro.conf.Positional[tuple[str, ...]],
    python: str = sys.executable,
    mended: bool = False,
    cold: str = "",
) -> int:
    """Ask a peer some questions once more, and put the answers in place of the
    recorded ones, with the revision that gave them.

    Args:
        peer: the name of a folder here.
        questions: which.
        python: the interpreter of the peer's environment.
        mended: ask the mended script.
        cold: as for `run`.
    """
    names = (
        ("mended.json", "mended.py")
        if mended
        else ("result.json", "adapter.py")
    )
    path, adapter = (HOME / peer / name for name in names)
    found, now = json.loads(path.read_text()), about(())
    exam = examined(adapter, python, 2, frozenset(questions), cold=cold)
    answers = {one["id"]: one for one in exam["questions"]}
    old = found["ranks 2"]
    recorded = {one["id"]: one for one in old["questions"]} | answers
    old["questions"] = [recorded[name] for name in BY_ID if name in recorded]
    for answer in ("passed", "failed"):
        old[answer] = sum(q["answer"] == answer for q in old["questions"])
    old["causes"] = sum(
        q["answer"] == "failed" and not q["same_as"] for q in old["questions"]
    )
    asked = dict.fromkeys(answers, now["revision"])
    found["again"] = found.get("again", {}) | asked
    write(found, path)
    return render()


def examined(
    adapter: Path,
    python: str,
    ranks: int,
    only: frozenset[str] = frozenset(),
    on_gpu: bool = False,
    cold: str = "",
    start: Callable[[list[str], dict[str, str]], Any] | None = None,
) -> dict[str, Any]:
    """Return a trainer's answers as plain data, and print each as it arrives.

    Args:
        adapter: the trainer's.
        python: the interpreter of its launches.
        ranks: of a launch.
        only: the questions; nothing means all of them.
        on_gpu: let launches see GPUs.
        cold: as for `run`.
        start: what starts a launch, if not a command.

    Raises:
        ExamError: if the trainer does not run undisturbed. If that is so only
            in `cold` launches, the questions that need them are not run.
    """
    if not on_gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    name = f"runs-{adapter.parent.name}-{adapter.stem}"
    folder = (FOLDER / name).resolve()
    launch = Launch(Path(), ranks=ranks, python=python)
    asked = only or frozenset(BY_ID)
    stops = asked & COLD if cold else frozenset()
    if not stops:
        exam = held(adapter, folder, launch, asked, start)
    elif asked == stops:
        exam = held_cold(adapter, folder, launch, stops, cold)
    else:
        exam = held(adapter, folder, launch, asked - stops, start)
        try:
            rest = held_cold(adapter, folder, launch, stops, cold)
        except ExamError as error:
            why = Verdict("not run", str(error))
            results = {name: Result(BY_ID[name], why) for name in stops}
            rest = replace(exam, seconds=0.0, results=results)
        exam = merged(exam, rest)
    return without_paths(exam.as_json(), folder, python, cold)


def held(
    adapter: Path,
    folder: Path,
    launch: Launch,
    asked: frozenset[str],
    start: Callable[[list[str], dict[str, str]], Any] | None,
) -> Exam:
    """Hold an exam, and print its verdicts."""
    trainer = replace(load(adapter), start=start)
    exam = examine(trainer, folder, launch, asked, Streamed(print))
    print(conclusion(exam))
    return exam


def held_cold(
    adapter: Path,
    folder: Path,
    launch: Launch,
    asked: frozenset[str],
    cold: str,
) -> Exam:
    """Hold an exam of launches that it can stop; `cold` as for `run`."""
    slow = replace(launch, timeout_seconds=START)
    if cold == "fork":
        return held(adapter, folder, slow, asked, starter({}))
    return held(adapter, folder, replace(slow, python=cold), asked, None)


def merged(exam: Exam, rest: Exam) -> Exam:
    """Return one exam with the answers of both, those of `exam` where both
    have one."""
    found = rest.results | exam.results
    results = {name: found[name] for name in BY_ID if name in found}
    seconds = exam.seconds + rest.seconds
    asked = exam.asked | rest.asked
    return replace(exam, seconds=seconds, results=results, asked=asked)


def without_paths(
    found: dict[str, Any], folder: Path, *pythons: str
) -> dict[str, Any]:
    """The same, wherever it was run and whichever interpreters ran it."""
    text = json.dumps(found)
    for python in pythons:
        if Path(python).is_absolute():
            text = text.replace(python, "python")
    for path, name in (
        (str(folder), "RUNS"),
        (str(Path.cwd()), "."),
        (str(Path.home()), "~"),
    ):
        text = text.replace(path, name)
    return json.loads(text)


def versions(home: Path, python: str) -> dict[str, str]:
    """Of the packages that the peer pins, as installed."""
    pins = home / "requirements.txt"
    lines = pins.read_text().splitlines() if pins.exists() else ["torch"]
    names = [line.partition("==")[0] for line in lines if line[:1].isalpha()]
    ask = (
        "import sys, platform; from importlib.metadata import version;"
        "print(platform.python_version(), *map(version, sys.argv[1:]))"
    )
    names = [name.partition("[")[0] for name in names]
    said = subprocess.check_output([python, "-c", ask, *names], text=True)
    number, *rest = said.split()
    return {"Python": number, **dict(zip(names, rest, strict=True))}


def faults(only: tuple[str, ...] = ()) -> int:
    """Examine the trainers of `broken` with each of their faults, and sound
    variants, on all questions, and write down which they fail: three hours.
    Ranks are forks that have torch loaded.

    Args:
        only: these variants; what was recorded of the others stays.
    """
    home, path = HOME / "broken", HOME / "faults.json"
    found = json.loads(path.read_text()) if only else {}
    found |= {**about(()), "versions": versions(home, sys.executable)}
    told = tables.variants(home)
    for name in map(current, only or told):
        print(f"--- {name}", flush=True)
        one = told[name]
        os.environ["LOCKSTEP_FAULT"] = one.name
        exam = examined(one.adapter, sys.executable, 2, start=starter({}))
        found.setdefault("faults", {})[name] = {
            "failed": [
                q["id"]
                for q in exam["questions"]
                if q["answer"] == "failed" and not q["same_as"]
            ],
            "explained": {
                q["id"]: q["same_as"] for q in exam["questions"] if q["same_as"]
            },
            "unanswered": {
                q["id"]: q["said"]
                for q in exam["questions"]
                if q["answer"] == "not run"
            },
            "seconds": exam["seconds"],
            "revision": found["revision"],
        }
        write(found, path)
    return 0


def examples(only: tuple[str, ...] = ()) -> int:
    """Examine the examples, and write down what they fail. Ranks are forks that
    have torch loaded, and this environment must have Accelerate and Lightning.

    Args:
        only: these; what was recorded of the others stays.
    """
    path = HOME / "examples.json"
    found = json.loads(path.read_text()) if only and path.exists() else {}
    found |= about(())
    for adapter in sorted(EXAMPLES.glob("*_exam.py")):
        name = adapter.stem.removesuffix("_exam")
        if only and name not in only:
            continue
        print(f"--- {name}", flush=True)
        exam = examined(adapter, sys.executable, 2, start=starter({}))
        answers = {q["id"]: q["answer"] for q in exam["questions"]}
        found[name] = {
            "answers": answers,
            "seconds": exam["seconds"],
            "revision": found["revision"],
        }
        write(found, path)
    return 0


def render() -> int:
    """Write the sections of the page anew, from all results and notes."""
    (HOME / "result.md").write_text(tables.tables(HOME))
    return 0


def changed(
    before: tyro.conf.Positional[Path], after: tyro.conf.Positional[Path]
) -> int:
    """Print the answers that differ between two results, as a list; nothing,
    where none does.

    Args:
        before: a result file.
        after: another one, of the same peer.
    """
    was, now = (json.loads(path.read_text()) for path in (before, after))
    for line in tables.changes(was, now):
        print(line)
    return 0


if __name__ == "__main__":
    commands: dict[str, Callable[..., int]] = {
        "run": run,
        "again": again,
        "render": render,
        "changed": changed,
        "examples": examples,
        "faults": faults,
    }
    sys.exit(
        tyro.extras.subcommand_cli_from_dict(
            commands, prog="lockstep.experiments.peers"
        )
    )
