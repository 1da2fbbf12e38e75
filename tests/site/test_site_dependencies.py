"""What builds the site lies within the dependency group `site`.

`make serve` and the publishing job install no more than that group. An import
of anything else passes where everything is installed, and fails for them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.dependency_groups import hiding_all_but
from tests.makefile import rules

from .conftest import ROOT, Site, run


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """A folder in which Python finds nothing but the group and `lockstep`."""
    (tmp_path / "sitecustomize.py").write_text(hiding_all_but("site"))
    return tmp_path


def run_alone(root: Path, code: Path, *command: str) -> str:
    """Run a module among the group's packages alone; returns what it said."""
    where = {"PYTHONPATH": f"{root}{os.pathsep}{code}"}
    done = run(*command, cwd=root, **where)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


@pytest.mark.xdist_group("site")
def test_the_site_is_built_from_the_group_alone(site: Site) -> None:
    """All of its pages were built where Python finds nothing else."""
    root = site.folder.parent
    (root / "probe.py").write_text(
        "from importlib.util import find_spec\n"
        "for name in 'torch', 'tyro', 'numpy', 'mkdocs', 'lockstep':\n"
        "    print(name, find_spec(name) is not None)\n"
    )
    said = run_alone(root, root / "code", "probe")
    found = dict(line.split() for line in said.splitlines())
    hidden = {name for name, there in found.items() if there == "False"}
    assert hidden == {"torch", "tyro", "numpy"}
    assert {"handbook/", "planner/", "reference/api/cli/quiz/"} < {
        *site.pages()
    }


def test_what_make_runs_with_the_group_alone_imports_no_more(
    alone: Path,
) -> None:
    modules = {
        module
        for rule in rules().values()
        if "$(VENV)/.site" in rule.needs and "$(VENV)/.all" not in rule.needs
        for module in re.findall(r"python -m (lockstep[\w.]+)", rule.recipe)
    }
    assert {"lockstep.site.verify.links", "lockstep.site.pages.labs"} < modules
    imports = "\n".join(f"import {module}" for module in sorted(modules))
    (alone / "probe.py").write_text(imports)
    run_alone(alone, ROOT / "code", "probe")
