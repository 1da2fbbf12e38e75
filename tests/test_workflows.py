"""What CI's jobs may do: pinned actions, no write token near foreign code."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.documented_commands import runs, workflow

GITHUB = ROOT / ".github"
WORKFLOWS = sorted(path.name for path in GITHUB.glob("workflows/*.yml"))
NAMED = {
    f"{file}-{name}": job
    for file in WORKFLOWS
    for name, job in workflow(file)["jobs"].items()
}
JOBS = [pytest.param(job, id=name) for name, job in NAMED.items()]
# Programs that run what a registry sent, or what this repository holds. Python
# by itself does not, with neither a folder nor an environment to import from.
FOREIGN = re.compile(
    r"\b(make|node|np[mx]|pip|pytest|python3?(?! -I -c)|uvx?)\b|\.venv|\./"
)


def writes(job: dict[str, Any]) -> set[str]:
    """The permissions with which a job can change something."""
    allowed = job.get("permissions", {})
    return {name for name, what in allowed.items() if what == "write"}


def used(job: dict[str, Any]) -> list[str]:
    """The actions that a job uses, without their versions."""
    return [x["uses"].partition("@")[0] for x in job["steps"] if "uses" in x]


@pytest.mark.parametrize("path", sorted(GITHUB.rglob("*.yml")), ids=str)
def test_every_action_is_pinned_by_its_commit(path: Path) -> None:
    """A tag can be moved, a commit cannot; the comment says which version."""
    for line in re.findall(
        r"^[ -]*uses: *(.+)$", path.read_text("utf-8"), re.M
    ):
        pinned = r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+"
        assert line.startswith("./") or re.fullmatch(pinned, line), line


def test_one_action_has_one_version() -> None:
    found: dict[str, set[str]] = {}
    for path in GITHUB.rglob("*.yml"):
        for name, version in re.findall(
            r"uses: *([\w-]+/[\w-]+)@(.+)", path.read_text("utf-8")
        ):
            found.setdefault(name, set()).add(version)
    assert {name: v for name, v in found.items() if len(v) > 1} == {}


@pytest.mark.parametrize("file", WORKFLOWS)
def test_a_workflow_may_only_read_unless_a_job_says_otherwise(
    file: str,
) -> None:
    assert workflow(file)["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("job", JOBS)
def test_a_checkout_keeps_no_credentials(job: dict[str, Any]) -> None:
    for step in job["steps"]:
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("job", JOBS)
def test_a_job_that_may_write_runs_no_foreign_code(job: dict[str, Any]) -> None:
    if writes(job):
        assert {*used(job)} <= {"actions/checkout", "actions/deploy-pages"}
        for command in runs(job):
            assert not FOREIGN.search(command), command
    else:
        assert "TOKEN" not in yaml.safe_dump(job).upper()


def test_two_jobs_may_write_and_no_more_than_they_need() -> None:
    allowed = {name: writes(job) for name, job in NAMED.items() if writes(job)}
    assert allowed == {
        "ci.yml-publish": {"pages", "id-token"},
        "weekly.yml-propose": {"contents", "pull-requests"},
    }


def test_the_site_is_built_apart_from_where_it_is_published() -> None:
    """The job whose token publishes runs one action and nothing else."""
    jobs = workflow("ci.yml")["jobs"]
    assert used(jobs["publish"]) == ["actions/deploy-pages"]
    assert runs(jobs["publish"]) == []
    assert jobs["publish"]["needs"] == "build"
    assert "actions/upload-pages-artifact" in used(jobs["build"])


def test_what_the_newest_packages_touch_is_no_cache_of_other_jobs() -> None:
    peers = workflow("weekly.yml")["jobs"]["peers"]
    assert "cache" not in yaml.safe_dump(peers)


# What stands for `gh`: artifacts are folders, and a change is a line in a log.
GH = """\
#!/bin/bash
case "$1 $2" in
    "run download")
        mkdir -p "$(dirname "$7")" && cp -r "$ARTIFACTS/$5" "$7" 2> /dev/null ;;
    "pr create") echo "$@" >> "$ARTIFACTS/log" ;;
esac
"""


@pytest.fixture
def proposed(tmp_path: Path) -> Callable[..., dict[str, list[str]]]:
    """What the job `propose` proposes, given the files of artifacts."""
    [command] = runs(workflow("weekly.yml")["jobs"]["propose"])
    home = "code/lockstep/experiments/peers"
    there, artifacts = tmp_path / "there", tmp_path / "artifacts"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gh").write_text(GH)
    (tmp_path / "bin" / "gh").chmod(0o755)
    artifacts.mkdir()
    environ = os.environ | {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "ARTIFACTS": str(artifacts),
        "GITHUB_RUN_ID": "7",
        "RUNNER_TEMP": str(tmp_path),
        "GIT_CONFIG_GLOBAL": str(tmp_path / "gitconfig"),
    }

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(there), *arguments]
        said = subprocess.run(
            command, env=environ, check=True, capture_output=True, text=True
        )
        return said.stdout

    def propose(**files: dict[str, Any]) -> dict[str, list[str]]:
        for peer in "accelerate", "ray":
            folder = there / home / peer
            folder.mkdir(parents=True)
            for name in "adapter.py", "mended.json", "result.json":
                (folder / name).write_text("{}")
        git("init", "--quiet", "--initial-branch=main")
        git("config", "user.name", "Somebody")
        git("config", "user.email", "somebody@example.invalid")
        git("add", ".")
        git("commit", "--quiet", "--message", "The records")
        git("clone", "--quiet", "--bare", ".", str(tmp_path / "origin"))
        git("remote", "add", "origin", str(tmp_path / "origin"))
        for peer, contents in files.items():
            folder = artifacts / f"exam-{peer}"
            folder.mkdir()
            for name, content in contents.items():
                path = folder / name
                if isinstance(content, Path):
                    path.symlink_to(content)
                else:
                    path.write_text(content)
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", command],
            cwd=there,
            env=environ,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        branches = git("ls-remote", "--heads", "origin").split()[1::2]
        found = {}
        for branch in branches:
            name = branch.removeprefix("refs/heads/")
            if name != "main":
                git("fetch", "--quiet", "origin", name)
                diff = git("diff", "--name-only", "main", "FETCH_HEAD")
                found[name] = diff.split()
        log = artifacts / "log"
        many = log.read_text().count("pr create") if log.exists() else 0
        assert many == len(found)
        return found

    return propose


SAID = "- Kill: passed, now failed."
RECORD = json.dumps({"versions": {"ray": "9"}, "ranks 2": {"questions": []}})


def test_the_records_of_each_peer_are_proposed_apart(
    proposed: Callable,
) -> None:
    """Each peer that answers otherwise gets a branch with its records alone."""
    found = proposed(
        accelerate={"changed.md": SAID, "result.json": RECORD},
        ray={
            "changed.md": SAID,
            "result.json": RECORD,
            "mended.json": RECORD,
            "adapter.py": "print('foreign')",
        },
    )
    home = "code/lockstep/experiments/peers"
    assert sorted(found.values()) == [
        [f"{home}/accelerate/result.json"],
        [f"{home}/ray/mended.json", f"{home}/ray/result.json"],
    ]
    assert all(re.fullmatch(r"exam-\w+-\d{4}-\d\d-\d\d", x) for x in found)


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"result.json": RECORD},
        {"changed.md": SAID, "result.json": "not JSON"},
        {"changed.md": SAID, "result.json": "[]"},
        {"changed.md": SAID, "result.json": RECORD + " " * 1_000_000},
        {"changed.md": SAID, "result.json": ROOT / "package.json"},
        {"changed.md": "x" * 70_000, "result.json": RECORD},
    ],
    ids=["none", "same", "text", "list", "large", "link", "long"],
)
def test_what_is_no_record_is_not_proposed(
    proposed: Callable, files: dict[str, Any]
) -> None:
    """Only a small JSON object of the peer itself leaves the job."""
    assert proposed(ray=files) == {}
