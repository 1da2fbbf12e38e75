"""Batches of equal cost: one plan, equal steps, and what a row keeps apart."""

from collections import Counter
from itertools import islice, takewhile
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from lockstep.bio import batches
from lockstep.bio.batches import TokenBatches, attends, lay, pad, padding
from lockstep.bio.global_mean import everywhere, part_of_mean
from lockstep.experiments.studies import batching, packing
from lockstep.trainer.process import joined
from tests import ranks

LENGTHS = np.random.default_rng(0).integers(1, 60, 500)


def source(packed: bool = False, **other: Any) -> TokenBatches:
    given = {"budget": 200, "parts": 4, "seed": 0, "window": 128} | other
    return TokenBatches(LENGTHS, packed=packed, **given)


# The plan


@pytest.mark.parametrize("packed", [False, True])
def test_every_epoch_has_each_sample_once(packed: bool) -> None:
    """Four windows of 128 are an epoch and 12 samples of the next."""
    seen: Counter[int] = Counter()
    stream = source(packed)
    last = [
        s.resume for s in takewhile(lambda s: s.resume < 512, stream.steps())
    ]
    for step in islice(stream.steps(), len(last) + 1):
        for batch in step.batches:
            seen.update(batch.tolist())
    assert seen.total() == 512
    assert set(seen) == set(range(500))
    assert sum(n == 2 for n in seen.values()) == 12


@pytest.mark.parametrize("packed", [False, True])
def test_no_batch_is_over_budget(packed: bool) -> None:
    for step in islice(source(packed).steps(), 60):
        assert len(step.batches) == 4
        for batch in step.batches:
            held = LENGTHS[batch]
            assert len(batch)
            wide = held.sum() if packed else len(batch) * held.max()
            assert wide <= 200


@given(
    lengths=st.lists(st.integers(1, 50), min_size=1, max_size=60),
    parts=st.integers(1, 6),
    packed=st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_any_lengths_make_equal_steps(
    lengths: list[int], parts: int, packed: bool
) -> None:
    """Few samples, all of one length, more parts than samples: all the same."""
    stream = TokenBatches(np.array(lengths), 50, parts, 1, 2 * parts, packed)
    found = [batch for step in stream.plan(3) for batch in step]
    assert len(found) % parts == 0
    held = Counter(sample for batch in found for sample in batch.tolist())
    there = stream.order(np.arange(6 * parts, 8 * parts))
    assert held == Counter(there.tolist())


@pytest.mark.parametrize("packed", [False, True])
def test_a_run_goes_on_from_one_integer(packed: bool) -> None:
    """Steps that start from the integer which the first, seventh, 20th or 39th
    step left are the remaining steps of an undisturbed run, batch for batch."""
    whole = list(islice(source(packed).steps(), 40))
    for made in (1, 7, 20, 39):
        again = source(packed).steps(whole[made - 1].resume)
        rest = list(islice(again, 40 - made))
        assert [s.resume for s in rest] == [s.resume for s in whole[made:]]
        for one, other in zip(whole[made:], rest, strict=True):
            assert [*map(list, one.batches)] == [*map(list, other.batches)]


def test_other_ranks_deal_the_same_step_anew() -> None:
    step = next(source().steps())
    for world in (1, 2, 4):
        dealt = [batches.share(step, rank, world) for rank in range(world)]
        assert {len(own) for own in dealt} == {4 // world}
        ids = sorted(int(i) for own in dealt for batch in own for i in batch)
        assert ids == sorted(int(i) for batch in step.batches for i in batch)
    with pytest.raises(ValueError, match="3 ranks do not divide 4 parts"):
        batches.share(step, 0, 3)


def own_plan() -> list[list[int]]:
    """Of this rank, step by step: two windows."""
    with joined(30, ranks.store()) as me:
        steps = takewhile(lambda s: s.resume <= 256, source().steps())
        own = [batches.share(step, me.rank, 2) for step in steps]
        return [[int(i) for part in parts for i in part] for parts in own]


def test_ranks_that_say_nothing_to_each_other_share_one_plan() -> None:
    one, other = ranks.run_ranks(2, own_plan)
    assert len(one) == len(other) > 5
    both = [*zip(one, other, strict=True)]
    together = [sorted(mine + theirs) for mine, theirs in both]
    steps = takewhile(lambda s: s.resume <= 256, source().steps())
    planned = [sorted(np.concatenate(step.batches).tolist()) for step in steps]
    assert together == planned


def test_long_and_short_batches_come_mixed() -> None:
    steps = source(window=500).plan(0)
    widths = [[int(LENGTHS[batch].max()) for batch in step] for step in steps]
    first = [step[0] for step in widths]
    assert first != sorted(first)
    assert first != sorted(first, reverse=True)
    assert max(max(step) - min(step) for step in widths) > 10


def test_bad_lengths_are_named() -> None:
    with pytest.raises(ValueError, match="sample 1 has 9 tokens, a batch 8"):
        TokenBatches(np.array([3, 9, 2]), 8, 1, 0)
    with pytest.raises(ValueError, match="sample 2 has no tokens"):
        TokenBatches(np.array([3, 9, 0]), 9, 1, 0)
    with pytest.raises(ValueError, match="multiple"):
        TokenBatches(np.array([3]), 9, 3, 0, window=10)
    with pytest.raises(ValueError, match="do not make 2"):
        batches.even([np.array([0])], 2)


def test_best_fit_leaves_less_room_than_first_come() -> None:
    lengths = np.array([60, 50, 50, 40])
    rows = batches.pack(np.array([0, 1, 2, 3]), lengths, 100)
    assert [sorted(row.tolist()) for row in rows] == [[0, 3], [1, 2]]
    assert padding(rows, lengths, 100) == 0
    assert padding([np.array([0, 3])], lengths) == pytest.approx(20 / 120)


# On real lengths


def test_random_batches_of_smiles_are_mostly_padding() -> None:
    lengths = batching.lengths()
    assert padding(batching.random_batches(), lengths) > 0.6
    assert padding(batching.planned(packed=False), lengths) < 0.02
    rows = batching.planned(packed=True)
    assert padding(rows, lengths, batching.BUDGET) < 0.05


def test_ranks_that_cut_their_own_shares_get_unequal_steps() -> None:
    for world in (2, 8, 64):
        least, most, left = batching.unequal(world)
        assert least < most
        assert 0 < left < 0.02
    own = batching.own_batches(0, 2, 2000)
    tail, rest = batching.lengths()[own[-1]], batching.lengths()[own[-2]]
    assert tail.max() <= rest.min()  # the shortest would be left out


@pytest.mark.parametrize("even", [False, True])
def test_unequal_steps_hang_until_the_time_out(even: bool) -> None:
    """Ranks that deal unequal numbers of batches stop in the same step: one has
    ended, and the other waits in a collective until its timeout. With equal
    numbers both end."""
    found = ranks.run_ranks(2, in_an_epoch, even)
    done = [steps for steps, _, _ in found]
    planned = [steps for _, steps, _ in found]
    ended = [how for _, _, how in found]
    if even:
        assert done == planned == [planned[0]] * 2
        assert ended == ["ended", "ended"]
    else:
        assert planned[0] > planned[1]
        assert done == [planned[1]] * 2
        assert ended == ["Timed out", "ended"]


def in_an_epoch(even: bool) -> tuple[int, int, str]:
    return batching.epoch(ranks.store(), batching.SAMPLES, 1.5, even)


def joined_steps(own_count: bool) -> list[float]:
    with joined(3, ranks.store()) as me:
        model = torch.nn.Linear(1, 1, bias=False)
        ddp, found = DistributedDataParallel(model), []
        with Join([ddp]):
            for _ in range(2 + me.rank):
                out = ddp(torch.ones(2, 1)).sum()
                loss = part_of_mean(out, 2) if own_count else out / 2
                model.zero_grad()
                loss.backward()
                grad = model.weight.grad
                assert grad is not None
                found.append(float(grad))
        return found


@pytest.mark.filterwarnings("ignore")
def test_join_halves_the_steps_that_one_rank_makes_alone() -> None:
    """Two ranks with two and three batches train under `Join`. In the step that
    one rank makes alone its gradient is divided by two, as if the other had
    taken part."""
    assert ranks.run_ranks(2, joined_steps, False) == [[1, 1], [1, 1, 0.5]]


@pytest.mark.filterwarnings("ignore")
def test_join_does_not_answer_a_collective_of_ones_own() -> None:
    """Under `Join`, a rank whose loop contains an all-reduce of its own fails
    once the other rank has run out of batches."""
    with pytest.raises(ranks.RankError):
        ranks.run_ranks(2, joined_steps, True, timeout=15)


# What a token weighs


def test_the_mean_of_per_rank_means_is_off() -> None:
    assert 0.01 < batching.error_of_means(steps=30) < 0.1


def counted_gradients() -> list[list[float]]:
    """Of one step of two unequal batches under DDP: by global count, and the
    mean of means."""
    with joined(30, ranks.store()) as me:
        found = []
        for by_count in (True, False):
            model = batching.Bigrams(torch.zeros(128, 128))
            ddp = DistributedDataParallel(model)
            loss, count = ddp(batching.characters(UNEQUAL[me.rank]))
            (part_of_mean(loss, count) if by_count else loss / count).backward()
            assert model.table.weight.grad is not None
            found.append(model.table.weight.grad.flatten().tolist())
        return found


UNEQUAL = [np.arange(3), np.arange(3, 40)]


def test_the_global_count_gives_the_gradient_of_one_process() -> None:
    """Two ranks with unequal numbers of tokens find one process's gradient when
    they divide by the global count, within 10⁻⁶. A mean of per-rank means is
    off by more than 5 %."""
    model = batching.Bigrams(torch.zeros(128, 128))
    loss, count = model(batching.characters(np.concatenate(UNEQUAL)))
    (loss / count).backward()
    right = model.table.weight.grad
    assert right is not None
    found = torch.tensor(ranks.run_ranks(2, counted_gradients))
    errors = (found - right.flatten()).norm(dim=-1) / right.norm()
    by_count, means = errors.unbind(1)
    assert by_count.max() < 1e-6
    assert means.min() > 0.05


def test_without_a_group_a_part_is_the_whole() -> None:
    count = torch.tensor(4)
    assert part_of_mean(torch.tensor(8.0), count) == 2
    assert part_of_mean(torch.tensor(0.0), 0) == 0
    assert everywhere(count, "cpu") == 4


# Side by side, end to end


def test_a_padded_batch_says_what_is_real() -> None:
    found = pad([torch.tensor([7, 8, 9]), torch.tensor([5])])
    assert found.tokens.tolist() == [[7, 8, 9], [5, 0, 0]]
    assert found.real.tolist() == [[True] * 3, [True, False, False]]


def test_a_row_counts_positions_from_0_and_says_whose_a_token_is() -> None:
    row = lay([torch.tensor([7, 8, 9]), torch.tensor([5])], 6)
    assert row.tokens.tolist() == [7, 8, 9, 5, 0, 0]
    assert row.positions.tolist() == [0, 1, 2, 0, 0, 0]
    assert row.owners.tolist() == [0, 0, 0, 1, -1, -1]
    sees = attends(row.owners)
    assert sees[0].tolist() == [True] * 3 + [False] * 3
    assert sees[3].tolist() == [False] * 3 + [True] + [False] * 2
    assert sees.any(1).all()  # no row of nothing
    with pytest.raises(ValueError, match="7 tokens do not fit into 6"):
        lay([torch.arange(7)], 6)


@pytest.mark.parametrize("rotary", [False, True])
def test_another_sequences_tokens_change_nothing_behind_the_mask(
    rotary: bool,
) -> None:
    """In a packed row the outputs of the first sequence stay bit for bit the
    same when the tokens of the second change. Without the mask they do not."""
    model, first = packing.Reader(rotary), torch.tensor([1, 2, 3])
    outs = {}
    for other in (4, 5):
        row = lay([first, torch.full((2,), other)], 8)
        for masked in (True, False):
            mask = attends(row.owners) | (not masked)
            with torch.no_grad():
                out = model(row.tokens, row.positions, mask)
            outs[other, masked] = out[:3]
    assert torch.equal(outs[4, True], outs[5, True])
    assert not torch.allclose(outs[4, False], outs[5, False], atol=0.01)


def test_what_a_row_leaks() -> None:
    assert packing.difference(False, masked=True, reset=True) < 1e-5
    assert packing.difference(True, masked=True, reset=True) < 1e-5
    assert packing.difference(False, masked=False, reset=True) > 0.1
    # Learned positions have to begin anew; turns see differences alone.
    assert packing.difference(False, masked=True, reset=False) > 0.1
    assert packing.difference(True, masked=True, reset=False) < 1e-5


def test_the_studies_print_their_tables(capsys: Any) -> None:
    batching.main()
    packing.main()
    out = capsys.readouterr().out
    assert "64 at random" in out
    assert out.count("same") == 3
