"""What protects the set-up: one home for each fact, and a clean clone."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import COVERING, ROOT, SLOW
from tests.dependency_groups import EXTRAS, GROUPS, PROJECT, brought
from tests.makefile import make, rules

DECLARED = {
    name or "base": [x for x in needed if not x.startswith("lockstep-handbook")]
    for name, needed in (EXTRAS | GROUPS).items()
}
LOCKED = {
    line.partition("==")[0]: line.partition("==")[2].split()
    for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
}
PINS = {name: version for name, (version, *_) in LOCKED.items()}
# Where packages come from is the business of the machine that installs them.
HOST = re.compile(r"https?://|file://|\bindex-url\b|\bregistry\.", re.I)


def test_code_is_no_package() -> None:
    """With one, `import code` finds it, and pdb and pytest break."""
    assert not (ROOT / "code" / "__init__.py").exists()


@pytest.mark.parametrize("group", DECLARED)
def test_every_declared_package_is_pinned_within_its_bounds(
    group: str,
) -> None:
    pins = {canonicalize_name(name): pin for name, pin in PINS.items()}
    for text in DECLARED[group]:
        needed = Requirement(text)
        pin = pins.get(canonicalize_name(needed.name))
        assert pin, f"{needed.name} is not in constraints.txt"
        assert pin in needed.specifier, f"{needed} leaves out {pin}"


def imports(folder: Path) -> set[str]:
    """The top-level modules that the Python files of a folder import."""
    found: set[str] = set()
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found.update(name.name for name in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(node.module or "")
    return {name.partition(".")[0] for name in found}


def test_every_imported_package_is_declared() -> None:
    """What comes only because another package needs it may go with it."""
    declared = {
        canonicalize_name(Requirement(text).name)
        for group in DECLARED.values()
        for text in group
    }
    imported = imports(ROOT / "code") | imports(ROOT / "tests")
    homes = packages_distributions()
    missing = {
        module: homes[module]
        for module in imported - sys.stdlib_module_names - {"lockstep"}
        if module in homes
        and not declared & {canonicalize_name(d) for d in homes[module]}
    }
    assert not missing


def test_pins_hold_on_any_machine() -> None:
    """No local build such as `+cpu`, no address, no folder of ours."""
    assert PINS["torch"] == "2.13.0"
    for name, pin in PINS.items():
        assert re.fullmatch(r"[\w.-]+", name), name
        assert re.fullmatch(r"\d+(\.\w+)*", pin), f"{name}=={pin}"


def test_a_pin_lists_the_digests_of_its_files() -> None:
    """So an index that is added can send no other file under the name."""
    for name, (_, *digests) in LOCKED.items():
        assert digests, name
        assert digests == sorted({*digests}), name
        for digest in digests:
            assert re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", digest), name


def test_what_is_pinned_is_installed_by_its_digest() -> None:
    """All that `make install` takes from an index. Of another torch than the
    pinned one there is no list, and pip cannot check a part."""
    planned = make("--dry-run", "--always-make", "install", "VENV=.cache/none")
    steps = re.split(r"[;&\n]", planned.stdout.replace("\\\n", " "))
    installs = [step for step in steps if "pip install" in step]
    assert len(installs) == 6
    for step in installs:
        assert "--require-hashes" in step or "--no-deps --editable" in step
    other = make(
        "--dry-run", "--always-make", "install", "TORCH=torch", "VENV=.cache/x"
    ).stdout
    assert other.count("--require-hashes") == 1, "pip's own"
    assert "s/ --hash.*//" in other


def test_the_site_needs_no_torch() -> None:
    installed = brought("site")
    assert "mkdocs" in installed
    assert not installed & {"torch", "numpy", "scikit-learn"}


def test_serve_installs_the_site_alone() -> None:
    """Its rule installs the group and the package without dependencies."""
    planned = make("--dry-run", "--always-make", "serve", "VENV=.cache/none")
    steps = re.split(r"[;&\n]", planned.stdout.replace("\\\n", " "))
    installs = [step for step in steps if "pip install" in step]
    assert any("--group site" in step for step in installs)
    assert any("--no-deps --editable ." in step for step in installs)
    for step in installs:
        assert "torch" not in step
        assert "--group test" not in step
        assert "--editable" not in step or "--no-deps" in step
    [npm] = [step for step in steps if "npm ci" in step]
    assert "--omit=dev" in npm


def test_make_alone_names_what_there_is() -> None:
    shown = make().stdout
    named = set(re.findall(r"^  make ([\w-]+) +\S", shown, re.M))
    assert {"serve", "test", "install", "site", "lint", "notebooks"} <= named
    assert {"record", "clean"} <= named
    assert named == rules().keys() - {"always", "help", "port"}


def test_another_torch_takes_the_place_of_the_pinned_one() -> None:
    """`make test TORCH=torch==2.11.0` is how CI tests it."""
    planned = make("--dry-run", "--always-make", "install", "TORCH=torch==9")
    assert "torch==9" in planned.stdout
    assert "torch==2.13.0" not in planned.stdout


def test_the_torch_of_colab_is_dated() -> None:
    colab = tomllib.loads((ROOT / "tests/data/colab.toml").read_text("utf-8"))
    assert colab["revised"] <= colab["checked"]
    floor = Requirement(EXTRAS["train"][0])
    assert floor.name == "torch"
    assert colab["torch"] in floor.specifier


def test_ci_tests_from_the_lowest_torch_to_the_newest() -> None:
    """The CI matrix has the lowest torch that the pins allow, the pinned one
    and the newest, and the oldest and the newest Python."""
    done = subprocess.run(
        [sys.executable, ".github/workflows/versions.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    rows = json.loads(done.stdout.removeprefix("include="))
    assert [row["torch"] for row in rows] == [
        "torch==2.10",
        "torch==2.13.0",
        "torch",
        "torch==2.13.0",
        "torch==2.11.0",
    ]
    assert [row["python"] for row in rows] == ["3.11"] * 3 + ["3.14", "3.13"]


def test_the_canary_stops_nobody() -> None:
    text = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    assert jobs["zensical"]["continue-on-error"] is True
    assert jobs["build"]["needs"] == "test"
    assert "refs/heads/main" in jobs["build"]["if"]
    for name, job in jobs.items():
        assert job["timeout-minutes"] <= 60, name


@pytest.mark.parametrize(
    "file",
    [
        *("pyproject.toml", "constraints.txt", "Makefile", ".npmrc"),
        *(".ci/lock", ".ci/needs", "code/launch/Containerfile"),
        *(".ci/run", ".github/workflows/ci.yml"),
    ],
)
def test_no_file_says_where_packages_come_from(file: str) -> None:
    text = (ROOT / file).read_text("utf-8")
    for ours in PROJECT["project"]["urls"].values():  # where its code is read
        text = text.replace(f'"{ours}"', "")
    assert not HOST.findall(text)


def test_the_package_lock_names_versions_and_digests_and_no_host() -> None:
    lock = json.loads((ROOT / "package-lock.json").read_text("utf-8"))
    packages = {k: v for k, v in lock["packages"].items() if k}
    assert packages
    for name, package in packages.items():
        assert "resolved" not in package, name
        assert package["integrity"].startswith("sha512-"), name


def test_licenses_are_whole() -> None:
    code = (ROOT / "LICENSE").read_text("utf-8")
    text = (ROOT / "LICENSE-docs").read_text("utf-8")
    assert "Apache License" in code
    assert "END OF TERMS AND CONDITIONS" in code
    assert "Attribution 4.0 International" in text
    assert "Section 8 -- Interpretation." in text


def test_the_licenses_and_the_version_are_cited() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert cited["version"] == PROJECT["project"]["version"]
    assert cited["license"] == ["Apache-2.0", "CC-BY-4.0"]


def test_what_is_made_is_ignored_and_what_is_written_is_not() -> None:
    def ignored(path: str) -> bool:
        asked = ["git", "check-ignore", "--quiet", "--no-index", path]
        return subprocess.run(asked, cwd=ROOT).returncode == 0

    made = [".venv/x", "site/x", "node_modules/x", ".cache/x", "runs/demo/x"]
    assert [path for path in made if not ignored(path)] == []
    written = [
        "code/lockstep/site/verify/notebooks.py",
        "tests/site/test_notebooks.py",
        "docs/recorded/x.txt",
        "package-lock.json",
    ]
    assert [path for path in written if ignored(path)] == []


def test_what_is_slow_is_there(pytestconfig: pytest.Config) -> None:
    named = [*SLOW, *pytestconfig.getini("slow_pages")]
    assert [one for one in named if not (ROOT / one).exists()] == []


def test_what_covers_is_there() -> None:
    """Each line names a file and a function in it, and none comes twice."""
    named = COVERING.read_text("utf-8").splitlines()
    assert named == sorted({*named})
    for one in named:
        file, _, test = one.partition("::")
        function = test.partition("[")[0]
        assert f"def {function}(" in (ROOT / file).read_text("utf-8"), one


def test_a_slow_pages_blocks_are_left_out() -> None:
    pages = "docs/practice/walkthrough.md", "docs/planner/index.md"
    shown = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "--codeblocks", "-q"),
            *("--collect-only", "-m", "not slow", *pages),
        ],
        cwd=ROOT,
        text=True,
        capture_output=True,
    ).stdout
    assert pages[0] not in shown
    assert pages[1] in shown


@pytest.fixture(scope="module")
def made_once() -> None:
    """What takes long in other modules."""


def test_what_shares_a_fixture_shares_a_worker(
    made_once: None, request: pytest.FixtureRequest
) -> None:
    marker = request.node.get_closest_marker("xdist_group")
    assert marker.args == (__name__,)


def test_what_shares_none_goes_to_any_worker(
    request: pytest.FixtureRequest,
) -> None:
    assert request.node.get_closest_marker("xdist_group") is None
