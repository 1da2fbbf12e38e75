"""Old commands and imports keep working."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import lockstep
from tests.conftest import ROOT, daily

# Every `python -m` that readers were shown whose module has moved since.
OLD = """
bench bench.background bench.order bench.traces bio.smiles.streams
bio.studies.batching bio.studies.chemprop_step bio.studies.design
bio.studies.generation bio.studies.limits bio.studies.packing
bio.studies.protein_lm bio.studies.screens bio.studies.smiles
bio.studies.sparse bio.studies.splits bugs.record bugs.rig chaos
drills.faults.goodput drills.faults.late_leaver drills.faults.leading
drills.faults.mismatch drills.faults.stale_store drills.silent
experiments.chaos experiments.chaos.campaign experiments.faults.goodput
exercises.bugs.record exercises.bugs.rig exercises.grading
exercises.labs.lab_02_data_parallel.demo exercises.rehearsal exercises.silent
grading
labs.lab_02_data_parallel.demo labs.lab_09_interview_scenarios
labs.lab_b5_equivariance.example pathologies pathologies.prediction
probes.additions probes.apart probes.collectives probes.dealing probes.errata
probes.flipped probes.formats probes.groups probes.handles probes.interval
probes.means probes.meshes probes.mixtures probes.peak probes.peers
probes.resumed probes.streams probes.strategies probes.torn probes.watching
probes.whoami probes.wire rehearse
""".split()  # noqa: SIM905
OLD += [
    f"{package}.{old}"
    for package, names in lockstep.RENAMED.items()
    for old in names
]


@pytest.mark.parametrize("old", OLD)
def test_a_module_that_moved_is_found_by_its_old_name(old: str) -> None:
    spec = find_spec(f"lockstep.{old}")
    assert spec is not None
    assert spec.origin is not None
    if spec.submodule_search_locations:  # a package is run by its __main__
        assert find_spec(f"lockstep.{old}.__main__")


def test_old_names_shadow_no_module() -> None:
    """No old name is the name of a module of today, which it would hide."""
    home = Path(lockstep.__path__[0])
    for old in lockstep.MOVED:
        path = home.joinpath(*old.split("."))
        assert not (path / "__init__.py").exists(), old
        assert not path.with_suffix(".py").exists(), old


def test_a_name_that_never_was_is_not_found() -> None:
    assert find_spec("lockstep.probes.nothing") is None
    assert find_spec("lockstep.probe") is None


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("lockstep.probes.means", "mean of means"),
        ("lockstep.exercises.silent 4", "launch 1"),
        *daily(
            [
                ("lockstep.experiments.chaos --help", "restarts"),
                ("lockstep.drills.silent 4", "launch 1"),
                ("lockstep.rehearse nothing.py", "nothing.py"),
            ]
        ),
    ],
)
def test_an_old_command_runs(command: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
