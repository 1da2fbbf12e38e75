"""Recorded outputs are written by the commands that stand above them."""

from __future__ import annotations

import pytest

from lockstep.site.pages.blocks import pages
from lockstep.site.verify.execute import BlockFailed
from lockstep.site.verify.record import main, record

from .conftest import Project, fence, include

EXPECTED = "<!--pytest-codeblocks:expected-output-->"
OUT = "docs/recorded/out.txt"


def page(project: Project, command: str, *above: str) -> None:
    output = fence("text", include(OUT))
    project.page(*above, fence("sh", command), EXPECTED, output)


def test_output_is_recorded(project: Project) -> None:
    page(project, "cat step", fence("sh", "echo step 40 > step"))
    assert record(pages(project.root)) == [project.root / OUT]
    assert (project.root / OUT).read_text() == "step 40\n"


def test_no_output_is_recorded_too(project: Project) -> None:
    page(project, "true")
    assert record(pages(project.root)) == [project.root / OUT]
    assert (project.root / OUT).read_text() == ""


def test_output_that_means_the_same_is_left(project: Project) -> None:
    project.write(OUT, "took 9 s\n")
    page(project, "echo took 1.5 s")
    assert record(pages(project.root)) == []
    assert (project.root / OUT).read_text() == "took 9 s\n"


def test_output_that_has_changed_is_replaced(project: Project) -> None:
    project.write(OUT, "step 4 took 9 s\n")
    page(project, "echo step 5 took 1.5 s")
    assert record(pages(project.root)) == [project.root / OUT]
    assert (project.root / OUT).read_text() == "step 5 took 1.5 s\n"


def test_nothing_is_recorded_of_a_command_that_failed(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page(project, "echo 1; false")
    with pytest.raises(BlockFailed):
        record(pages(project.root))
    assert not (project.root / OUT).exists()
    monkeypatch.chdir(project.root)
    assert main([]) == 1
    assert main(["docs/index.md"]) == 1
    said = capsys.readouterr().err
    assert said.count("docs/index.md:2: exit code 1") == 2
