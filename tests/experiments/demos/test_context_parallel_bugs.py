"""What the chapter on context parallelism says of a divided sequence."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from lockstep.experiments.demos import bytes_on_wire, context_parallel_bugs
from lockstep.experiments.demos.context_parallel_bugs import (
    MISTAKES,
    alone,
    together,
)
from lockstep.parallel.context_parallel import zigzag_positions
from lockstep.trainer.process import joined
from tests import ranks
from tests.parallel.test_context_parallel import (
    LENGTH,
    SLACK,
    both_passes,
    drawn,
    farthest,
    orders,
)


def grouped_heads() -> list[float]:
    """Four heads of queries for two of keys and values, gathered."""
    found = []
    with joined(30, ranks.store()) as me:
        q, k, v, grad = drawn(32)
        whole = [q, k[:, :2], v[:, :2], grad]
        act = partial(
            F.scaled_dot_product_attention, is_causal=True, enable_gqa=True
        )
        alone = both_passes(act, whole)
        for positions in orders(32, me.rank, me.world_size):
            mine = [x[:, :, positions] for x in whole]
            got = both_passes(
                context_parallel_bugs.gathered_attention, mine, positions
            )
            found += farthest(got, [x[:, :, positions] for x in alone])
    return found


def test_keys_gathered_first_give_the_same() -> None:
    """On four ranks, with two heads of keys and values for four of queries,
    attention to gathered keys has one process's outputs and gradients, in
    contiguous, zig-zag and striped order."""
    for found in ranks.run_ranks(4, grouped_heads):
        assert max(found) < 1e-5


def gathered_sends() -> int:
    """Bytes of a forward pass with gathered keys and values, by the kernel."""
    with joined(60, ranks.store()) as me:
        positions = zigzag_positions(LENGTH, me.rank, me.world_size)
        q, k, v, _ = (x[:, :, positions] for x in drawn(LENGTH))

        def work() -> object:
            return context_parallel_bugs.gathered_attention(
                q, k[:, :1], v[:, :1], positions
            )

        work()  # connects
        return bytes_on_wire.sent(work)


def test_a_gather_sends_each_block_to_all() -> None:
    """On four ranks, with one head of keys and values for four of queries, a
    gather sends a rank's keys and values three times."""
    block = 2 * 2 * (LENGTH // 4) * 8 * 4  # k and v, batch, tokens, dim, fp32
    places = 3 * 8 * LENGTH // 4
    for found in ranks.run_ranks(4, gathered_sends):
        assert found == pytest.approx(3 * block + places, **SLACK)


def grouped(mistake: str) -> tuple[float, float]:
    """The loss of a group of this rank and others, and how far its gradients
    are off one process's."""
    with joined(30, ranks.store()):
        told, got = together(mistake)
    right = alone()[1]
    return told, float((got - right).norm() / right.norm())


@pytest.mark.parametrize("world", [2, 4])
def test_a_divided_sequence_gives_one_processs_gradients(world: int) -> None:
    """On two and four ranks, with labels shifted before the sequence is
    divided, angles by global positions and a global count, loss and gradients
    are one process's."""
    loss, _ = alone()
    for told, off in ranks.run_ranks(world, grouped, "none"):
        assert told == pytest.approx(loss, rel=1e-5)
        assert off < 1e-5


@pytest.mark.parametrize(
    ("mistake", "least", "most"),
    [
        (MISTAKES[1], 0.02, 0.1),
        (MISTAKES[2], 0.2, 0.5),
        (MISTAKES[3], 0.2, 0.5),
        (MISTAKES[4], 0.49, 0.51),
    ],
)
def test_each_mistake_of_dividing_changes_gradients(
    mistake: str, least: float, most: float
) -> None:
    """On two ranks, gradients are off by 2 to 10 % where positions count from 0
    on each rank, by 20 to 50 % where labels are shifted after dividing or each
    rank takes its own mean, and by half where they are averaged and not summed.
    In no case does the loss differ by more than 2 %."""
    loss, _ = alone()
    for told, off in ranks.run_ranks(2, grouped, mistake):
        assert least < off < most
        assert told == pytest.approx(loss, rel=0.02)


def pairs(cuts: list[int], world: int) -> list[float]:
    """Pairs of query and key of each rank, over the mean, where documents end
    at `cuts` and see only themselves. The sequence is divided in zig-zag."""
    document = torch.zeros(cuts[-1], dtype=torch.long)
    for cut in cuts[:-1]:
        document[cut:] += 1
    begins = torch.tensor([0, *cuts])[document]
    seen = torch.arange(cuts[-1]) - begins + 1
    work = torch.stack(
        [
            seen[zigzag_positions(cuts[-1], rank, world)].sum()
            for rank in range(world)
        ]
    ).double()
    return (work / work.mean()).tolist()


def test_zigzag_is_uneven_for_packed_documents() -> None:
    """Over four ranks in zig-zag order, a single document of 131,072 tokens is
    even. With one of 65,536 tokens and 64 of 1,024, the fullest rank has 1.7
    times the mean, and 6.6 times the emptiest."""
    assert pairs([131_072], 4) == pytest.approx([1] * 4, rel=1e-4)
    packed = pairs([65_536 + 1024 * i for i in range(65)], 4)
    assert max(packed) == pytest.approx(1.73, abs=0.03)
    assert max(packed) / min(packed) == pytest.approx(6.65, abs=0.05)


def test_the_page_shows_what_the_demo_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The table has a line for each mistake."""
    context_parallel_bugs.main()
    said = capsys.readouterr().out
    assert all(mistake in said for mistake in MISTAKES)
