"""The site, built once, and a copy of the repository to break."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockstep.site.pages import Block, blocks

ROOT = Path(__file__).parents[2]
SPECIMEN = Path(__file__).parent / "specimen"
SETTINGS = """\
site_name: Small
theme:
  name: material
  font: false
markdown_extensions:
  - pymdownx.snippets:
      base_path: [!relative $config_dir]
      check_paths: true
      dedent_subsections: true
"""
LEFT_OUT = shutil.ignore_patterns(
    ".*", "node_modules", "site-packages", "__pycache__", "*.egg-info", "runs"
)


def need(present: bool, what: str) -> None:
    """Skip without `what`; in CI, where it was installed, fail."""
    if present:
        return
    if os.environ.get("CI"):
        pytest.fail(f"{what} is missing, and CI installs it")
    pytest.skip(f"{what} is not installed")


def run(
    *command: str, cwd: Path, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run a Python module on the package below `cwd`, not the installed one."""
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(cwd / "code")} | environ,
        capture_output=True,
        text=True,
        timeout=100,
    )


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """What `npm ci` installed."""
    folder = ROOT / "node_modules"
    need((folder / "axe-core").is_dir(), "node_modules (`npm ci`)")
    return folder


class Project:
    """A small site to write pages and sources into."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("mkdocs.yml", SETTINGS)
        self.write("docs/index.md", "# Home\n")

    def write(self, path: str, text: str) -> Path:
        """Write a file below the project's root."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def page(self, *parts: str) -> list[Block]:
        """Write the page and return its blocks."""
        return blocks(self.write("docs/index.md", "\n".join(parts) + "\n"))


def fence(language: str, *lines: str) -> str:
    """Fence some lines as a block of a page."""
    return "\n".join(["", f"```{language}", *lines, "```", ""])


def include(target: str) -> str:
    """Write the line that includes a file or a section."""
    return f'--8<-- "{target}"'


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A site with an empty page."""
    return Project(tmp_path.resolve())


def copy_repository(root: Path, page: str) -> None:
    """Copy what the site is made of, with one page more in its navigation."""
    for folder in ("code", "docs"):
        shutil.copytree(ROOT / folder, root / folder, ignore=LEFT_OUT)
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert settings.count("\nnav:\n") == 1
    settings = settings.replace("\nnav:\n", f"\nnav:\n  - {page}\n")
    (root / "mkdocs.yml").write_text(settings, encoding="utf-8")
    (root / "labs").mkdir()
    (root / "node_modules").symlink_to(ROOT / "node_modules")


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """A copy of the repository with the specimen in it."""
    root = tmp_path / "repository"
    copy_repository(root, "specimen.md")
    (root / "pytest.ini").write_text("[pytest]\n")
    for name, place in (
        ("page.md.in", "docs/specimen.md"),
        ("module.py", "code/lockstep/specimen.py"),
        ("printed.txt", "docs/recorded/specimen.txt"),
        ("commands.txt", "docs/recorded/specimen-commands.txt"),
    ):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SPECIMEN / name, root / place)
    yield root
    shutil.rmtree(root)
