"""What tests need that may not be installed."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


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
