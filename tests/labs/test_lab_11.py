"""What the page of lab 11 shows, run by itself."""

import os
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
import torch.distributed as dist

from lockstep.instruments import slow_trainers as slow
from lockstep.instruments.fake_gpu import FakeGpu
from lockstep.instruments.phase_timer import Marks
from lockstep.instruments.traffic import Traffic
from lockstep.labs.lab_11_profiling import grader, solution
from tests.ranks import run_ranks, store

NAMES = "ABCD"


def test_an_answer_may_import_the_trainers_by_their_old_name() -> None:
    from lockstep.labs.lab_11_profiling import slow as old

    assert (old.A, old.Store) == (slow.A, slow.Store)


def join() -> int:
    rank, world = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE"))
    dist.init_process_group("gloo", store=store(), rank=rank, world_size=world)
    return rank


def test_phases_add_up_to_timed_steps() -> None:
    machine = FakeGpu()
    timer = solution.PhaseTimer(machine.clock, machine.synchronize, every=2)
    total = 0.0
    for step in range(3):
        begin = machine.now
        with timer.step():
            for name in slow.PHASES:
                with timer.phase(name):
                    machine.work(2)
                    machine.launch(1)
            machine.work(0.5)
        total += 0 if step == 1 else machine.now - begin
        machine.synchronize()
    assert sum(timer.seconds.values()) == total
    assert timer.seconds["other"] == 1
    assert {timer.seconds[name] for name in slow.PHASES} == {6}


def seconds(name: str, clock: Callable[[], float]) -> dict[str, float]:
    """Of the slow trainer of that name, by phase."""
    timer = solution.PhaseTimer(clock)
    trainer = getattr(slow, name)(slow.Store())
    dist.barrier()  # rank 0 comes late from the save of the run before
    trainer.train(timer)
    return {phase: timer.seconds[phase] for phase in slow.PHASES}


def phases() -> tuple[list[dict[str, dict[str, float]]], float]:
    """Three runs by the wall's clock, and what C computes, by the CPU's."""
    join()
    runs = [{n: seconds(n, time.perf_counter) for n in NAMES} for _ in range(3)]
    cpu = seconds("C", time.thread_time)
    return runs, cpu["forward"] + cpu["backward"]


def least(
    name: str, runs: list[dict[str, dict[str, float]]]
) -> dict[str, float]:
    """By phase: a busy machine only ever adds to what a phase takes."""
    return {
        phase: min(run[name][phase] for run in runs) for phase in slow.PHASES
    }


@pytest.mark.slow
def test_time_shows_in_a_phase_that_need_not_be_to_blame() -> None:
    """A decodes on both ranks, B is in the all-reduce on both; C's rank 1 and
    D's rank 0 are late, and the other one waits."""
    (first, light), (second, heavy) = run_ranks(2, phases)
    for runs in first, second:
        a, b = (least(name, runs) for name in "AB")
        assert max(a, key=a.__getitem__) == "load"
        assert b["sync"] > b["load"]
    assert 2 * light < heavy
    both = [*zip(first, second, strict=True)]
    latency = slow.Store().seconds
    for a, b in both:
        assert a["C"]["sync"] > b["C"]["sync"]
        assert a["D"]["save"] > 2 * latency
        assert b["D"]["sync"] > latency


def trace_of(trainer: type[slow.Trainer]) -> tuple[dict, list[tuple]]:
    join()
    trace = slow.traced(trainer(slow.Store(0)))
    steps = [
        (e["ts"], e["dur"])
        for e in trace["traceEvents"]
        if e["name"].startswith("step ")
    ]
    return solution.breakdown(trace), sorted(steps)


def test_a_trace_of_torchs_profiler_is_read() -> None:
    """From a trace recorded by torch.profiler on two ranks the breakdown reads
    every step, and its parts add up to the step's length."""
    for found, steps in run_ranks(2, trace_of, slow.B):
        assert [*found] == [*range(slow.B.steps)]
        assert all(a[0] + a[1] <= b[0] for a, b in pairwise(steps))
        for parts, (_, microseconds) in zip(found.values(), steps, strict=True):
            total = sum(parts[p] for p in ("computation", "exposed", "idle"))
            assert abs(total - microseconds) < 0.01
            assert 0 < parts["exposed"] <= parts["communication"] + 0.01
            assert parts["computation"] > 0


def ends() -> list[tuple[int, bool]]:
    """All-reduces of a step, and whether all is as it was."""
    join()
    found = []
    for name in NAMES:
        right, got = (
            grader.end(getattr(module, name)) for module in (slow, solution)
        )
        with Traffic() as traffic:
            one = getattr(solution, name)(slow.Store(0))
            one.train(Marks())
        before, after = (e["weights"]["model"] for e in (right, got))
        same = all(torch.equal(before[key], after[key]) for key in before)
        same = right.keys() == got.keys() and (same or name == "C")
        found.append((len(traffic.calls) // one.steps, same))
    return found


def test_the_mended_end_with_the_same_bits() -> None:
    """C's but for the order of its additions, which the grader allows for."""
    for found in run_ranks(2, ends):
        assert found == 4 * [(1, True)]


def test_shares_are_dealt_by_work() -> None:
    for ranks in (dealt(2), dealt(3)):
        everyone = [i for mine in ranks for i in mine]
        assert sorted(everyone) == [*range(slow.C.batch_size)]
    work = [sum(slow.C.lengths[i] ** 2 for i in mine) for mine in dealt(2)]
    assert max(work) < 1.01 * sum(work) / 2


def dealt(world: int) -> list[list[int]]:
    """The share of each rank."""
    found = []
    for rank in range(world):
        one = solution.C.__new__(solution.C)
        one.rank, one.world = rank, world
        found.append(one.share([*range(one.batch_size)]))
    return found
