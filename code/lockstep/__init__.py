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
# Modules that kept their package and were renamed for their subject.
RENAMED = {
    "bio": {
        "agreement": "masks_across_ranks",
        "counts": "global_mean",
        "derive": "rebuild_data",
        "design": "design_loop",
        "mirrors": "chirality",
        "pool": "distributed_top_k",
        "rows": "sparse_rows",
        "salted": "salted_hash",
    },
    "exam": {
        "bench": "sandbox",
        "names": "env_vars",
    },
    "experiments.benchmarks": {
        "background": "background_saving",
        "contest": "cpu_time_per_step",
        "hosted": "observed_trainer",
        "order": "time_to_first_batch",
        "parts": "labs_vs_torch",
        "saving": "checkpoint_cost",
    },
    "experiments.demos": {
        "additions": "reduction_order",
        "apart": "world_size_drift",
        "at_scale": "shuffle_and_dedup",
        "compiled": "torch_compile",
        "composed": "nd_parallel_grad_sync",
        "dealing": "sampler_sharding",
        "divided": "context_parallel_bugs",
        "experts": "moe_training",
        "flipped": "checkpoint_bit_flip",
        "formats": "number_formats",
        "groups": "process_groups",
        "handles": "async_collectives",
        "hunted": "fault_localization",
        "in_few_bits": "low_precision_training",
        "interval": "checkpoint_interval",
        "means": "mean_of_means",
        "meshes": "device_meshes",
        "mixtures": "data_mixtures",
        "orders": "mesh_axis_order",
        "peak": "peak_memory",
        "peers": "memory_calculators",
        "pipelined": "torch_pipelines",
        "quantized": "fp8_and_fp4",
        "replicated": "ddp_traffic",
        "resumed": "loss_after_resume",
        "runs": "trainer_runs",
        "scaler": "loss_scaler",
        "seldom": "local_sgd",
        "sharded": "fsdp2_traffic",
        "strategies": "ddp_vs_fsdp2",
        "streams": "data_streams",
        "tiled": "tiled_attention",
        "torn": "torn_checkpoint",
        "unstable": "training_instability",
        "watching": "trainer_observer",
        "wire": "bytes_on_wire",
    },
    "experiments.faults": {
        "draw": "random_faults",
        "late_leaver": "first_failure_attribution",
        "leading": "slowest_phase",
        "mismatch": "shape_mismatch",
    },
    "experiments.gpu": {
        "repeated": "determinism",
    },
    "experiments.studies": {
        "design": "design_loop",
        "limits": "censored_labels",
        "screens": "screening_metrics",
        "sparse": "sparse_labels",
    },
    "grading": {
        "patience": "hang_budget",
    },
    "parallel": {
        "owners": "sharded_muon",
    },
    "practice": {
        "core": "core_questions",
    },
    "rl": {
        "versions": "weight_versions",
    },
    "site.build": {
        "findable": "search_metadata",
        "kept": "build_cache",
        "policy": "content_security_policy",
    },
    "site.pages": {
        "checked": "torch_claims",
        "origins": "number_origins",
        "predicted": "published_runs",
        "proofs": "proof_marks",
    },
    "site.verify": {
        "proven": "passed_proofs",
    },
}
MOVED |= {
    f"{package}.{old}": f"{package}.{new}"
    for package, names in RENAMED.items()
    for old, new in names.items()
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
