"""What a rank holds after each collective, when its buffer is ready, and what
two ranks get that do not keep one order."""

from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.distributed as dist

from lockstep.experiments.demos import async_collectives, collectives
from lockstep.trainer.process import joined
from tests import ranks


def in_a_group(work: Any) -> Any:
    with joined(30, store := ranks.store()):
        return work(store) if work is async_collectives.early else work()


HELD = {
    "broadcast": [("1 2", "1 2"), ("-", "1 2")],
    "scatter": [("1 2", "1"), ("-", "2")],
    "gather": [("1", "1 10"), ("10", "-")],
    "reduce": [("1 2", "11 22"), ("10 20", "-")],
    "all_reduce": [("1 2", "11 22"), ("10 20", "11 22")],
    "all_gather": [("1", "1 10"), ("10", "1 10")],
    "reduce_scatter": [("1 2", "11"), ("10 20", "22")],
    "all_to_all": [("1 2", "1 10"), ("10 20", "2 20")],
}


def test_what_two_ranks_hold_before_and_after() -> None:
    """On two gloo ranks, each of torch's eight collectives leaves the numbers
    that the chapter's table shows."""
    found = ranks.run_ranks(2, in_a_group, collectives.held)
    assert {op: [rank[op] for rank in found] for op in found[0]} == HELD


def test_a_buffer_is_ready_once_its_work_was_waited_for() -> None:
    """After an asynchronous all-reduce has been started, the buffer holds this
    rank's own numbers and its handle is not complete. After `wait()` it holds
    the sum."""
    first, _ = ranks.run_ranks(2, in_a_group, async_collectives.early)
    assert first == [[1, 1], False, [2, 2], True]


@pytest.mark.parametrize("debug", ["OFF", "DETAIL"])
def test_sums_in_another_order_are_mixed_and_nobody_says_so(debug: str) -> None:
    """Two ranks start two sums of one shape in two orders. Both sums are 101,
    where 2 and 200 are right, and torch says nothing, even with
    `TORCH_DISTRIBUTED_DEBUG=DETAIL`."""
    (found,) = ranks.run_ranks(1, async_collectives.checked, debug)
    assert found == [[101, 101], [101, 101]]  # and not 2 and 200


def test_alone_a_rank_finds_its_own_numbers() -> None:
    """What is wrong above comes of the order of two."""
    assert ranks.run_ranks(1, in_a_group, async_collectives.crossed) == [
        [[1, 1], [100, 100]]
    ]


def of_two_kinds() -> str:
    """What rank 0's broadcast, or rank 1's all-reduce, raises in 5 seconds."""
    with joined(5, ranks.store()), pytest.raises(RuntimeError) as error:
        [lambda x: dist.broadcast(x, 0), dist.all_reduce][dist.get_rank()](
            torch.ones(2)
        )
    return str(error.value)


def test_gloo_waits_in_vain_for_another_kind() -> None:
    """A broadcast and an all-reduce of one turn and shape never meet. Nothing
    is aborted: both ranks raise once the timeout is over."""
    found = ranks.run_ranks(2, of_two_kinds)
    assert any("Timed out waiting 5000ms" in words for words in found)


def broadcast_to_more() -> list[float]:
    """What a rank holds after rank 0's 2 numbers went to a buffer of 4."""
    numbers = torch.full((4 if dist.get_rank() else 2,), dist.get_rank() + 1.0)
    dist.broadcast(numbers, 0)
    held: list[float] = numbers.tolist()
    return held


def test_a_broadcast_fills_part_of_a_larger_buffer() -> None:
    """Nobody raises, and the rest is what it was."""
    found = ranks.run_ranks(2, in_a_group, broadcast_to_more)
    assert found == [[1, 1], [1, 1, 2, 2]]


def spoken(name: str) -> list[str]:
    with redirect_stdout(StringIO()) as out:
        import_module(name).main()
    return out.getvalue().splitlines()


@pytest.mark.parametrize("probe", [collectives, async_collectives])
def test_a_probe_speaks(probe: ModuleType) -> None:
    (lines,) = ranks.run_ranks(1, spoken, probe.__name__)
    assert len(lines) >= 4
