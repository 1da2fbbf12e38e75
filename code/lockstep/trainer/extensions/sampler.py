"""The same order as a drop-in for torch's DistributedSampler."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from torch.utils.data import DistributedSampler

from ..order import BLOCK, GlobalOrder


class ResumeAwareDistributedSampler(DistributedSampler[int]):
    """This rank's remaining share of an epoch; a drop-in for its base class.

    Nothing is padded: shares differ by at most one sample, or `drop_last` cuts
    them to equal length. Progress is what `commit` was told of finished steps,
    so loader workers that draw ahead cannot move it."""

    consumed = 0  # samples of this epoch trained on, over all ranks

    def share(self) -> range:
        """Yield this rank's remaining samples as indices into its order."""
        end = n = len(self.dataset)  # type: ignore[arg-type]
        if self.drop_last:
            end -= (n - self.consumed) % self.num_replicas
        return range(self.consumed + self.rank, end, self.num_replicas)

    def __len__(self) -> int:
        return len(self.share())

    def __iter__(self) -> Iterator[int]:
        order = GlobalOrder(self.state_dict()["length"], self.seed)
        share = self.share()
        for start in range(0, len(share), BLOCK):
            index = np.array(share[start : start + BLOCK])
            yield from (
                order.permute(index, self.epoch).tolist()
                if self.shuffle
                else index.tolist()
            )

    def commit(self, global_samples: int) -> None:
        """All ranks together have trained on `global_samples` more."""
        left = self.state_dict()["length"] - self.consumed
        if not 0 <= global_samples <= left:
            raise ValueError(f"{global_samples} committed, {left} were left")
        self.consumed += global_samples

    def set_epoch(self, epoch: int) -> None:
        """Another epoch begins at its first sample; the same one goes on."""
        if epoch != self.epoch:
            self.epoch, self.consumed = epoch, 0

    def state_dict(self) -> dict[str, Any]:
        """Progress, and what the order depends on."""
        names = "epoch", "consumed", "seed", "shuffle"
        mine = {name: getattr(self, name) for name in names}
        return mine | {"length": len(self.dataset)}  # type: ignore[arg-type]

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`; ValueError if it is of another order."""
        for name, mine in self.state_dict().items():
            if name not in ("epoch", "consumed") and mine != state[name]:
                raise ValueError(f"{name} is {mine}, and was {state[name]}")
        self.epoch, self.consumed = state["epoch"], state["consumed"]
