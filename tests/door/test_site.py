"""`make serve`, `make site`, and what CI's jobs run, in a new clone."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import urlopen

import psutil
import pytest

from tests import documented_commands
from tests.door.newcomer import Newcomer

pytestmark = pytest.mark.xdist_group("site")

# What reaches a reader of what pip and npm say.
NOISE = re.compile(
    r"^(npm (warn|notice)|added \d+ packages|WARNING: |\[notice\]|Collecting "
    r"|Successfully installed|Traceback)",
    re.M,
)


class Served(NamedTuple):
    """`make serve`, and what it has said so far."""

    process: subprocess.Popen
    log: Path
    address: str
    folder: Path

    def said(self) -> str:
        return self.log.read_text("utf-8", errors="replace")

    def page(self, path: str) -> tuple[int, str]:
        """A page's status and text."""
        try:
            with urlopen(self.address + path, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()

    def until(self, holds: Callable[[], bool], seconds: float = 600) -> float:
        """Wait until something holds; how long that took."""
        start = time.monotonic()
        while time.monotonic() < start + seconds:
            assert self.process.poll() is None, self.said()
            try:
                if holds():
                    return time.monotonic() - start
            except (OSError, HTTPException):
                pass  # nobody listens yet
            time.sleep(0.1)
        raise AssertionError(f"not in {seconds} s:\n{self.said()}")

    def left(self) -> list[str]:
        """The processes that work in the clone."""
        found = []
        for process in psutil.process_iter():
            try:
                here = Path(process.cwd()).is_relative_to(self.folder)
                # One that is ending has no command line any more.
                if here and (words := process.cmdline()):
                    found.append(" ".join(words))
            except psutil.Error:
                continue  # it has just ended
        return found

    def remaining(self) -> list[str]:
        """Return what has not ended 10 seconds after make: Python's resource
        tracker ends only when it sees that its parent has."""
        start = time.monotonic()
        while (found := self.left()) and time.monotonic() < start + 10:
            time.sleep(0.1)
        return found


def serve(newcomer: Newcomer, folder: Path) -> Served:
    """Begin to serve, as the leader of a group of processes: what a terminal
    does, so that Ctrl-C reaches all of it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = folder.with_name(f"serve-{port}.log")
    process = subprocess.Popen(
        ["make", "serve", f"PORT={port}"],
        cwd=folder,
        env=newcomer.environ,
        stdin=subprocess.DEVNULL,
        stdout=log.open("w"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    return Served(process, log, f"http://127.0.0.1:{port}/", folder)


def end(served: Served) -> None:
    """Whatever a test left running."""
    if served.process.poll() is None:
        os.killpg(served.process.pid, signal.SIGKILL)
        served.process.wait()


@pytest.fixture(scope="module")
def served(newcomer: Newcomer, clone: Path) -> Iterator[Served]:
    """Served from the clone until a test ends it."""
    found = serve(newcomer, clone)
    yield found
    end(found)


def test_a_new_clone_serves_the_home_page(served: Served) -> None:
    seconds = served.until(lambda: served.page("")[0] == 200)
    print(f"clone to first page: {seconds:.0f} s")
    said = served.said()
    assert "\nInstalling what the site needs" in said
    installing = said.partition("mkdocs serve")[0]
    assert not NOISE.search(installing), installing


@pytest.mark.parametrize(
    ("path", "holds"),
    [
        ("", "<title>Lockstep</title>"),
        ("concepts/reference-trainer/", "def permute"),
        ("planner/", "Llama 3"),
        ("practice/labs/lab-01-collectives/", "Open in Colab"),
        ("labs/lab-01-collectives/", "FILES"),
        ("reference/api/cli/quiz/", "spaced repetition in the terminal"),
        ("llms.txt", "# Lockstep"),
    ],
)
def test_a_page_holds_what_it_should(
    served: Served, path: str, holds: str
) -> None:
    status, html = served.page(path)
    assert status == 200
    assert holds in re.sub(r"</?(span|code|a)\b[^>]*>", "", html)


def test_the_search_knows_the_pages(served: Served) -> None:
    status, text = served.page("search/search_index.json")
    assert status == 200
    found = {url for url, *_ in json.loads(text)["config"]["pages"]}
    assert {"handbook/", "concepts/memory/", "planner/"} < found
    assert len(found) > 90


def test_an_address_that_is_none_gets_the_page_that_says_so(
    served: Served,
) -> None:
    status, html = served.page("no/such/page/")
    assert status == 404
    assert "<h1>404 - Not found</h1>" in html


def test_an_edit_reaches_the_served_page(served: Served) -> None:
    page = served.folder / "docs" / "concepts" / "memory" / "index.md"
    word = "a-word-that-nobody-wrote"
    assert word not in served.page("concepts/memory/")[1]
    with page.open("a") as file:
        file.write(f"\n{word}\n")
    path = "concepts/memory/"
    seconds = served.until(lambda: word in served.page(path)[1], 120)
    print(f"edit to page: {seconds:.1f} s")
    assert served.page("")[0] == 200


def test_ctrl_c_ends_all_of_it(served: Served) -> None:
    assert served.left()
    os.killpg(served.process.pid, signal.SIGINT)
    served.process.wait(timeout=60)
    assert served.remaining() == []
    assert "Traceback" not in served.said()


def test_sigterm_ends_all_of_it(newcomer: Newcomer, clone: Path) -> None:
    """Sent to make alone, as a service manager does, and while it builds."""
    served = serve(newcomer, clone)
    try:
        served.until(lambda: "Building documentation" in served.said())
        assert "Installing" not in served.said(), "it was all there"
        served.process.terminate()
        served.process.wait(timeout=60)
        assert served.remaining() == []
    finally:
        end(served)


def runs(job: str) -> list[str]:
    """What a job of the workflow runs, in order."""
    return documented_commands.runs(
        documented_commands.workflow("ci.yml")["jobs"][job]
    )


def test_the_building_job_builds_the_site(
    newcomer: Newcomer, clone: Path
) -> None:
    newcomer.must("git stash --quiet", clone)  # the edited page
    address = "https://handbook.invalid/"
    for command in runs("build"):
        said = newcomer.must(command, clone, SITE_URL=address)
        assert not NOISE.search(said), said
    steps = documented_commands.workflow("ci.yml")["jobs"]["build"]["steps"]
    [upload] = [x for x in steps if "upload-pages" in x.get("uses", "")]
    site = clone / upload["with"]["path"]
    home = (site / "index.html").read_text("utf-8")
    [canonical] = re.findall(r"<link[^>]*canonical[^>]*>", home)
    assert f'href="{address}"' in canonical
    assert "livereload" not in home
    for name in "404.html", "sitemap.xml", "search/search_index.json":
        assert (site / name).stat().st_size > 1000


@pytest.mark.weekly  # it builds the site twice
def test_the_canary_builds_and_compares(
    newcomer: Newcomer, clone: Path
) -> None:
    """A difference is news; that there is nothing to compare is a fault."""
    for command in runs("zensical"):
        done = newcomer.run(command, clone)
        assert "Traceback" not in done.stdout, done.stdout
    written = len([*(clone / "docs").rglob("*.md")])  # hooks add to those
    for name in "mkdocs", "zensical":
        built = clone / ".cache" / f"{name}-site"
        found = len([*built.rglob("index.html")])
        assert found > 0.9 * written, done.stdout
