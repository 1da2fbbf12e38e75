"""Lighthouse on a page of each template, for what does not depend on the speed
of a machine. `make budgets` measures performance too."""

from __future__ import annotations

import os
import shutil
import urllib.request
from pathlib import Path

import pytest

from lockstep.site.verify.budgets import (
    EXACT,
    PAGES,
    compressed,
    failures,
    lighthouse,
    scores,
    served,
)
from tests.conftest import daily, need

from .conftest import ROOT, Site

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("site-practice"),
]


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    found = os.environ.get("CHROMIUM") or shutil.which("chromium")
    need(bool(found), "Chromium (`apt-get install chromium`)")
    monkeypatch.chdir(ROOT)


# The longest page alone takes a minute: a page of practice stands for all.
@pytest.mark.parametrize("page", daily(PAGES, "practice/interview-map/"))
def test_lighthouse_finds_nothing_to_mend(site: Site, page: str) -> None:
    report = lighthouse(site.address + page, "mobile", EXACT)
    assert scores(report) == dict.fromkeys(EXACT, 1.0), failures(report)


@pytest.mark.weekly
def test_lighthouse_finds_what_is_wrong(tmp_path: Path) -> None:
    text = "<html><body><img src='x.png'>One two three.</body></html>"
    (tmp_path / "index.html").write_text(text)
    with served(tmp_path) as address:
        report = lighthouse(address, "mobile", EXACT)
    assert max(scores(report).values()) < 1
    named = "\n".join(failures(report))
    assert "image-alt" in named
    assert "document-title" in named
    assert "errors-in-console" in named  # no x.png, which nothing may hide


def test_the_measured_site_travels_compressed(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("again " * 1000)
    with served(tmp_path) as address:
        with urllib.request.urlopen(address) as answer:
            data = answer.read()
        assert answer.headers["Content-Encoding"] == "gzip"
        assert data == compressed(b"again " * 1000)
        assert len(data) < 100
