"""Lab B2: what a plan, its stream and its loss must hold."""

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from lockstep.grading.criteria import Criterion, named
from lockstep.instruments.traffic import Traffic
from lockstep.labs.lab_b2_token_batches import sound as reference

__all__ = ["CRITERIA", "reference"]

Batch = list[int]
Step = list[Batch]
SAMPLES, BUDGET, PARTS, SEED = 600, 2048, 4, 5
PADDING = 0.1  # of what batches cost


def proteins(samples: int = SAMPLES, seed: int = 0) -> np.ndarray:
    """Lengths as proteins have them: most are short, some fill a batch."""
    drawn = np.random.default_rng(seed).lognormal(5.2, 0.8, samples)
    return np.clip(drawn.astype(np.int64), 1, BUDGET)


CASES = {  # lengths, budget, parts
    "600 samples": (proteins(), BUDGET, PARTS),
    "601 samples, 8 parts": (proteins(601, 1), BUDGET, 8),
    "37 samples, 3 parts": (proteins(37, 2), BUDGET, 3),
    "samples of one length": (np.full(50, 100), 1000, PARTS),
    "as many samples as parts": (np.arange(1, 5), 1000, PARTS),
}


def plans(
    answer: Any,
) -> Iterator[tuple[str, np.ndarray, int, int, list[Step]]]:
    """Of each case two epochs."""
    for case, (lengths, budget, parts) in CASES.items():
        for epoch in (0, 3):
            act = named(answer, "plan")
            found = act(lengths.copy(), budget, parts, SEED, epoch)
            yield case, lengths, budget, parts, found


def batches(steps: list[Step]) -> list[Batch]:
    """Of all steps."""
    return list(chain(*steps))


def ids(steps: list[Step]) -> list[int]:
    """Of all samples, in order."""
    return list(chain(*batches(steps)))


def cost(batch: Batch, lengths: np.ndarray) -> int:
    """Positions of a batch, with its padding."""
    return len(batch) * max((int(lengths[one]) for one in batch), default=0)


def fits(answer: Any) -> None:
    """No batch costs more than its budget."""
    for case, lengths, budget, _, steps in plans(answer):
        for batch in batches(steps):
            wide = cost(batch, lengths)
            told = f"{case}: a batch of {len(batch)} costs {wide}"
            assert wide <= budget, f"{told} with its padding, not {budget}"


def has_each_once(answer: Any) -> None:
    """Nothing is dropped, and nothing comes twice."""
    for case, lengths, _, _, steps in plans(answer):
        count = Counter(map(int, ids(steps)))
        told = f"{case}: an epoch"
        missing = sorted({*range(len(lengths))} - {*count})
        assert not missing, f"{told} lacks {len(missing)}, first {missing[0]}"
        twice = [one for one, often in count.items() if often > 1]
        assert not twice, f"{told} has {len(twice)} more than once"
        other = sorted({*count} - {*range(len(lengths))})
        assert not other, f"{told} has a sample {other[0]}"


def has_whole_steps(answer: Any) -> None:
    """As many batches in each, and something in each batch."""
    for case, _, _, parts, steps in plans(answer):
        assert steps, f"{case}: an epoch has no step"
        for number, step in enumerate(steps):
            told = f"{case}: step {number} of {len(steps)}"
            whole = len(step) == parts
            assert whole, f"{told} has {len(step)} batches, not {parts}"
            assert all(map(len, step)), f"{told} has an empty batch"


def pads_little(answer: Any) -> None:
    """And has few batches, which by themselves would need no padding."""
    lengths = proteins()
    for epoch in range(3):
        steps = named(answer, "plan")(lengths, BUDGET, PARTS, SEED, epoch)
        made = batches(steps)
        wide = sum(cost(one, lengths) for one in made)
        held = sum(int(lengths[one].sum()) for one in made)
        share = 1 - held / max(1, wide)
        told = f"of {wide} positions {share:.0%} are padding"
        assert share <= PADDING, f"{told}; {PADDING:.0%} will do"
        most = 1.25 * held / BUDGET + PARTS
        told = f"{len(made)} batches, and {held / BUDGET:.1f} would be full"
        assert len(made) <= most, told


def unsettle(rank: int) -> None:
    """Each rank has drawn other numbers."""
    random.seed(rank)
    np.random.seed(rank)
    torch.manual_seed(rank)


def generators() -> tuple[Any, ...]:
    """The state of each."""
    _, keys, *rest = np.random.get_state()
    state = [np.asarray(keys).tobytes(), tuple(rest)]
    return random.getstate(), *state, torch.get_rng_state().numpy().tobytes()


def plans_alone(answer: Any) -> tuple[list[Step], list[tuple[Step, int]]]:
    """A plan and a stream's beginning, of a rank with draws of its own."""
    lengths = proteins()
    unsettle(dist.get_rank())
    before, kept = generators(), lengths.copy()
    with Traffic() as traffic:
        found = named(answer, "plan")(lengths, BUDGET, PARTS, SEED, 1)
        given = lengths, BUDGET, PARTS, SEED
        begun = [*islice(named(answer, "stream")(*given), 3)]
    assert not traffic.calls, f"it calls {traffic.calls[0].op}"
    assert generators() == before, "it draws from a global generator"
    assert np.array_equal(lengths, kept), "it changes lengths"
    again = named(answer, "plan")(lengths, BUDGET, PARTS, SEED, 1)
    assert plain(again) == plain(found), "asked twice, it plans otherwise"
    return plain(found), [(*plain([step]), at) for step, at in begun]


def plain(steps: list[Step]) -> list[Step]:
    """NumPy's integers as Python's."""
    return [[[int(one) for one in batch] for batch in step] for step in steps]


def are_alike(results: list[Any]) -> None:
    """What ranks have found."""
    for rank, (found, begun) in enumerate(results):
        first, start = results[0]
        told = f"rank {rank} plans otherwise than rank 0"
        assert found == first, f"{told}: {len(found)} and {len(first)} steps"
        assert begun == start, f"rank {rank} has another stream than rank 0"


def changes(answer: Any) -> None:
    """Batches from epoch to epoch, and lengths within one."""
    lengths = proteins()
    act = named(answer, "plan")
    epochs = [act(lengths, BUDGET, PARTS, SEED, epoch) for epoch in range(8)]
    made = [{frozenset(one) for one in batches(found)} for found in epochs]
    for epoch, found in enumerate(made[1:], 1):
        same = len(found & made[0]) / max(1, len(found))
        told = f"epoch {epoch} has {same:.0%} of epoch 0's batches"
        assert same <= 0.5, told
    other = act(lengths, BUDGET, PARTS, SEED + 1, 0)
    assert plain(other) != plain(epochs[0]), "another seed has the same plan"
    halves = [ids(found[: len(found) // 2]) for found in epochs]
    mean = np.mean([lengths[one].mean() for one in halves]) / lengths.mean()
    told = f"in the first half of epochs samples are {mean:.1f} times as long"
    assert 0.6 <= mean <= 1.6, f"{told} as in the whole"


def refuses(answer: Any) -> None:
    """What no plan can hold."""
    act = named(answer, "plan")
    long, none = proteins(), proteins()
    long[123], none[321] = BUDGET + 1, 0
    for lengths, parts, what, told in (
        (long, PARTS, "123", f"sample 123 has {BUDGET + 1} of {BUDGET} tokens"),
        (none, PARTS, "321", "sample 321 has no token"),
        (np.full(3, 9), PARTS, "3", f"3 samples make {PARTS} batches"),
        (np.full(5, BUDGET), PARTS, "5", f"5 whole batches make {PARTS} each"),
    ):
        raises(lambda: act(lengths, BUDGET, parts, SEED, 0), what, told)  # noqa: B023


def raises(act: Callable[[], Any], what: str, told: str) -> None:
    """ValueError, whose line has `what` in it."""
    try:
        act()
    except ValueError as error:
        said = str(error)
        clear = "\n" not in said and what in said
        assert clear, f"{told}: the error says {said!r}, without {what}"
    except NotImplementedError:
        raise
    except Exception as error:
        raise AssertionError(f"{told}: {type(error).__name__}") from error
    else:
        raise AssertionError(f"{told}, and nothing is said")


def goes_on(answer: Any) -> None:
    """After every step of three epochs."""
    lengths, act = proteins(60), named(answer, "stream")
    given = lengths, BUDGET, PARTS, SEED
    seen: list[tuple[Step, int]] = []
    had = 0
    for step, after in act(*given):
        told = f"the position after step {len(seen)} is {after!r}"
        integer = isinstance(after, (int, np.integer))
        assert integer, f"{told}, no integer"
        seen.append((plain([step])[0], int(after)))
        had += len(ids([step]))
        if had > 3 * len(lengths):
            break
    assert had > 3 * len(lengths), f"the stream ends after {len(seen)} steps"
    variety = len({*ids([step for step, _ in seen])})
    assert variety > 0.8 * len(lengths), f"{variety} samples come in 3 epochs"
    for number, (_, after) in enumerate(seen[:-1]):
        expected = seen[number + 1 : number + 4]
        again = islice(act(*given, after), len(expected))
        found = [(*plain([step]), int(at)) for step, at in again]
        told = f"resumed after step {number}, at position {after}, the stream"
        same = [step for step, _ in found] == [step for step, _ in expected]
        assert same, f"{told} goes on with other steps"
        assert found == expected, f"{told} has other positions"


def goes_far(answer: Any) -> None:
    """To go on hundreds of epochs later takes as many calls as to begin."""
    act = named(answer, "stream")
    given = proteins(8, 4), BUDGET, 2, SEED
    far = next(islice((after for _, after in act(*given)), 400, None))
    start, later = (calls(lambda: next(act(*given, at))) for at in (0, far))  # noqa: B023
    told = f"400 steps on, a resume makes {later} calls; a start makes {start}"
    assert later <= 3 * start + 100, told


def calls(act: Callable[[], Any]) -> int:
    """How many functions it calls, Python's and C's."""
    made = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(None)
    return made


def deals(answer: Any) -> None:
    """The same step to one, two and four ranks; to three of them none."""
    act = named(answer, "share")
    for step in reference.plan(proteins(), BUDGET, PARTS, SEED, 2)[:3]:
        for world in (1, 2, 4):
            shares = [plain([act(step, r, world)])[0] for r in range(world)]
            told = f"{PARTS} batches on {world} ranks:"
            sizes = [len(one) for one in shares]
            assert len({*sizes}) == 1, f"{told} they get {sizes}"
            same = sorted(chain(*shares)) == sorted(step)
            assert same, f"{told} all ranks' batches are not the step's"
        for rank in range(3):
            told = f"{PARTS} batches on 3 ranks"
            raises(lambda: act(step, rank, 3), "3", told)  # noqa: B023


def counts_tokens(answer: Any) -> None:
    """Values and gradients of two steps, on two ranks, without a call."""
    lengths, rank, world = proteins(), dist.get_rank(), dist.get_world_size()
    for step in reference.plan(lengths, BUDGET, PARTS, SEED, 2)[:2]:
        tokens = sum(int(lengths[one].sum()) for one in step)
        total, truth = 0.0, 0.0
        for number, batch in enumerate(step):
            losses, real = drawn(lengths[batch], number)
            truth += float(losses[real].sum()) / tokens
            if number % world != rank:
                continue
            losses.requires_grad_()
            with Traffic() as traffic:
                args = losses, batch, step, lengths, world
                part = named(answer, "token_loss")(*args)
                part.backward()
            said = [call.op for call in traffic.calls]
            assert not said, f"token_loss calls {said[0]}; the plan knows it"
            total += float(part.detach())
            grad = losses.grad
            assert grad is not None, "the losses have no gradient"
            right = real * (world / tokens)
            told = f"of a step of {tokens} tokens on {world} ranks a"
            found = float(grad[real][0])
            assert torch.allclose(grad, right.to(grad)), (
                f"{told} token's gradient is {found:.3g}, not"
                f" {world / tokens:.3g}"
            )
            none = bool((grad[~real] == 0).all())
            assert none, f"{told} padding's gradient is not 0"
        both = torch.tensor(total, dtype=torch.float64)
        dist.all_reduce(both)
        value = float(both) / world
        told = f"the mean of the ranks' losses is {value:.6g}, not {truth:.6g}"
        assert abs(value - truth) < 1e-9, told


def drawn(own: np.ndarray, seed: int) -> tuple[Tensor, Tensor]:
    """Losses [samples, longest], NaN behind a sample's end; what is real."""
    generator = torch.Generator().manual_seed(seed)
    shape = len(own), int(own.max())
    losses = torch.rand(shape, generator=generator, dtype=torch.float64)
    real = torch.arange(shape[1]) < torch.as_tensor(own)[:, None]
    return losses.masked_fill(~real, torch.nan), real


CRITERIA = [
    Criterion(
        "budget",
        12,
        "A batch is as wide as its longest sample, times all of them.",
        fits,
        world=1,
    ),
    Criterion(
        "once",
        12,
        "Halve a batch, where there is one too few.",
        has_each_once,
        world=1,
    ),
    Criterion(
        "whole steps",
        12,
        "A multiple of `parts`, and a batch of something.",
        has_whole_steps,
        world=1,
    ),
    Criterion(
        "padding",
        10,
        "Put samples together that are of like length.",
        pads_little,
        world=1,
    ),
    Criterion(
        "alike",
        12,
        "Make a generator of seed and epoch, and of nothing else.",
        plans_alone,
        are_alike,
    ),
    Criterion(
        "epochs",
        8,
        "Disturb the lengths before you sort, and mix the batches after.",
        changes,
        world=1,
    ),
    Criterion(
        "refused",
        8,
        "Look at the lengths first: a cropped sample is another one.",
        refuses,
        world=1,
    ),
    Criterion(
        "resume",
        10,
        "Epoch and step in it, in one number; its last step ends the epoch.",
        goes_on,
        world=1,
    ),
    Criterion(
        "far",
        4,
        "Find the epoch by a division.",
        goes_far,
        world=1,
    ),
    Criterion(
        "other worlds",
        6,
        "The step is first, and the ranks come last.",
        deals,
        world=1,
    ),
    Criterion(
        "loss",
        6,
        "Every rank has the plan, so it knows all ranks' tokens.",
        counts_tokens,
        world=2,
    ),
]
