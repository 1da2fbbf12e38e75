"""Measure, or show what was measured.

python -m lockstep.experiments.benchmarks --help
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tyro

from lockstep.experiments.benchmarks import (
    background_saving as background_saving,
)
from lockstep.experiments.benchmarks import labs_vs_torch, links
from lockstep.experiments.benchmarks.background_saving import Saving
from lockstep.experiments.benchmarks.result import broken, summary
from lockstep.experiments.benchmarks.settings import (
    FIXED,
    RESULT,
    WORLD_SIZE,
    Settings,
)
from lockstep.experiments.benchmarks.tables import tables
from lockstep.experiments.benchmarks.time_to_first_batch import orders
from lockstep.experiments.provenance import about, write


def run(settings: Settings, result: Path = RESULT) -> int:
    """Measure, write the result and its tables, and judge it.

    Args:
        result: the JSON file to write; the tables go beside it, as Markdown.
    """
    print("orders: in processes of their own", flush=True)
    found: dict[str, Any] = {**about(), "settings": FIXED | asdict(settings)}
    found["orders"] = orders(settings.longest, settings.repeats)
    print("steps and checkpoints: on two ranks", flush=True)
    found |= on_ranks("lockstep.experiments.benchmarks.per_rank", settings)
    found["summary"] = summary(found)
    write(found, result)
    render(result)
    return check(result)


def on_ranks(module: str, settings: Settings | Saving) -> dict[str, Any]:
    """What `module` of this package measures, on processes of torchrun."""
    cache = Path(".cache")  # on the disk: a temporary folder may not be
    cache.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        command = [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *(f"--nproc-per-node={WORLD_SIZE}", "-m", module),
            *(json.dumps(asdict(settings)), folder),
        ]
        alike = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        subprocess.run(command, check=True, env=os.environ | alike)
        return dict(json.loads(Path(folder, "found.json").read_text()))


def background(
    settings: Saving, result: Path = background_saving.RESULT
) -> int:
    """Measure what saving holds up, in the foreground and in the background."""
    if settings.pairs < 3:
        sys.exit("--pairs must be at least 3: the first is left out")
    found: dict[str, Any] = {**about(), "settings": asdict(settings)}
    found |= on_ranks(
        "lockstep.experiments.benchmarks.background_saving", settings
    )
    found["summary"] = background_saving.summary(found)
    write(found, result)
    return render_background(result)


def render_background(result: Path = background_saving.RESULT) -> int:
    """Write the tables of what saving holds up anew."""
    found = json.loads(result.read_text())
    result.with_suffix(".md").write_text(background_saving.tables(found))
    return 0


def render(result: Path = RESULT) -> int:
    """Write the tables of a result anew."""
    text = tables(json.loads(result.read_text()))
    result.with_suffix(".md").write_text(text)
    return 0


def check(result: Path = RESULT) -> int:
    """Say whether a result holds the limits. Exit code 1: it does not."""
    found = json.loads(result.read_text())
    said = list(broken(found["summary"]))
    for model, over in found["summary"]["over"].items():
        ratios = ", ".join(
            f"{ratio['median']:.3f} of {rival}" for rival, ratio in over.items()
        )
        print(f"{model}: {ratios}")
    for sentence in said:
        print(sentence)
    print("the limits are broken" if said else "the limits hold")
    return bool(said)


if __name__ == "__main__":
    commands: dict[str, Callable[..., int]] = {
        "run": run,
        "background": background,
        "render-background": render_background,
        "links": links.run,
        "render-links": links.render,
        "parts": labs_vs_torch.run,
        "render-parts": labs_vs_torch.render,
        "render": render,
        "check": check,
    }
    sys.exit(
        tyro.extras.subcommand_cli_from_dict(
            commands,
            prog="lockstep.experiments.benchmarks",
            config=(tyro.conf.OmitArgPrefixes,),
        )
    )
