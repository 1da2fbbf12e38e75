"""Measure on this machine's GPU, or show what was measured.

python -m lockstep.experiments.gpu --help
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import tyro

from lockstep.experiments.gpu import determinism, kernels, steps, tables
from lockstep.experiments.gpu.settings import Shape
from lockstep.experiments.provenance import about, gpu, write

RESULT = Path(__file__).with_name("result.json")
SEQUENCE = 4096


def of_steps() -> list[dict[str, Any]]:
    """By format, by batch with and without recomputation, and compiled."""
    each: list[dict[str, Any]] = [
        {"batch": 2, "precision": precision}
        for precision in ("fp32", "tf32", "bf16", "fp16", steps.FSDP2)
    ]
    each += [{"batch": batch} for batch in (1, 4, 8)]
    each += [{"batch": batch, "recompute": "full"} for batch in (1, 2, 4, 8)]
    each += [{"batch": batch, "recompute": "selective"} for batch in (2, 8)]
    each += [{"batch": batch, "compiled": True} for batch in (2, 4)]
    return [stepped(**one) for one in each]


def of_offload() -> list[dict[str, Any]]:
    """Weights, gradients and optimizer on the host."""
    return [stepped(batch, offload=True) for batch in (2, 8)]


def stepped(batch: int, **how: Any) -> dict[str, Any]:
    """Of the whole decoder."""
    with steps.alone():
        return steps.measured(Shape(), batch, SEQUENCE, **how)


def of_kept() -> list[dict[str, Any]]:
    """What a block keeps, without recomputation and with it."""
    with steps.alone():
        return [
            steps.kept(Shape(), 2, SEQUENCE, recompute, (2, 6))
            for recompute in ("none", "selective", "full")
        ]


def resumed() -> list[dict[str, Any]]:
    """The trainer on the GPU, in each format: stopped and started again beside
    a run that was not. Are the last weights the same?"""
    found = []
    for precision in ("fp32", "bf16", "fp16"):
        with tempfile.TemporaryDirectory() as folder:
            whole = trained(f"{folder}/whole", precision)
            trained(f"{folder}/stopped", precision, "--stop-at-step", "25")
            again = trained(f"{folder}/stopped", precision)
        found.append({"precision": precision, "weights": [whole, again]})
    return found


def trained(folder: str, precision: str, *more: str) -> str:
    """The digest of the weights with which a run of 40 steps ends."""
    command = [
        *(sys.executable, "-m", "lockstep.trainer", "--run-dir", folder),
        *("--max-steps", "40", "--checkpoint-every-steps", "10"),
        *("--precision", precision, *more),
    ]
    out = subprocess.run(command, capture_output=True, text=True, check=True)
    return re.findall(r"weights (\w+)", out.stdout + out.stderr)[-1]


PARTS: dict[str, Callable[[], Any]] = {
    "formats": kernels.formats,
    "sizes": kernels.sizes,
    "rows": kernels.rows,
    "steps": of_steps,
    "offload": of_offload,
    "kept": of_kept,
    "attention": kernels.attention,
    "loss": kernels.loss,
    "launches": steps.launches,
    "updates": lambda: steps.updates(Shape()),
    "moved": kernels.moved,
    "copies": kernels.copies,
    "hidden_copy": kernels.hidden_copy,
    "twice": determinism.twice,
    "batches": determinism.in_other_batches,
    "biased": kernels.biased,
    "fragments": steps.fragments,
    "resumed": resumed,
}


def run(
    result: Path = RESULT, revision: str = "", only: tuple[str, ...] = ()
) -> int:
    """Measure each part and write what is known after each of them.

    Args:
        result: the JSON file to write.
        revision: of the code, where it is no checkout.
        only: these parts, and no others.
    """
    if not torch.cuda.is_available():
        sys.exit("this measures a GPU, and torch sees none here")
    found: dict[str, Any] = about(("torch", "numpy"))
    found["revision"] = revision or found["revision"]
    found["gpu"] = gpu()
    for name, part in PARTS.items():
        if only and name not in only:
            continue
        began = time.monotonic()
        try:
            found[name] = part()
        except Exception as error:  # the others are worth having
            found.setdefault("failed", {})[name] = repr(error)[:500]
        torch.cuda.empty_cache()
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
        write(found, result)
    for name, why in found.get("failed", {}).items():
        print(f"{name} failed: {why}", file=sys.stderr)
    render(result)
    return bool(found.get("failed"))


def render(result: Path = RESULT) -> int:
    """Write the tables of a result anew."""
    found = json.loads(result.read_text())
    result.with_suffix(".md").write_text(tables.tables(found))
    return 0


if __name__ == "__main__":
    commands: dict[str, Callable[..., int]] = {"run": run, "render": render}
    sys.exit(
        tyro.extras.subcommand_cli_from_dict(
            commands,
            prog="lockstep.experiments.gpu",
            config=(tyro.conf.OmitArgPrefixes,),
        )
    )
