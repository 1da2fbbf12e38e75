"""What a slow job looks like, and what it looks like mended.

    python -m lockstep.experiments.slow_jobs NAME...

With `--into FOLDER` each report becomes a file there.
"""

from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

# An optimizer's first step imports it: here, before the ranks are forked.
import torch._dynamo  # noqa: F401
import tyro

from lockstep.instruments.forked import in_a_group

NAMES = (
    "loader",
    "skew",
    "jitter",
    "saves",
    "accumulate",
    "bucket",
    "reads",
    "tiny",
    "padding",
    "recompiles",
    "outside",
)


def report(name: str) -> str:
    """What the ranks of that pathology found."""
    module = import_module(f"lockstep.experiments.slow_jobs.{name}")
    with TemporaryDirectory() as folder:
        ranks = in_a_group(module.RANKS, module.measured, folder)
    return "\n".join(module.told(ranks)) + "\n"


def main(
    names: tyro.conf.Positional[tuple[str, ...]], into: Path | None = None
) -> None:
    """Show what slows a job down, and what it looks like once it is mended.

    Args:
        names: which pathologies; all, if none is named.
        into: a folder for the reports, which are printed otherwise.
    """
    unknown = set(names) - set(NAMES)
    if unknown:
        known = ", ".join(NAMES)
        raise SystemExit(f"no pathology {min(unknown)!r}; there are {known}")
    for name in names or NAMES:
        if into:
            into.mkdir(parents=True, exist_ok=True)
            (into / f"{name}.txt").write_text(report(name))
        else:
            print(report(name), end="")


if __name__ == "__main__":
    tyro.cli(main, prog="lockstep.experiments.slow_jobs")
