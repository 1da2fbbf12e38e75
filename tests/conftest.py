"""What tests need that may not be installed, and which of them are slow."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
collect_ignore = ["door"]  # `make door` runs them, and takes minutes
# Files and folders that `make test` leaves to `make test-all`: kills and
# restarts, every wrong answer, pages in a browser, and pages whose commands
# train for long. They take two thirds of the time.
SLOW = [
    "docs/biotech",
    "docs/concepts/numerics.md",
    "docs/performance/pathologies.md",
    "docs/practice/labs",
    "docs/practice/walkthrough.md",
    "docs/reliability/failures.md",
    "tests/bio/asked",
    "tests/exercises/bugs",
    "tests/exercises/drills",
    "tests/exercises/labs/test_labs.py",
    "tests/exercises/test_rehearsal.py",
    "tests/experiments/benchmarks/test_bench.py",
    "tests/experiments/chaos",
    "tests/experiments/faults",
    "tests/experiments/slow_jobs",
    "tests/launch",
    "tests/planner/test_wire.py",
    "tests/site/test_browser.py",
    "tests/site/test_budgets.py",
    "tests/site/test_estimation.py",
    "tests/site/test_mutations.py",
    "tests/site/test_practice.py",
    "tests/site/test_print.py",
    "tests/site/test_search.py",
    "tests/trainer/test_corruption.py",
    "tests/trainer/test_elastic.py",
    "tests/trainer/test_launch.py",
    "tests/trainer/test_restart.py",
    "tests/trainer/test_resume.py",
]


@pytest.hookimpl(tryfirst=True)  # before those that are not asked for leave
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow, and what one worker is to run."""
    slow = [ROOT / one for one in SLOW]
    for item in items:
        if any(item.path.is_relative_to(one) for one in slow):
            item.add_marker(pytest.mark.slow)
        if isinstance(item, pytest.Function) and _shares(item):
            item.add_marker(pytest.mark.xdist_group(item.module.__name__))


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
