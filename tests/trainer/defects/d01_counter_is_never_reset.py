"""Defect 1: the sampler's `consumed` is never reset at an epoch's end."""

from collections.abc import Iterator
from typing import Any

from torch.utils.data import Dataset, DistributedSampler


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
