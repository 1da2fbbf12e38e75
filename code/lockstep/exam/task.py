"""What the exam brings for a trainer to train: samples and a small model.

Both are seen by the exam without a word from the trainer. Only torch is
imported here, for the reason that `observe` has.
"""

import os

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import Dataset

from .env_vars import SAMPLES, VARIANT
from .observe import observe

FEATURES, CLASSES, HIDDEN = 32, 4, 1024
GAIN = 32  # makes gradients that overflow in fp16 at a scaler's first scale


# --8<-- [start:samples]
class Samples(Dataset[dict[str, Tensor]]):
    """`{"x": (33,), "labels": ()}`: the sample's number, then 32 features.
    Labels are a linear teacher's, so that a model can learn them."""

    def __init__(self) -> None:
        n = int(os.environ.get(SAMPLES, "96"))
        rng = torch.Generator().manual_seed(int(os.environ.get(VARIANT, "0")))
        x = torch.randn(n, FEATURES, generator=rng)
        teacher = torch.randn(FEATURES, CLASSES, generator=rng)
        self.labels = (x @ teacher).argmax(1)
        self.x = torch.cat([torch.arange(n)[:, None], x], 1)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"x": self.x[index], "labels": self.labels[index]}


# --8<-- [end:samples]
# --8<-- [start:model]
class Model(nn.Module):
    """(m, 33) to logits (m, 4), or with labels to `{"loss", "logits"}`.

    Dropout makes the random state count, and `forwards` is a buffer that
    training changes.
    """

    forwards: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(FEATURES, 64)
        self.dropout = nn.Dropout(0.1)
        self.second = nn.Linear(64, HIDDEN)
        self.last = nn.Linear(HIDDEN, CLASSES)
        with torch.no_grad():
            self.last.weight /= GAIN
        self.register_buffer("forwards", torch.zeros((), dtype=torch.int64))
        observe(self, ids=numbers)

    def forward(
        self, x: Tensor, labels: Tensor | None = None
    ) -> Tensor | dict[str, Tensor]:
        if self.training:
            self.forwards += 1
        h = self.dropout(self.first(x[:, 1:]).relu())
        logits = self.last(GAIN * self.second(h).relu())
        if labels is None:
            return logits
        return {"loss": cross_entropy(logits, labels), "logits": logits}


# --8<-- [end:model]
def numbers(x: Tensor, *_: object, **__: object) -> list[int]:
    """Of the samples in a batch."""
    return [round(i) for i in x[:, 0].float().tolist()]
