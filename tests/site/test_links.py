"""Every external link is known, and `make links` tells which are dead."""

from __future__ import annotations

import datetime
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from lockstep.site.verify import links
from lockstep.site.verify.links import addresses, collect, known, linked, main

from .conftest import ROOT, Project


def test_every_external_link_is_known_and_named_by_a_text() -> None:
    named = set().union(*linked(ROOT).values())
    kept = set(known(ROOT))
    hint = "`python -m lockstep.site.verify.links --collect` mends it"
    assert named - kept == set(), f"not in {links.KNOWN}: {hint}"
    assert kept - named == set(), f"only in {links.KNOWN}: {hint}"


def test_a_date_is_a_day_that_has_been() -> None:
    days = [day for day in known(ROOT).values() if day is not None]
    assert all(type(day) is datetime.date for day in days)
    assert all(day <= datetime.date.today() for day in days)


def test_addresses_are_those_of_the_text() -> None:
    text = """
See [one](https://a.org/x_(y)), <https://b.org/#c>, https://c.org/d. Not
`https://code.org` and not (https://d.org/e), but what is in it.
```bash
curl https://fence.org
```
[two]: https://e.org/f
"""
    assert addresses(text) == {
        "https://a.org/x_(y)",
        "https://b.org/#c",
        "https://c.org/d",
        "https://d.org/e",
        "https://e.org/f",
    }


class Server(BaseHTTPRequestHandler):
    """Answers as its path says, and counts the questions."""

    asked: ClassVar[Counter[str]] = Counter()

    def do_HEAD(self) -> None:
        Server.asked[self.path] += 1
        status = {"/gone": 404, "/no-head": 405, "/refuses": 403}
        if self.path == "/busy" and Server.asked[self.path] == 1:
            self.send_response(503)
        elif self.path == "/no-head" and self.command == "GET":
            self.send_response(200)
        else:
            self.send_response(status.get(self.path, 200))
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def checked(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A site whose links `main` checks."""
    project.write(str(links.KNOWN), "{}\n")
    monkeypatch.chdir(project.root)
    monkeypatch.setattr("sys.argv", ["links"])
    return project


def test_the_dead_are_named_and_the_others_get_a_date(
    checked: Project, server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = ("ok", "gone", "no-head", "busy", "refuses")
    checked.page(*(f"[{path}]({server}/{path})" for path in paths))
    assert main() == 1
    *said, total = sorted(capsys.readouterr().out.splitlines(), reverse=True)
    assert said == [
        f"unclear: {server}/refuses (403) in docs/index.md",
        f"dead: {server}/gone (404) in docs/index.md",
    ]
    assert total == "5 links, 1 dead"
    today = datetime.date.today()
    good = {"ok", "no-head", "busy"}
    assert known(checked.root) == {
        f"{server}/{path}": today if path in good else None for path in paths
    }


def test_a_link_keeps_its_date_until_no_text_has_it(
    checked: Project,
) -> None:
    day = datetime.date(2026, 1, 2)
    old = {"https://a.org": day, "https://b.org": day}
    links.write(checked.root, old)
    checked.page("https://b.org https://c.org")
    assert collect(checked.root) == {
        "https://b.org": day,
        "https://c.org": None,
    }


def test_without_a_network_nothing_is_changed(
    checked: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    checked.page("http://nobody.invalid/")
    assert main() == 2
    assert "is there a network?" in capsys.readouterr().out
    assert known(checked.root) == {}
