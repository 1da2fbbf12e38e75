"""Lockstep: distributed PyTorch training whose every line runs.

The rooms, from the ground up: `planner` and `trainer`; `interview`, the trainer
in one file; `instruments`; `parallel`; `rl` and `bio`; `exercises`;
`experiments`; `practice`; and on top `site` and `cli`. A room imports only
those below it, which `make lint` checks.
"""

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_file_location
from typing import Any

# Where the modules of the first edition are now, so that the commands that
# readers have noted, `python -m lockstep.rehearse`, go on working.
MOVED = {
    "bench": "experiments.benchmarks",
    "bio.smiles.streams": "experiments.studies.smiles_streams",
    "bio.studies": "experiments.studies",
    "bugs": "exercises.bugs",
    "chaos": "experiments.chaos",
    "drills.faults": "experiments.faults",
    "drills.silent": "exercises.silent",
    "drills.stages": "exercises.drills",
    "grading": "exercises.grading",
    "labs": "exercises.labs",
    "pathologies": "experiments.slow_jobs",
    "planner.page": "explore.planner_page",
    "practice.evidence": "site.evidence",
    "probes": "experiments.demos",
    "rehearse": "exercises.rehearsal",
}


class Moved(MetaPathFinder):
    """Finds a module by the name that it had in the first edition."""

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        """A spec under the old name, with the file of the new one."""
        short = name.removeprefix("lockstep.")
        if name == "lockstep.drills":  # only a folder of others
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


sys.meta_path.append(Moved())
