"""Lockstep: distributed PyTorch training whose every line runs.

The packages, from the ground up: `planner` and `trainer`; `interview`, the
trainer in one file; `instruments`; `parallel`; `rl` and `bio`; `grading`;
`labs`, `drills` and `debugging`; `experiments`; `practice`; and on top `site`
and `cli`. A package imports only those below it, which `make lint` checks.
"""

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_file_location
from typing import Any

# Where modules have moved, so that the commands and imports that readers have
# noted, `python -m lockstep.rehearse`, keep working.
MOVED = {
    "bench": "experiments.benchmarks",
    "bio.smiles.streams": "experiments.studies.smiles_streams",
    "bio.studies": "experiments.studies",
    "bugs": "debugging.bugs",
    "chaos": "experiments.faults",
    "drills.faults": "experiments.faults",
    "drills.silent": "debugging.silent",
    "drills.stages": "drills",
    "experiments.chaos": "experiments.faults",
    "experiments.faults.goodput": "experiments.faults.kept_steps",
    "exercises.bugs": "debugging.bugs",
    "exercises.drills": "drills",
    "exercises.grading": "grading",
    "exercises.labs": "labs",
    "exercises.rehearsal": "drills.rehearsal",
    "exercises.silent": "debugging.silent",
    "pathologies": "experiments.slow_jobs",
    "planner.page": "explore.planner_page",
    "practice.evidence": "site.pages.evidence",
    "probes": "experiments.demos",
    "rehearse": "drills.rehearsal",
    "site.links": "site.verify.links",
    "site.record": "site.verify.record",
}


class Moved(MetaPathFinder):
    """Finds a module by the name that it had before it moved."""

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        """A spec under the old name, with the file of the new one."""
        short = name.removeprefix("lockstep.")
        if short == "exercises":  # only a folder of others
            return ModuleSpec(name, None, is_package=True)
        for old, new in MOVED.items():
            if short == old or short.startswith(f"{old}."):
                found = find_spec(f"lockstep.{new}{short.removeprefix(old)}")
                return found and spec_from_file_location(
                    name,
                    found.origin,
                    submodule_search_locations=found.submodule_search_locations,
                )
        return None


# First: a folder that an update has left empty would be found as a package.
sys.meta_path.insert(0, Moved())
