"""What the page says of other trainers is what the exam recorded of them."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

import lockstep.experiments.peers
from lockstep.exam.adapter import Launch, load
from lockstep.exam.questions import BY_ID
from lockstep.experiments.peers import tables
from lockstep.experiments.peers.__main__ import changed, without_paths

HOME = Path(lockstep.experiments.peers.__path__[0])
PEERS = tables.read(HOME)
EXAMINED = [one for one in PEERS if one.result]
ADAPTERS = sorted(HOME.glob("*/adapter.py")) + sorted(HOME.glob("*/mended.py"))


def name(value: Any) -> str | None:
    """Of a peer, or of a file's folder."""
    if isinstance(value, tables.Peer):
        return value.folder
    return f"{value.parent.name}-{value.stem}" if value else None


def test_the_tables_are_those_of_the_results() -> None:
    """The sections that the page includes are rendered from the records."""
    assert (HOME / "result.md").read_text() == tables.tables(HOME)


@pytest.mark.parametrize("one", EXAMINED, ids=name)
def test_every_recorded_failure_is_explained(one: tables.Peer) -> None:
    """Each failure that no other explains has a paragraph, and no paragraph is
    about what passed."""
    answers = one.answers()
    failed = {
        q
        for q, a in answers.items()
        if a["answer"] == "failed" and not a["same_as"]
    }
    told = {failure.question for failure in one.notes.failures}
    assert failed <= told
    assert all(answers[q]["answer"] != "passed" for q in told)


@pytest.mark.parametrize("path", ADAPTERS, ids=name)
def test_an_adapter_is_short_and_says_whom_it_launches(path: Path) -> None:
    """At most sixty lines, and what it lacks is a question or a feature."""
    assert len(path.read_text().splitlines()) <= 60
    adapter = load(path)
    command = adapter.command(Launch(Path("run"), python="theirs"))
    assert "theirs" in command
    features = {"stop", "workers", "fp16", "ema", "sigterm", "resize"}
    assert {*adapter.lacks} <= {*BY_ID} | features


def test_a_changed_answer_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The weekly job compares answers and versions, and says nothing where
    only times differ."""
    was = json.loads((HOME / "cut/result.json").read_text())
    now = copy.deepcopy(was)
    now["ranks 2"]["seconds"] += 7
    now["versions"]["torch"] = "9"
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    before.write_text(json.dumps(was))
    after.write_text(json.dumps(now))
    assert changed(before, after) == 0
    assert capsys.readouterr().out == ""
    now["ranks 2"]["questions"][0]["answer"] = "failed"
    after.write_text(json.dumps(now))
    changed(before, after)
    said = capsys.readouterr().out.splitlines()
    assert said[0].endswith("now 9")
    assert "passed, now failed" in said[1]


def test_a_record_has_no_paths_of_a_machine() -> None:
    """Where it was run does not stand in a result."""
    folder = Path.home() / "x"
    found = {
        "a": f"{folder}/run",
        "b": [f"{Path.cwd()}/y", f"{Path.home()}/z"],
        "c": "/opt/x/bin/python -m a",
    }
    said = without_paths(found, folder, "/opt/x/bin/python")
    assert said == {"a": "RUNS/run", "b": ["./y", "~/z"], "c": "python -m a"}
    for path in HOME.glob("**/*.json"):
        assert "/work/" not in path.read_text(), path
        assert "/root/" not in path.read_text(), path
        assert "/tmp/exam" not in path.read_text(), path
