"""The browser explains a paste with the same files, to the same verdict."""

import json

import pytest

from lockstep.explain import catalog
from lockstep.explain.page import explained
from lockstep.explain.patterns import Index
from lockstep.explain.report import html
from tests import micropython

from . import log_sets

# A paste has no files: all lines, one file after the other.
SETS = {
    name: "".join(
        path.read_text("utf-8")
        for path in sorted((log_sets.FOLDER / name / "logs").rglob("*"))
        if path.is_file()
    )
    for name in log_sets.NAMES
}
PROGRAM = """
import json
from lockstep.explain.page import explained
from lockstep.explain.patterns import Index
from lockstep.explain.report import html
with open("/inputs.json") as file:
    given = json.loads(file.read())
index = Index(json.loads(given["entries"]))
said = []
for text in given["logs"]:
    said.append(html(explained(index, text), "../"))
print(json.dumps(said))
"""


@pytest.mark.timeout(300)
def test_micropython_reaches_the_same_verdicts() -> None:
    """For each log set, pasted as one text, MicroPython writes the verdict that
    CPython writes."""
    entries = catalog.shipped()
    logs = list(SETS.values())
    said = json.loads(
        micropython.printed(PROGRAM, {"entries": entries, "logs": logs})
    )
    index = Index(json.loads(entries))
    for name, text, other in zip(SETS, logs, said, strict=True):
        assert other == html(explained(index, text), "../"), name


def test_micropython_reads_a_whole_paste_in_seconds() -> None:
    """A paste of 1 MB is read by MicroPython within ten seconds."""
    program = """
import json, time
from lockstep.explain.page import live
with open("/inputs.json") as file:
    given = json.loads(file.read())
began = time.time()
said = json.loads(live(given["entries"], given["log"], "../"))
print(json.dumps([time.time() - began, said["known"]]))
"""
    line = "[rank%d]: 2026-11-28 03:02:17,118 INFO train: step 40 loss 2.31\n"
    log = "".join(line % (number % 8) for number in range(15_000))
    log += SETS["sigkill-only-in-summary"]
    assert 900_000 < len(log) < 1 << 20
    given = {"entries": catalog.shipped(), "log": log}
    seconds, known = json.loads(micropython.printed(program, given))
    assert known
    assert seconds < 10
