"""A trace says what its page says that it says."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, schedule

from lockstep.experiments.benchmarks import timeline, traces
from lockstep.instruments.trace_breakdown import breakdown, covered
from tests.ranks import run_ranks, store


def joined(work: Callable[..., Any], *args: Any) -> Any:
    """`work(*args)` as this rank of a group."""
    rank, world = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE"))
    dist.init_process_group("gloo", store=store(), rank=rank, world_size=world)
    return work(*args)


def recorded(case: str) -> dict[str, Any]:
    return traces.cut(run_ranks(2, joined, traces.traced, case, 0, 1, 2))


@pytest.fixture(scope="module", params=traces.CASES)
def made(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """A case, and a trace of it that was recorded now."""
    return request.param, recorded(request.param)


@pytest.fixture(params=traces.CASES)
def kept(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """A case, and the trace of it that the site draws."""
    return request.param, timeline.load(request.param)


def named(trace: dict[str, Any], rank: int, step: int, start: str) -> list:
    begin, end = timeline.window(timeline.of_rank(trace, rank), step)
    return sorted(
        timeline.span(e)
        for e in trace["traceEvents"]
        if e["pid"] == rank
        and e["name"].startswith(start)
        and begin <= e.get("ts", -1) <= end
    )


def threads(trace: dict[str, Any], rank: int, start: str) -> set[int]:
    return {
        e["tid"]
        for e in trace["traceEvents"]
        if e["pid"] == rank and e["name"].startswith(start)
    }


def check(case: str, trace: dict[str, Any]) -> None:
    """What no noise can change: the order of things."""
    steps = timeline.steps(trace)
    assert len(steps) == 2
    assert timeline.ranks(trace) == [0, 1]
    for rank in (0, 1):
        for step in steps:
            (backward,) = named(trace, rank, step, "backward")
            launches = named(trace, rank, step, "c10d::allreduce_")
            works = named(trace, rank, step, "gloo:all_reduce")
            assert not threads(trace, rank, "gloo:") & threads(
                trace, rank, "c10d::"
            )
            # A bucket for each layer, or a call for each parameter.
            count = 14 if case == "apart" else 7
            assert len(launches) == len(works) == count
            inside = [backward[0] < at < backward[1] for at, _ in launches]
            by_hand = case == "apart"
            assert all(inside) != by_hand
            assert not (by_hand and any(inside))
            assert len(named(trace, rank, step, "sync")) == by_hand


def test_a_trace_recorded_now_has_the_order_of_its_case(
    made: tuple[str, dict[str, Any]],
) -> None:
    check(*made)


def test_a_kept_trace_has_the_order_of_its_case(
    kept: tuple[str, dict[str, Any]],
) -> None:
    """Each recorded trace shows the order of events that its case is about. In
    the case of a late rank the other waits more than twice as long as the late
    one computes."""
    check(*kept)
    if kept[0] == "late":
        step = timeline.steps(kept[1])[-1]
        passes = [named(kept[1], r, step, "backward")[0] for r in (0, 1)]
        waiting, late = (end - begin for begin, end in passes)
        assert waiting > 2 * late
    about = kept[1]["recorded"]
    assert about["backend"] == "gloo"
    assert about["machine"]["processor"]
    assert about["versions"]["torch"]


def test_no_all_reduce_ends_before_its_last_rank_has_launched_it(
    made: tuple[str, dict[str, Any]],
) -> None:
    """So who waits is there for as long as the other is late. Both ranks'
    spans are on one clock, or this would not hold."""
    case, trace = made
    for step in timeline.steps(trace):
        first = [
            named(trace, rank, step, "c10d::allreduce_")[0][0]
            for rank in (0, 1)
        ]
        for rank in (0, 1):
            works = named(trace, rank, step, "gloo:all_reduce")
            assert min(end for _, end in works) > max(first), case


def readings(case: str) -> set[int]:
    return {len(json.loads(line)) for line in traces.Trainer(case).lines}


@pytest.mark.parametrize(
    ("case", "of_rank_1"), [("late", 40), ("overlap", 1), ("apart", 1)]
)
def test_only_the_late_rank_has_more_to_decode(
    case: str, of_rank_1: int
) -> None:
    assert run_ranks(2, joined, readings, case) == [{1}, {of_rank_1}]


def test_what_is_drawn_is_what_the_lab_reads(
    kept: tuple[str, dict[str, Any]],
) -> None:
    trace = kept[1]
    for rank in (0, 1):
        mine = timeline.of_rank(trace, rank)
        for step, parts in breakdown(mine).items():
            window = timeline.window(mine, step)
            drawn = {
                lane: covered([one for _, one in spans], window)
                for lane, spans in timeline.lanes(mine, step).items()
            }
            assert drawn["computes"] == pytest.approx(parts["computation"])
            assert drawn["sends"] == pytest.approx(parts["communication"])


@pytest.mark.parametrize("rank", [0, 1])
def test_ddp_copies_into_buckets_and_back(rank: int) -> None:
    """In the kept traces."""
    apart, overlap = (
        sum(
            end - start
            for start, end in named(
                trace, rank, timeline.steps(trace)[-1], "aten::copy_"
            )
        )
        for trace in map(timeline.load, ("apart", "overlap"))
    )
    assert overlap > 3 * apart


def test_cutting_a_trace_changes_no_share() -> None:
    whole = run_ranks(2, joined, traces.traced, "overlap", 0, 1, 1)
    cut = traces.cut(whole)
    assert len(cut["traceEvents"]) < sum(len(t["traceEvents"]) for t in whole)
    for rank, trace in enumerate(whole):
        ((step, before),) = breakdown(trace).items()
        after = breakdown(timeline.of_rank(cut, rank))[step]
        assert after == pytest.approx(before, abs=0.1)


def test_clocks_that_do_not_begin_together_are_refused() -> None:
    given = [{"baseTimeNanoseconds": at, "traceEvents": []} for at in (0, 1)]
    with pytest.raises(ValueError, match="clocks"):
        traces.cut(given)


@pytest.mark.parametrize(
    ("sends", "who"),
    [([9, 2], 1), ([2, 9], 0), ([9, 8], None), ([9, 2, 3], None)],
)
def test_who_is_waited_for_is_least_in_collectives(
    sends: list[float], who: int | None
) -> None:
    assert traces.waited_for([{"communication": x} for x in sends]) == who


def test_who_is_waited_for_in_the_kept_traces() -> None:
    found = {
        case: traces.waited_for(traces.read(case)) for case in traces.CASES
    }
    assert found == {"overlap": None, "late": 1, "apart": None}


def test_sums_are_said_as_the_page_has_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert traces.main(["read"]) == 0
    about, _, head, *rows = capsys.readouterr().out.splitlines()
    assert about.startswith("gloo, 2 ranks on ")
    assert head.split() == ["step", "computes", "sends", "exposed", "idle"]
    assert len(rows) == 9
    for row in (row for row in rows if "rank 0 " in row or "rank 1 " in row):
        shares = [int(x) for x in row.replace("%", "").split()[-4:]]
        assert shares[0] + shares[2] + shares[3] == pytest.approx(100, abs=2)
    assert traces.main(["cost"]) == 0
    none, *more = capsys.readouterr().out.splitlines()
    assert none.startswith("none")
    assert [line[:20].strip() for line in more] == [*traces.MODES]
    assert traces.main([]) == 2


def test_recording_writes_what_is_read(tmp_path: Path) -> None:
    made = run_ranks(1, write_all, str(tmp_path))
    assert made == [sorted([*traces.CASES, "cost"])]
    found = json.loads((tmp_path / "cost.json").read_text())["seconds"]
    assert [*found] == ["none", *traces.MODES]
    assert all(x > 0 for seconds in found.values() for x in seconds)


def write_all(folder: str) -> list[str]:
    traces.TRIES = 1
    path = Path(folder)
    traces.record(path, path / "cost.json", rounds=1)
    for case in traces.CASES:
        assert timeline.steps(timeline.load(case, path))
    return sorted(file.stem for file in path.iterdir())


def unstepped(folder: str) -> bool:
    trainer = traces.Trainer("overlap")
    file = Path(folder, "trace.json")
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=1, active=1),
        on_trace_ready=lambda p: p.export_chrome_trace(str(file)),
    ):
        for number in range(5):
            trainer.step(number)
    return file.exists()


def test_a_schedule_without_steps_records_nothing(tmp_path: Path) -> None:
    """A profiler whose `step()` is never called writes no trace under a
    schedule."""
    assert run_ranks(1, joined, unstepped, str(tmp_path)) == [False]
