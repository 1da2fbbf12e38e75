"""The site, built once and served, and a copy of the repository to break."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
from filelock import FileLock

from lockstep.site.pages.blocks import Block, blocks
from lockstep.site.verify.execute import untested
from lockstep.site.verify.warm import WARM
from tests.conftest import ROOT
from tests.dependency_groups import hiding_all_but

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
Attributes = list[tuple[str, str | None]]  # of an HTML element
LEFT_OUT = shutil.ignore_patterns(
    ".*", "node_modules", "site-packages", "__pycache__", "*.egg-info", "runs"
)


def run(
    *command: str, cwd: Path, timeout: float = 100, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run a Python module on the package below `cwd`, not the installed one.

    Without coverage: no page shows a line of `lockstep.site`, and a build
    takes twice as long under it."""
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=cwd,
        env=untested() | {"PYTHONPATH": str(cwd / "code")} | environ,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


@pytest.fixture(autouse=True)
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of these tests start as a reader's do, even with `--warm`."""
    monkeypatch.delenv(WARM, raising=False)


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


def copy_repository(root: Path, nav: str) -> None:
    """Copy what every site is made of; `nav` names its own pages. Proof marks
    name tests, and numbers of some questions come from them."""
    for folder in (".github", "code", "docs/assets", "tests"):
        shutil.copytree(ROOT / folder, root / folder, ignore=LEFT_OUT)
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    settings, found = re.subn(r"(?ms)^nav:\n.*", nav, settings)
    assert found == 1
    (root / "mkdocs.yml").write_text(settings, encoding="utf-8")
    (root / "labs").mkdir()
    (root / "node_modules").symlink_to(ROOT / "node_modules")


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """A copy of the repository with the specimen as its only page."""
    root = tmp_path / "repository"
    copy_repository(root, "nav:\n  - specimen.md\n")
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


def searched(folder: Path) -> dict[str, list[list[str]]]:
    """Return what the search of a built site knows: by the page's address, the
    anchor, title and text of its sections."""
    search = folder / "search"
    config = json.loads((search / "search_index.json").read_text())["config"]
    texts = search / config["folder"]
    return {
        url: json.loads((texts / f"text-{number}.json").read_text("utf-8"))
        for number, (url, *_) in enumerate(config["pages"])
    }


class Site(NamedTuple):
    """The whole site, built strictly."""

    folder: Path
    address: str  # ends in a slash

    def pages(self) -> dict[str, str]:
        """Every page's address below the site's, and its HTML."""
        return _pages(self.folder)


@functools.cache
def _pages(folder: Path) -> dict[str, str]:
    found = {}
    for path in sorted(folder.rglob("index.html")):
        name, html = path.parent.relative_to(folder), path.read_text("utf-8")
        if 'http-equiv="refresh"' not in html:  # a former address
            found["" if name == Path() else f"{name.as_posix()}/"] = html
    return found


class Reader(HTMLParser):
    """Reads the article of a page, where BeautifulSoup would build a tree."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.feed(re.split(r"<article\b[^>]*>|</article>", html)[1])
        self.close()


class Quiet(SimpleHTTPRequestHandler):
    """Serves and says nothing: the page's own failures are what counts."""

    def log_message(self, *_: Any) -> None: ...


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whichever test asks for the site first builds it in its own time."""
    for item in items:
        asks = "site" in getattr(item, "fixturenames", ())
        if asks and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, node_modules: Path) -> Site:
    """The site with one page more, built where Python finds nothing that the
    dependency group `site` does not bring. The first worker that needs it
    builds and serves it for all."""
    folder, session = tmp_path_factory.getbasetemp(), os.getpid()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder, session = folder.parent, os.getppid()
    root, address = folder / "site", folder / "site-address"
    with FileLock(folder / "site-lock"):
        if not address.exists():
            assert not root.exists(), "another worker could not build it"
            where = served(root / "site", session)
            built(root, where)
            address.write_text(where, "utf-8")
    return Site(root / "site", address.read_text("utf-8"))


def built(root: Path, address: str) -> None:
    """Build it in `root`, for this address."""
    root.mkdir()
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    copy_repository(root, f"nav:\n{nav}  - Plain: plain.md\n")
    shutil.copytree(ROOT / "docs", root / "docs", dirs_exist_ok=True)
    shutil.copytree(ROOT / "labs", root / "labs", dirs_exist_ok=True)
    shutil.copy(SPECIMEN / "plain.md.in", root / "docs" / "plain.md")
    shutil.copy(SPECIMEN / "module.py", root / "code/lockstep/specimen.py")
    (root / "sitecustomize.py").write_text(hiding_all_but("site"))
    (ROOT / ".cache").mkdir(exist_ok=True)
    (root / ".cache").symlink_to(ROOT / ".cache")  # drawings, once made
    path = f"{root}{os.pathsep}{root / 'code'}"
    where = {"SITE_URL": address, "PYTHONPATH": path}
    result = run("mkdocs", "build", "--strict", cwd=root, timeout=200, **where)
    assert result.returncode == 0, result.stdout + result.stderr


def served(folder: Path, session: int) -> str:
    """The address of a server of `folder`, which ends when the test session, a
    process, has ended."""
    server = subprocess.Popen(
        [sys.executable, "-m", __name__, str(folder), str(session)],
        cwd=ROOT,
        env=untested(),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert server.stdout
    return server.stdout.readline().strip()


def serve(folder: str, session: str) -> None:
    """Serve the folder until the process `session` is no more."""
    handler = functools.partial(Quiet, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        print(f"http://127.0.0.1:{server.server_port}/", flush=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        psutil.wait_procs([psutil.Process(int(session))])


if __name__ == "__main__":
    serve(*sys.argv[1:])
