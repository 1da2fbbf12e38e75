"""Rows of published runs are checked when they are read."""

import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import tyro

from lockstep.cli.plan import flags
from lockstep.experiments.published_runs.rows import inputs, read, rows
from lockstep.planner.questions import QUESTIONS

ASK = "lockstep plan run"
GOOD: dict[str, Any] = {
    "id": "a-run",
    "source": "github:owner/name README.md, table 1",
    "address": f"github:owner/name@{'0' * 40}:README.md",
    "checked": "2026-11-29",
    "precision": "bf16",
    "model": "Llama 3 8B",
    "hardware": "H100 80GB",
    "parallelism": "fsdp",
    "command": f"{ASK} --preset llama3-8b --gpus 8 --sequence 1000"
    " --global-batch 16 --zero-stage 3 --json",
    "published": {"tokens_per_s_per_gpu": 1000, "step_s": 2.0},
    "assumed": "",
}


def written(folder: Path, *found: dict[str, Any] | str) -> Path:
    """A file of rows."""
    lines = [x if isinstance(x, str) else json.dumps(x) for x in found]
    path = folder / "rows.jsonl"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def test_the_repositorys_rows_are_valid_and_a_good_row_is_read(
    tmp_path: Path,
) -> None:
    assert len(rows()) > 150
    (row,) = read(written(tmp_path, GOOD))
    assert row.given["gpus"] == 8
    assert row.given["zero_stage"] == 3
    assert (row.origin, row.chip) == ("owner/name", "H100")
    link = f"https://github.com/owner/name/blob/{'0' * 40}/README.md"
    assert row.link == link
    other = {"source": "Paper (2022), table 1", "address": "https://a.org/x"}
    (row,) = read(written(tmp_path, GOOD | other))
    assert (row.origin, row.link) == ("Paper", "https://a.org/x")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"command": f"{ASK} --gpu 8"}, "--gpu is not a flag"),
        ({"command": GOOD["command"] + " --tp x"}, "--tp needs a number"),
        ({"command": GOOD["command"] + " --tp"}, "--tp needs a number"),
        ({"command": f"{ASK} --gpus 8"}, "--sequence is missing"),
        ({"command": "lockstep plan search --gpus 8"}, f"begin with {ASK}"),
        ({"command": GOOD["command"] + " 'x"}, "No closing quotation"),
        ({"published": {}}, "published: no figure"),
        ({"published": {"step_s": -1}}, "published.step_s: input should be"),
        ({"published": {"mfu": 43.3}}, "published.mfu: input should be less"),
        ({"published": {"speed": 1}}, "published.speed: extra inputs"),
        (
            {"published": {"tokens_per_s_per_gpu": 1000, "step_s": 1.0}},
            "are 2000 tokens/s per GPU, not 1000",
        ),
        ({"id": "a run"}, "id: string should match"),
        ({"source": ""}, "source: string should have"),
        ({"address": "my notes"}, "address: string should match"),
        ({"address": "github:o/n:README.md"}, "address: string should match"),
        ({"checked": "today"}, "checked: input should be a valid date"),
        ({"precision": "half"}, "precision: input should be 'fp32'"),
        ({"counts": "MFU"}, "counts: string should match"),
        ({"note": "x"}, "note: extra inputs"),
    ],
)
def test_a_bad_row_is_named_with_its_fault(
    tmp_path: Path, change: dict[str, Any], fault: str
) -> None:
    """A row of published runs that is not valid is named by file, line and id,
    with its fault, in one line; rows before and after it don't matter."""
    bad = GOOD | change
    path = written(tmp_path, GOOD, bad | {"id": change.get("id", "bad")})
    with pytest.raises(ValueError, match=r"rows\.jsonl:2") as error:
        read(path)
    assert f"rows.jsonl:2: {change.get('id', 'bad')}: " in str(error.value)
    assert fault in str(error.value)
    assert "\n" not in str(error.value)


def test_each_bad_row_has_a_line(tmp_path: Path) -> None:
    path = written(tmp_path, "{", GOOD, GOOD, [1], GOOD | {"id": "x", "a": 1})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="JSON") as error:
        read(path)
    assert str(error.value).splitlines() == [
        "rows.jsonl:1: not a JSON object with an id",
        "rows.jsonl:3: a-run: another row has this id",
        "rows.jsonl:4: not a JSON object with an id",
        "rows.jsonl:5: x: a: extra inputs are not permitted",
    ]


def test_a_command_is_read_as_the_command_line_reads_it() -> None:
    """The rows' reader takes flags, defaults and numbers as tyro does."""
    kind = flags("run", QUESTIONS["run"].inputs)
    for row in rows().values():
        words = shlex.split(row.command)[3:]
        words.remove("--json")
        assert asdict(tyro.cli(kind, args=words)) == inputs(row.command)
