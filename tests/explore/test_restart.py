"""The picture of a restart beside real loaders that are restarted."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice, product
from typing import Any

import pytest
from torch.utils.data import DataLoader, DistributedSampler
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

from lockstep.explore import restart
from lockstep.trainer.extensions.sampler import ResumeAwareDistributedSampler
from tests.conftest import daily

DATA: Any = range(restart.STEPS * restart.STEP)


class DrawCounter(DistributedSampler[int]):
    """Saves how many samples were drawn from it."""

    drawn = 0

    def __iter__(self) -> Iterator[int]:
        for i in islice(super().__iter__(), self.drawn, None):
            self.drawn += 1
            yield i


def loader(kind: str, rank: int, world: int, values: dict[str, Any]) -> Any:
    """One rank's, with its sampler."""
    sampler: Any = {
        "drawn": DrawCounter,
        "epoch": DistributedSampler,
        "loader": StatefulDistributedSampler,
        "position": ResumeAwareDistributedSampler,
    }[kind](DATA, world, rank, seed=7)
    sampler.set_epoch(3)
    workers = values["workers"]
    made = StatefulDataLoader if kind == "loader" else DataLoader
    return made(
        DATA,
        batch_size=restart.BATCH,
        sampler=sampler,
        num_workers=workers,
        prefetch_factor=values["prefetch"] if workers else None,
        multiprocessing_context="fork" if workers else None,
    )


def restarted(values: dict[str, Any]) -> Counter[int]:
    """How often each sample is trained on: until the last checkpoint on the
    ranks of before, then by new loaders until the epoch ends."""
    kind, steps = values["sampler"], restart.saved_step(values)
    seen: Counter[int] = Counter()
    saved: list[Any] = []
    for rank in range(restart.RANKS):
        of_rank = loader(kind, rank, restart.RANKS, values)
        batches = iter(of_rank)
        for _ in range(steps):
            seen.update(next(batches).tolist())
        if kind == "drawn":
            saved.append(of_rank.sampler.drawn)
        if kind == "loader":
            saved.append(of_rank.state_dict())
        del batches
    for rank in range(values["ranks"]):
        of_rank = loader(kind, rank, values["ranks"], values)
        if kind == "drawn":
            of_rank.sampler.drawn = saved[0]
        if kind == "loader":
            of_rank.load_state_dict(saved[0])
        if kind == "position":
            of_rank.sampler.commit(steps * restart.STEP)
        for batch in of_rank:
            seen.update(batch.tolist())
    return seen


@pytest.mark.parametrize(
    ("workers", "ranks"),
    daily(product((0, 2), (1, 2, 4)), (0, 1), (2, 4)),
)
@pytest.mark.parametrize("sampler", ["drawn", "epoch", "loader", "position"])
def test_restart_picture_matches_real_loaders(
    sampler: str, workers: int, ranks: int
) -> None:
    """The test stops two ranks' real loaders at a checkpoint and restarts them
    on one, two or four ranks, with what each kind of sampler saves. The picture
    shows the same samples as trained on once, twice and never."""
    values = {"sampler": sampler, "workers": workers, "prefetch": 2}
    values |= {"kill": 8, "ranks": ranks}
    found = restarted(values)
    whole = loader("epoch" if sampler != "position" else sampler, 0, 1, values)
    order = list(whole.sampler)
    assert [found[i] for i in order] == restart.times(values)


def test_a_counter_of_draws_skips_what_workers_had_read_ahead() -> None:
    """Two workers with two batches each are four batches ahead on both ranks,
    so 32 samples are never trained on; without workers none is."""
    values = {"sampler": "drawn", "workers": 2, "prefetch": 2}
    values |= {"kill": 8, "ranks": 2}
    assert restart.times(values).count(0) == 32
    assert restart.times(values | {"workers": 0}).count(0) == 0


def test_position_resumes_exactly_at_any_world_size() -> None:
    """On one, two and four ranks, with any number of workers and after any
    step, resuming from the position loses and repeats no sample. Every other
    method loses or repeats samples in some case."""
    lossless = set()
    for sampler in ("drawn", "epoch", "loader", "position"):
        counts = {
            count
            for workers in (0, 4)
            for ranks in (1, 2, 4)
            for kill in range(1, restart.STEPS)
            for count in restart.times(
                {
                    "sampler": sampler,
                    "workers": workers,
                    "prefetch": 2,
                    "kill": kill,
                    "ranks": ranks,
                }
            )
        }
        if counts == {1}:
            lossless.add(sampler)
    assert lossless == {"position"}


def test_the_numbers_are_those_of_the_grid() -> None:
    """Once, twice and never add up to the epoch, and each cell is drawn with
    the kind that its count names."""
    values = {"sampler": "epoch", "workers": 2, "prefetch": 2}
    values |= {"kill": 5, "ranks": 2}
    scene = restart.draw(values)
    kinds = Counter(bar[2] for _, bars in scene.panels[0].rows for bar in bars)
    assert kinds == {"twice": 24, "once": 72}
    said = dict(scene.numbers)
    assert (said["trained on once"], said["twice"], said["never"]) == (
        "72",
        "24",
        "0",
    )
    assert said["steps of work lost"] == "2"
