"""What tests need that may not be installed, and which of them are slow."""

import functools
import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
# A shell starts what it leaves in the background deaf to interrupts, and so
# would be the processes that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
collect_ignore = ["door"]  # `make door` runs them, and takes minutes
# Files and folders that `make test` leaves to `make test-all`, besides all
# that needs the built site: kills and restarts, wrong answers, what many ranks
# train. They take three quarters of the time. Of pages, pyproject.toml has the
# list.
SLOW = [
    "tests/bio/answer_claims",
    "tests/bio/test_batches.py",
    "tests/bio/test_generation.py",
    "tests/bio/test_labels.py",
    "tests/bio/test_leakage.py",
    "tests/bio/test_censored_labels.py",
    "tests/bio/test_metrics.py",
    "tests/bio/test_pair_sharding.py",
    "tests/bio/test_protein_lm.py",
    "tests/bio/test_smiles.py",
    "tests/bio/test_splits.py",
    "tests/exam/test_trainers.py",
    "tests/examples",
    "tests/debugging/bugs",
    "tests/drills",
    "tests/labs/test_labs.py",
    "tests/drills/test_rehearsal.py",
    "tests/experiments/benchmarks",
    "tests/experiments/faults",
    "tests/experiments/demos/test_torch_compile.py",
    "tests/experiments/demos/test_nd_parallel_grad_sync.py",
    "tests/experiments/demos/test_moe_training.py",
    "tests/experiments/demos/test_torch_pipelines.py",
    "tests/experiments/demos/test_ddp_traffic.py",
    "tests/experiments/demos/test_loss_after_resume.py",
    "tests/experiments/demos/test_local_sgd.py",
    "tests/experiments/demos/test_fsdp2_traffic.py",
    "tests/experiments/demos/test_training_instability.py",
    "tests/experiments/slow_jobs",
    "tests/instruments/test_traffic.py",
    "tests/launch",
    "tests/parallel/test_sharding.py",
    "tests/planner/test_wire.py",
    "tests/rl",
    "tests/site/test_affected.py",
    "tests/site/test_charts.py",
    "tests/site/test_torch_claims.py",
    "tests/site/test_freshness.py",
    "tests/site/test_hooks.py",
    "tests/site/test_llms.py",
    "tests/site/test_broken_pages.py",
    "tests/site/test_notebooks.py",
    "tests/site/test_questions.py",
    "tests/test_first_run.py",
    "tests/test_interview.py",
    "tests/trainer/defects",
    "tests/trainer/test_corruption.py",
    "tests/trainer/test_elastic.py",
    "tests/trainer/test_launch.py",
    "tests/trainer/test_restart.py",
    "tests/trainer/test_resume.py",
    "tests/trainer/test_strategies.py",
    "tests/trainer/test_writers.py",
]
_SLOW_PATHS = {ROOT / one for one in SLOW}


# Names the tests that together run every line that a page shows, one in a line:
# `make test-all` asks coverage of them alone.
COVERING = ROOT / "tests/covering.txt"


@pytest.hookimpl(tryfirst=True)  # before those that are not asked for leave
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow, what covers, and what one worker is to run. Put what
    takes long first, so that no worker ends long after the others."""
    named = set(COVERING.read_text("utf-8").splitlines())
    sharing = [
        item
        for item in items
        if isinstance(item, pytest.Function) and _shares(item)
    ]
    # Where one of them covers all do, or the fixture would be made twice.
    modules = {item.module for item in sharing if item.nodeid in named}
    named |= {item.nodeid for item in sharing if item.module in modules}
    for item in items:
        if item.nodeid in named:
            item.add_marker(pytest.mark.covering)
        if "site" in getattr(item, "fixturenames", ()) or _slow(item.path):
            item.add_marker(pytest.mark.slow)
    for item in sharing:
        item.add_marker(pytest.mark.xdist_group(item.module.__name__))
    items.sort(key=_quick)


def _quick(item: pytest.Item) -> tuple[bool, bool, bool]:
    """The least of all: the first test of the built site, which builds it while
    the other workers do something else. Then slow pages and slow tests. A page
    is long, since one worker runs all of its blocks."""
    group = item.get_closest_marker("xdist_group")
    return (
        not group or group.args != ("site",),
        not item.get_closest_marker("slow"),
        item.path.suffix != ".md",
    )


def pytest_ignore_collect(
    collection_path: Path, config: pytest.Config
) -> bool | None:
    """Leave out slow files where no slow test is asked for: each worker would
    import them and what they need."""
    unasked = config.getoption("markexpr").startswith("not slow")
    return (unasked and _slow(collection_path)) or None


@functools.cache
def _slow(path: Path) -> bool:
    return not _SLOW_PATHS.isdisjoint((path, *path.parents))


def _shares(item: pytest.Function) -> bool:
    """Whether it needs a fixture that its module makes once: each worker with
    such a test would make it again."""
    if item.get_closest_marker("xdist_group"):
        return False
    fixtures = item._fixtureinfo.name2fixturedefs.values()
    return any(
        one.scope == "module" and one.baseid == item.parent.nodeid
        for *_, one in fixtures
    )


def daily(cases: Iterable[Any], *kept: Any) -> list[Any]:
    """A matrix, of which the `kept` cases run every day and all once a week."""
    cases = list(cases)
    assert set(kept) <= set(cases), f"{kept} are not all among {cases}"
    return [
        one
        if one in kept
        else pytest.param(
            *(one if isinstance(one, tuple) else (one,)),
            marks=pytest.mark.weekly,
        )
        for one in cases
    ]


def need(present: bool, what: str) -> None:
    """Skip without `what`; in CI, where it was installed, fail."""
    if present:
        return
    if os.environ.get("CI"):
        pytest.fail(f"{what} is missing, and CI installs it")
    pytest.skip(f"{what} is not installed")


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """What `npm ci` installed."""
    folder = ROOT / "node_modules"
    need((folder / "axe-core").is_dir(), "node_modules (`npm ci`)")
    return folder


@pytest.fixture(scope="session")
def warm() -> Iterator[Path]:
    """A folder whose `python`, `torchrun` and `lockstep` have torch loaded: the
    one that all workers share with `--warm`, or else this worker's own."""
    # Here, since `make door` has no lockstep to import.
    from lockstep.site.verify.warm import WARM, served

    if folder := os.environ.get(WARM):
        yield Path(folder)
        return
    with served(pythonpath=ROOT / "code") as found:
        yield found
