"""Published runs: every row is complete, sourced and askable."""

import json
import re
import shlex
from collections import Counter
from datetime import date

import pytest

from lockstep.cli import main
from lockstep.experiments.published_runs.rows import Row, rows

ROWS = [*rows().values()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_run_says_what_was_measured_and_where(row: Row) -> None:
    """Each row's texts are stripped, somebody has opened its source, a source
    of TFLOP/s alone says what they count, and no figure is at second hand."""
    for text in row.model_dump(exclude={"published", "checked"}).values():
        assert text == text.strip()
    assert row.checked >= date(2026, 11, 29)
    if [*row.published.model_dump(exclude_none=True)] == ["tflops_per_gpu"]:
        assert row.counts
    said = f"{row.source} {row.assumed}".lower()
    for word in ("second hand", "from memory", "transcri", "before citing"):
        assert word not in said


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_the_planner_answers_a_published_run(
    row: Row, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each row's command parses, and the planner answers it."""
    words = shlex.split(row.command)
    assert words[-1] == "--json"
    assert main(words[1:]) == 0
    assert json.loads(capsys.readouterr().out)["total_bytes"] > 0


def test_every_kind_of_run_has_five_rows() -> None:
    """Each kind has at least five rows: experts across nodes, Blackwell,
    context parallelism, FP8, dense runs with tensor or pipeline parallelism on
    H100 in bf16, A100, V100, LoRA and TPU."""
    count: Counter[str] = Counter()
    for row in ROWS:
        given, hardware = row.given, row.hardware
        split = given["tp"] * given["pp"] > 1
        count["experts across nodes"] += given["ep"] > 8
        count["context parallelism"] += given["cp"] > 1
        count["Blackwell"] += bool(re.match("G?B[23]00", hardware))
        count["FP8"] += row.precision in ("fp8", "mxfp8")
        count["LoRA"] += given["lora_rank"] > 0
        count["H100 bf16 dense"] += (
            hardware.startswith("H100")
            and row.precision == "bf16"
            and split
            and given["ep"] == 1
        )
        for maker in ("A100", "V100", "TPU"):
            count[maker] += hardware.startswith(maker)
    assert min(count.values()) >= 5, count


def test_no_source_dominates() -> None:
    """No repository or paper gives more than a third of the rows, so a fit that
    leaves one source out keeps most of them."""
    sources = Counter(row.address.split("@")[0] for row in ROWS)
    assert max(sources.values()) < len(ROWS) / 3
    assert len(sources) > 15
