"""Lab B2's solution: its plan, its errors, its stream and its loss."""

from itertools import chain, islice

import numpy as np
import pytest
import torch

from lockstep.bio import batches as package
from lockstep.labs.lab_b2_token_batches import sound

LENGTHS = np.random.default_rng(0).integers(20, 500, 333)
GIVEN = LENGTHS, 1000, 4, 7


def test_a_plan_has_each_sample_once_and_no_batch_over_budget() -> None:
    steps = sound.plan(*GIVEN, 0)
    made = list(chain(*steps))
    assert {len(step) for step in steps} == {4}
    assert sorted(chain(*made)) == list(range(len(LENGTHS)))
    wide = [len(one) * LENGTHS[one].max() for one in made]
    assert max(wide) <= 1000
    # The package's windows pad about as little.
    theirs = package.TokenBatches(*GIVEN, window=332)
    theirs_made = [one for step in theirs.plan(0) for one in step]
    ours = package.padding([np.array(one) for one in made], LENGTHS)
    assert ours < package.padding(theirs_made, LENGTHS) + 0.05


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        ([5, 11], "sample 1 has 11 tokens, more than a batch's 10"),
        ([5, 0], "sample 1 has 0 tokens, none"),
        ([5], "1 samples do not make steps of 2 batches"),
    ],
)
def test_what_makes_no_plan_is_refused(lengths: list[int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        sound.plan(np.array(lengths), 10, 2, 0, 0)


def test_a_stream_goes_on_from_every_position() -> None:
    epoch = len(sound.plan(*GIVEN, 0))
    seen = [*islice(sound.stream(*GIVEN), epoch + 3)]
    assert [step for step, _ in seen[:epoch]] == sound.plan(*GIVEN, 0)
    assert [step for step, _ in seen[epoch:]] == sound.plan(*GIVEN, 1)[:3]
    for number, (_, after) in enumerate(seen[:-1]):
        assert next(sound.stream(*GIVEN, after)) == seen[number + 1]


def test_shares_are_a_step_and_their_loss_its_mean() -> None:
    step = sound.plan(*GIVEN, 2)[0]
    tokens = sum(LENGTHS[one].sum() for one in step)
    for world in (1, 2, 4):
        total = 0.0
        for rank in range(world):
            for one in sound.share(step, rank, world):
                losses = torch.full((len(one), LENGTHS[one].max()), torch.nan)
                for row, length in zip(losses, LENGTHS[one], strict=True):
                    row[:length] = 3.0
                args = losses.double(), one, step, LENGTHS, world
                total += float(sound.token_loss(*args))
        assert total / world == pytest.approx(3.0), tokens
    with pytest.raises(ValueError, match="3 ranks do not divide 4 batches"):
        sound.share(step, 0, 3)
