"""Forked ranks train as ranks that torchrun starts, from changed sources."""

import ast
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from difflib import SequenceMatcher
from multiprocessing import get_context
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
import pytest

from lockstep.exam.adapter import Adapter, Launch, load
from lockstep.exam.launching import launching
from lockstep.experiments.resume_mutants import forked, trials
from lockstep.experiments.resume_mutants.campaign import adapter_of
from lockstep.experiments.resume_mutants.forked import (
    Process,
    source_of,
    starter,
    torchrun,
)
from lockstep.experiments.resume_mutants.sound import VARIANTS, Variant
from lockstep.experiments.resume_mutants.trials import (
    TRIALS,
    Trial,
    end,
    matters,
)

LOOP = "lockstep.examples.plain_loop"
Apart = Callable[..., Any]
SHORT = Trial("stopped", (2,), {"steps": 4})


def adapter(**sources: str) -> Adapter:
    """The plain loop in forked ranks."""
    return replace(load(f"{LOOP}_exam"), start=starter(sources))


@pytest.fixture(scope="module")
def apart() -> Iterator[Apart]:
    """Call a function in a process without threads, as a campaign's is."""
    spawn = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        yield lambda act, *args: pool.submit(act, *args).result()


def both_ways(folder: Path, python: Path) -> list[Any]:
    """How a run ends that is stopped once: in forks, and under torchrun."""
    trainers = adapter(), load(f"{LOOP}_exam")
    short = SHORT._replace(settings={**SHORT.settings, "python": str(python)})
    return [end(one, folder, short)[:3] for one in trainers]


@pytest.mark.slow
def test_forked_ranks_end_with_torchruns_weights(
    apart: Apart, tmp_path: Path, warm: Path
) -> None:
    """The exit code, all weights and the samples are the same."""
    forked, started = apart(both_ways, tmp_path, warm / "python")
    assert forked == started
    code, weights, ids = forked
    assert (code, len({*weights}), len(weights)) == (0, 1, 2)
    assert ids.total() == 4 * 16


def shown(folder: Path, *sources: dict[str, str]) -> list[str]:
    """What shows of trainers with these sources."""
    sound = end(adapter(), folder, Trial("", (), SHORT.settings)).ids
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials, "TRIALS", [SHORT])
        return [matters(adapter(**each), folder, sound) for each in sources]


@pytest.mark.slow
def test_a_fault_shows_and_a_sound_loop_shows_nothing(
    apart: Apart, tmp_path: Path
) -> None:
    """A scheduler that is not saved gives a stopped run other weights."""
    line, text = '"scheduler": scheduler,\n', source_of(LOOP)
    assert text.count(line) == 1
    faulty = {LOOP: text.replace(line, "\n")}
    assert apart(shown, tmp_path, {}, faulty) == [
        "",
        "stopped: other final weights",
    ]


def one_rank_fails() -> tuple[int, str]:
    """Rank 1 leaves with an error, while rank 0 sleeps."""

    def rank() -> int:
        if os.environ["RANK"] == "1":
            return 3
        time.sleep(60)
        return 0

    process = Process(lambda: torchrun(2, rank), {})
    return process.wait(), process.stdout.read().decode()


def test_when_a_rank_fails_the_others_are_ended(apart: Apart) -> None:
    """As under torchrun: the launch ends with 1, long before they would."""
    begun = time.monotonic()
    code, text = apart(one_rank_fails)
    assert code == 1
    assert text.startswith("E0000 rank 1 ended with 3\n")
    assert time.monotonic() - begun < 50


def told_to_end() -> tuple[bytes, int]:
    """A rank that leaves when SIGTERM comes."""

    def rank() -> int:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        print("ready", flush=True)
        time.sleep(60)
        return 0

    process = Process(lambda: torchrun(1, rank), {})
    ready = process.stdout.read(5)
    process.terminate()
    return ready, process.wait()


def test_sigterm_reaches_the_ranks(apart: Apart) -> None:
    """The launcher passes it on, and ends with 1 as torchrun does."""
    assert apart(told_to_end) == (b"ready", 1)


def broken_off(folder: Path) -> list[int]:
    """The processes that a launch leaves which is broken off."""
    with launching(adapter(), Launch(folder / "run"), [], {}):
        time.sleep(1)
    return [
        process.pid
        for process in psutil.Process().children(recursive=True)
        if process.status() != psutil.STATUS_ZOMBIE
    ]


def test_what_a_launch_leaves_is_ended(apart: Apart, tmp_path: Path) -> None:
    """The exam finds the forks of a launch that it breaks off."""
    assert apart(broken_off, tmp_path) == []


@pytest.mark.parametrize(
    "variant", VARIANTS, ids=lambda one: f"{one.loop}: {one.name}"
)
def test_a_sound_variant_fits_its_loop(variant: Variant) -> None:
    """Its replacements occur once each, and what they make is Python."""
    for module, source in variant.sources.items():
        assert source != source_of(module)
        compile(source, module, "exec")


def hunks(old: str, new: str) -> list[set[int]]:
    """The lines of each change, counted from 1; for the first line of a
    function, those of its body."""
    bodies = {
        one.lineno: range(one.body[0].lineno, (one.end_lineno or 0) + 1)
        for one in ast.walk(ast.parse(new))
        if isinstance(one, ast.FunctionDef)
    }
    pair = SequenceMatcher(None, old.splitlines(), new.splitlines(), False)
    found = []
    for how, _, _, first, last in pair.get_opcodes():
        if how in ("replace", "insert"):
            lines = {*range(first + 1, last + 1)}
            found.append(lines.union(*(bodies.get(n, ()) for n in lines)))
    return found


def unused(folder: Path, variants: list[Variant]) -> list[str]:
    """The changes of variants of which no line ran in a run that is stopped
    once."""
    script = forked.script

    def traced(path: str, words: list[str], sources: dict[str, str]) -> int:
        ran: set[tuple[str, int]] = set()
        files = {f"<mutant of {one}>": one for one in sources}
        files[path] = f"lockstep.examples.{Path(path).stem}"

        def trace(frame: FrameType, *_: object) -> Any:
            code = frame.f_code
            if code.co_filename not in files or code.co_name == "<module>":
                return None
            ran.add((files[code.co_filename], frame.f_lineno))
            return trace

        sys.settrace(trace)
        threading.settrace(trace)
        try:
            return script(path, words, sources)
        finally:
            into = folder / f"{os.getpid()}.json"
            into.write_text(json.dumps([*ran]))

    patch = pytest.MonkeyPatch()
    patch.setattr(forked, "script", traced)
    missed = []
    for one in variants:
        run = adapter_of(one.loop, one.sources)
        for part in folder.glob("*.json"):
            part.unlink()
        ended = end(run, folder / "run", TRIALS[0])
        assert ended.code == 0, f"{one.loop}: {one.name}: {ended.text}"
        ran = {
            (name, line)
            for part in folder.glob("*.json")
            for name, line in json.loads(part.read_text())
        }
        for module, source in one.sources.items():
            missed += [
                f"{one.loop}: {one.name}: {module}, lines {sorted(lines)}"
                for lines in hunks(source_of(module), source)
                if not any((module, line) in ran for line in lines)
            ]
    patch.undo()
    return missed


@pytest.mark.weekly
@pytest.mark.timeout(1200)
def test_each_change_of_a_sound_variant_runs(
    apart: Apart, tmp_path: Path
) -> None:
    """A variant whose changed lines a loop never runs would be the plain
    loop. Compiled variants are left out: torch.compile doesn't go together
    with a trace function."""
    traced = [one for one in VARIANTS if "compiled" not in one.name]
    assert apart(unused, tmp_path, traced) == []


def forks(words: list[str]) -> tuple[int, str, int]:
    """Run a command in forks; return its exit code, output and process."""
    process = starter({})(words, {})
    said = process.stdout.read().decode()
    return process.wait(), said, process.pid


def test_a_script_without_torchrun_runs_in_a_fork(
    apart: Apart, tmp_path: Path
) -> None:
    """A trainer that starts its ranks by itself is one process at first. It may
    import what lies next to it, and get a variable by `env`."""
    path = tmp_path / "alone.py"
    (tmp_path / "beside_it.py").write_text("")
    path.write_text(
        "import os, sys, beside_it\n"
        "print(os.environ, sys.argv[1:], os.getpid())"
    )
    words = ["env", "A=1", "python", str(path), "--steps", "3"]
    code, said, pid = apart(forks, words)
    assert code == 0
    assert "'A': '1'" in said
    assert said.endswith(f" ['--steps', '3'] {pid}\n")


def test_a_module_runs_in_forks(apart: Apart) -> None:
    """As with `torchrun -m MODULE`, on each rank."""
    words = "python -m torch.distributed.run --nproc-per-node 2 -m this"
    code, said, _ = apart(forks, words.split())
    assert code == 0
    assert said.count("Beautiful is better than ugly.") == 2
