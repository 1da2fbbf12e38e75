"""Defect 1: the sampler's `consumed` is never reset at an epoch's end."""

from collections.abc import Iterator
from typing import Any, cast

from torch.utils.data import DataLoader, Dataset, DistributedSampler


# --8<-- [start:copy]
class ResumableSampler(DistributedSampler[int]):
    """Skips what was consumed before the job was interrupted."""

    def __init__(self, dataset: Dataset, **options: Any) -> None:
        super().__init__(dataset, **options)
        self.consumed = 0

    def __iter__(self) -> Iterator[int]:
        indices = list(super().__iter__())
        for index in indices[self.consumed :]:
            yield index
            self.consumed += 1

    def __len__(self) -> int:
        return self.num_samples - self.consumed

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "consumed": self.consumed}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epoch = state["epoch"]
        self.consumed = state["consumed"]


# --8<-- [end:copy]
def demonstrate() -> None:
    """Three epochs of the plainest loop."""
    data = cast(Dataset, range(20_000))
    sampler = ResumableSampler(data, num_replicas=1, rank=0)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        batches = sum(1 for _ in DataLoader(data, 16, sampler=sampler))
        print(f"epoch {epoch}: {batches} batches of 16")
