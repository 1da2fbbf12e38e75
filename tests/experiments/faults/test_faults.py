"""What the catalog of failures runs besides the trainer."""

import json
from pathlib import Path

import pytest

from lockstep.experiments.faults import (
    first_failure_attribution,
    shape_mismatch,
    stale_store,
)
from lockstep.experiments.faults.kept_steps import kept_steps
from lockstep.experiments.faults.slowest_phase import leading
from lockstep.trainer.extensions.audit import Report
from tests import ranks
from tests.jobs import TWO, finish

LATE = """
from torch.distributed.elastic.multiprocessing.errors import record
from lockstep.experiments.faults import first_failure_attribution as demo
{}
demo.main()
"""


def test_unchecked_a_mismatch_ends_the_rank_with_the_smaller_tensor() -> None:
    """No exception that Python could catch, and no word of shapes."""
    ((other, smaller),) = ranks.run_ranks(1, shape_mismatch.said, "OFF")
    assert smaller == "SIGABRT"
    assert "shape" not in other


def test_checked_a_mismatch_names_both_collectives_on_both_ranks() -> None:
    """With `TORCH_DISTRIBUTED_DEBUG=DETAIL` the error of a mismatched
    collective names both ranks' calls and shapes."""
    for words in ranks.run_ranks(1, shape_mismatch.said, "DETAIL")[0]:
        assert "mismatch between collectives" in words
        assert "TensorShape=[8]" in words
        assert "TensorShape=[4]" in words


@pytest.mark.parametrize(
    ("mend", "seconds", "end"),
    [(False, 2.0, "Gloo connectFullMesh failed"), (True, 60.0, "both met")],
)
def test_a_second_launch_needs_a_part_of_the_store_to_itself(
    mend: bool, seconds: float, end: str
) -> None:
    found = ranks.run_ranks(1, stale_store.second_launch, mend, seconds)
    assert found == [end]


def summary(
    torchrun: Path, script: Path, before: str = ""
) -> tuple[str, str, str]:
    """What torchrun's end says: all before it, other failures, the cause."""
    script.write_text(LATE.format(before))
    said = finish([str(torchrun), *TWO, str(script)], 1)
    said, _, end = said.partition("Failures:")
    others, _, cause = end.partition("Root Cause (first observed failure):")
    return said, others, cause


def test_torchrun_names_the_rank_that_leaves_first(
    tmp_path: Path, warm: Path
) -> None:
    """Rank 1 was alive when rank 0 lost it, and its error is nowhere."""
    said, others, cause = summary(warm / "torchrun", tmp_path / "late.py")
    assert "rank      : 0" in cause
    assert "exitcode  : 1 " in cause
    assert "rank      : 1" in others
    assert "exitcode  : -15" in others
    assert said.count("closing signal SIGTERM") == 1
    assert "by peer" in said
    assert "ValueError" not in said + others + cause


def test_record_inside_the_clean_up_brings_the_first_error(
    tmp_path: Path, warm: Path
) -> None:
    before = "demo.train = record(demo.train)"
    _, *both = summary(warm / "torchrun", tmp_path / "late.py", before)
    assert "ValueError: label 10 of 10 classes" in "".join(both)


def test_an_error_is_told_after_the_clean_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    called = []
    names = "init_process_group", "all_reduce", "destroy_process_group"
    for name in names:
        monkeypatch.setattr(
            first_failure_attribution.dist,
            name,
            lambda *_, name=name: called.append(name),
        )
    monkeypatch.setattr(first_failure_attribution.dist, "get_rank", lambda: 1)
    monkeypatch.setattr(first_failure_attribution.time, "sleep", called.append)
    with pytest.raises(ValueError, match="label"):
        first_failure_attribution.main()
    assert called[-3:] == [
        "all_reduce",
        names[-1],
        first_failure_attribution.UPLOAD,
    ]


def test_the_leading_phase_is_the_longest_that_is_not_within_another(
    tmp_path: Path,
) -> None:
    """For each rank the diagnosis names the longest phase of the step, and
    leaves out phases that lie within another."""
    (tmp_path / "events").mkdir()
    took = [
        {"load": 0.5, "forward": 0.1, "backward": 0.2, "sync": 0.9},
        {"load": 0.1, "forward": 0.1, "backward": 0.6, "sync_exposed": 0.7},
    ]
    for rank, phases in enumerate(took):
        step = {"event": "step", "rank": rank, "step": 7}
        said = [
            step | {"step": 6, "phases": {"load": 9.0}},
            step,  # the first of a launch has no phases yet
            step | {"phases": phases},
        ]
        path = tmp_path / f"events/attempt-0-rank-{rank}.jsonl"
        path.write_text("".join(json.dumps(each) + "\n" for each in said))
    assert list(leading(tmp_path, 7)) == [
        (0, "load", 0.5),
        (1, "backward", 0.6),
    ]


def test_a_device_that_is_slow_in_all_leads_in_backward_like_its_peers(
    tmp_path: Path,
) -> None:
    """A backward pass takes twice a forward, and its end is common: where one
    device takes half as long again for both, only `forward` shows it."""
    (tmp_path / "events").mkdir()
    for rank, slow in enumerate([1.0, 1.5]):
        took = {"forward": slow, "backward": 1.5 * 3 - slow}
        event = {"event": "step", "rank": rank, "step": 1, "phases": took}
        path = tmp_path / f"events/attempt-0-rank-{rank}.jsonl"
        path.write_text(json.dumps(event) + "\n")
    assert list(leading(tmp_path, 1)) == [
        (0, "backward", 3.5),
        (1, "backward", 3.0),
    ]


def test_kept_steps_are_those_that_were_not_replayed() -> None:
    assert kept_steps(Report(steps=30, replayed_steps=10)) == 0.75
    assert kept_steps(Report(steps=30)) == 1
