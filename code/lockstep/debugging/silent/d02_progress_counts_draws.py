"""Defect 2: `consumed` advances when an index is drawn, not when it trained."""

from collections.abc import Iterator
from itertools import islice
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
        self.consumed = 0  # the next epoch starts from its beginning

    def __len__(self) -> int:
        return self.num_samples - self.consumed

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "consumed": self.consumed}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epoch = state["epoch"]
        self.consumed = state["consumed"]


# --8<-- [end:copy]
def demonstrate() -> None:
    """200 steps of 16, two workers that fetch ahead, and a resume."""
    data = cast(Dataset, range(20_000))
    sampler = ResumableSampler(data, num_replicas=1, rank=0)
    loader = DataLoader(data, 16, sampler=sampler, num_workers=2)
    trained = [i for batch in islice(loader, 200) for i in batch.tolist()]
    resumed = ResumableSampler(data, num_replicas=1, rank=0)
    resumed.load_state_dict(sampler.state_dict())
    print(f"trained on {len(trained)} samples, recorded {sampler.consumed}")
    skipped = len({*range(20_000)} - {*trained} - {*resumed})
    print(f"resumed to the end of the epoch: {skipped} samples skipped")
