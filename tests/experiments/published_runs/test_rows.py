"""Published runs: every row is complete, sourced and askable."""

import json
import re
import shlex
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from lockstep.cli import main
from lockstep.experiments import published_runs

FILE = Path(published_runs.__file__).with_name("rows.jsonl")
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in FILE.read_text("utf-8").splitlines()
]
NAMED = {row["id"]: row for row in ROWS}
TEXTS = {
    *("id", "source", "address", "checked", "model", "hardware"),
    *("precision", "parallelism", "command", "assumed"),
}
SOMETIMES = {"needs", "counts"}
MEASURED = {
    *("tokens_per_s_per_gpu", "step_s", "tflops_per_gpu", "mfu", "memory_gb"),
}
PRECISIONS = {"bf16", "fp16", "fp8", "mxfp8", "nvfp4"}
# What a run did that its command can't say yet.
NEEDS = {
    *("--recompute selective", "--recompute moe", "ep over tp x dp"),
    *("LoRA", "chunked loss", "activation offload"),
}
# What a publisher's TFLOP/s or MFU counts.
COUNTS = r"(model|hardware), (attention in full|attention halved \(causal\)"
COUNTS += r"|not stated)"
ADDRESS = r"https://\S+|github:[\w.-]+/[\w.-]+@[0-9a-f]{40}:\S+"


def flag(row: dict[str, Any], name: str) -> int:
    """A whole number in the row's command; 1 without it."""
    found = re.search(rf"--{name} (\d+)", row["command"])
    return int(found[1]) if found else 1


def test_every_run_has_its_own_id() -> None:
    assert len(NAMED) == len(ROWS) > 150


@pytest.mark.parametrize("name", NAMED)
def test_a_run_says_what_was_measured_and_where(name: str) -> None:
    """Each row has a source, an address that a reader can open (a web page, or
    a file of a repository at a commit), the day somebody opened it, and figures
    above 0."""
    row = NAMED[name]
    assert TEXTS | {"published"} <= row.keys()
    assert row.keys() <= TEXTS | {"published"} | SOMETIMES
    for field in row.keys() - {"published"}:
        assert row[field]
        assert row[field] == row[field].strip()
    assert re.fullmatch(ADDRESS, row["address"])
    assert date(2026, 11, 29) <= date.fromisoformat(row["checked"])
    assert row["precision"] in PRECISIONS
    assert set(row.get("needs", "LoRA").split("; ")) <= NEEDS
    figures = row["published"]
    assert figures
    assert figures.keys() <= MEASURED
    assert all(value > 0 for value in figures.values())
    assert figures.get("mfu", 0) < 1
    if figures.keys() & {"tflops_per_gpu", "mfu"} and "counts" in row:
        assert re.fullmatch(COUNTS, row["counts"])
    if "tflops_per_gpu" in figures and len(figures) == 1:
        assert "counts" in row
    said = f"{row['source']} {row['assumed']}".lower()
    for word in ("second hand", "from memory", "transcri", "before citing"):
        assert word not in said


@pytest.mark.parametrize("name", NAMED)
def test_the_planner_answers_a_published_run(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each row's command parses, and the planner answers it; where the run did
    what the command can't say yet, the planner may refuse it in one line."""
    row = NAMED[name]
    words = shlex.split(row["command"])
    assert words[:3] == ["lockstep", "plan", "run"]
    assert words[-1] == "--json"
    code = main(words[1:])
    printed = capsys.readouterr()
    if "needs" in row and code:
        assert code == 2
        assert printed.err.startswith("error: ")
        assert printed.err.count("\n") == 1
        return
    assert code == 0
    assert json.loads(printed.out)["total_bytes"] > 0


@pytest.mark.parametrize(
    "name",
    [
        row["id"]
        for row in ROWS
        if row["published"].keys() >= {"step_s", "tokens_per_s_per_gpu"}
    ],
)
def test_published_figures_of_a_run_agree(name: str) -> None:
    """Where a source gives a step's time and a GPU's tokens a second, both
    describe the command's step: sequence times batch over the GPUs, within
    2 %."""
    row = NAMED[name]
    tokens = flag(row, "sequence") * flag(row, "global-batch")
    a_gpu = tokens / flag(row, "gpus") / row["published"]["step_s"]
    assert a_gpu == pytest.approx(
        row["published"]["tokens_per_s_per_gpu"], rel=0.02
    )


def test_every_kind_of_run_has_five_rows() -> None:
    """Each kind has at least five rows: experts across nodes, Blackwell,
    context parallelism, FP8, dense runs with tensor or pipeline parallelism on
    H100 in bf16, A100, V100, LoRA and TPU."""
    count: Counter[str] = Counter()
    for row in ROWS:
        hardware, precision = row["hardware"], row["precision"]
        split = flag(row, "tp") * flag(row, "pp") > 1
        count["experts across nodes"] += flag(row, "ep") > 8
        count["context parallelism"] += flag(row, "cp") > 1
        count["Blackwell"] += bool(re.match("G?B[23]00", hardware))
        count["FP8"] += precision in ("fp8", "mxfp8")
        count["LoRA"] += row.get("needs") == "LoRA"
        count["H100 bf16 dense"] += (
            hardware.startswith("H100")
            and precision == "bf16"
            and split
            and flag(row, "ep") == 1
        )
        for maker in ("A100", "V100", "TPU"):
            count[maker] += hardware.startswith(maker)
    assert min(count.values()) >= 5, count


def test_no_source_dominates() -> None:
    """No repository or paper gives more than a third of the rows, so a fit that
    leaves one source out keeps most of them."""
    sources = Counter(row["address"].split("@")[0] for row in ROWS)
    assert max(sources.values()) < len(ROWS) / 3
    assert len(sources) > 15
