"""A small GPT on the bytes of a text that is mapped into memory.

    python -m lockstep.examples.gpt tokens.bin [FILE …]
    LOCKSTEP_TOKENS=tokens.bin python -m lockstep.trainer \\
        --task lockstep.examples.gpt:task --run-dir runs/gpt

Without files the text is this package's own Python sources.

Where the tokens lie is told by an environment variable, since it may differ at
each launch, and so must be no part of the run's identity. Which tokens they are
is part of it, by their fingerprint. Sizes are arguments of the factory: for
other ones write a factory of your own, whose name then is part of the identity.
"""

# --8<-- [start:imports]
import hashlib
import os
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from lockstep.trainer.config import ConfigError, TrainConfig
from lockstep.trainer.data import Batch
from lockstep.trainer.model import Task

# --8<-- [end:imports]

PACKAGE = Path(__file__).parents[1]
TOKENS = "LOCKSTEP_TOKENS"  # of the environment: a file that `prepare` wrote
VOCAB = 256  # a token is a byte
HOW = (
    f"{TOKENS} has to name a file of tokens, which python -m {__name__} writes"
)


# --8<-- [start:prepare]
def prepare(target: Path, files: list[Path]) -> int:
    """Write the bytes of all files, a 0 after each; how many there are."""
    text = b"".join(file.read_bytes() + b"\0" for file in files)
    target.write_bytes(text)
    return len(text)


# --8<-- [end:prepare]
# --8<-- [start:windows]
class Windows:
    """Samples `first` to `first + n` of a file of tokens; each is `length`
    tokens, and as a target the token that follows each of them."""

    def __init__(self, path: Path, length: int, first: int, n: int) -> None:
        self.path, self.length, self.first, self.n = path, length, first, n
        with path.open("rb") as file:
            tokens = hashlib.file_digest(file, "sha256").hexdigest()
        which = f"{tokens} {length} {first} {n}"
        self.fingerprint = hashlib.sha256(which.encode()).hexdigest()

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: np.ndarray) -> Batch:
        _, ids = index  # every epoch is the same: nothing is random
        # Map the file each time: a map that is kept would be copied whole to
        # each worker.
        tokens = np.memmap(self.path, np.uint8, "r")
        starts = (self.first + ids) * self.length
        rows = tokens[starts[:, None] + np.arange(self.length + 1)]
        x = torch.from_numpy(rows)
        return torch.from_numpy(ids), x[:, :-1], x[:, 1:].long()


# --8<-- [end:windows]
# --8<-- [start:model]
class Embed(nn.Module):
    """What a token is, and where it stands."""

    def __init__(self, hidden: int, length: int, dropout: float) -> None:
        super().__init__()
        self.what = nn.Embedding(VOCAB, hidden)
        self.where = nn.Embedding(length, hidden)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Embed uint8 [samples, positions] as [samples, positions, hidden]."""
        places = torch.arange(x.shape[1], device=x.device)
        return self.dropout(self.what(x.long()) + self.where(places))


class Block(nn.Module):
    """Attention to what came before, then an MLP, each behind a norm."""

    def __init__(self, hidden: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)
        self.mlp = nn.Sequential(
            nn.Linear(hidden, 4 * hidden),
            nn.GELU(),
            nn.Linear(4 * hidden, hidden),
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Return [samples, positions, hidden], the shape of `x`."""
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(self.before(x)).chunk(3, -1)
        )
        seen = scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.out(seen.transpose(1, 2).flatten(2)))
        return x + self.dropout(self.mlp(self.between(x)))


# --8<-- [end:model]
# --8<-- [start:task]
def nats(logits: Tensor, y: Tensor) -> Tensor:
    """Return the loss per byte of each window, summed over the windows.

    Args:
        logits: [windows, positions, VOCAB].
        y: int64 [windows, positions].
    """
    each = cross_entropy(logits.mT, y, reduction="none")
    return each.mean(1).sum()


def bits(logits: Tensor, y: Tensor) -> Tensor:
    """Return `nats` in bits, the unit in which compressors are compared."""
    return nats(logits, y) / np.log(2)


def task(
    cfg: TrainConfig, layers: int = 2, heads: int = 4, length: int = 128
) -> Task:
    """Make the task: a model, and windows of which the last tenth is held out.

    Raises:
        ConfigError: LOCKSTEP_TOKENS does not name a file of tokens.
    """
    path = Path(os.environ.get(TOKENS, ""))
    if not path.is_file():
        raise ConfigError(HOW)
    n = (path.stat().st_size - 1) // length
    cut = n - n // 10
    hidden = cfg.hidden_size
    model = nn.Sequential(
        Embed(hidden, length, cfg.dropout),
        *(Block(hidden, heads, cfg.dropout) for _ in range(layers)),
        nn.LayerNorm(hidden),
        nn.Linear(hidden, VOCAB),
    )
    return Task(
        model,
        data=Windows(path, length, 0, cut),
        held_out=Windows(path, length, cut, n - cut),
        loss=nats,
        metrics={"bits_per_byte": bits},
    )


# --8<-- [end:task]
def main(args: list[str]) -> int:
    """`TARGET [FILE …]`; the exit code."""
    if not args:
        print(
            "error: name the file to write, then those to read", file=sys.stderr
        )
        return 2
    target, *given = map(Path, args)
    sources = sorted(PACKAGE.rglob("*.py"))
    print(f"{target}: {prepare(target, given or sources):,} tokens")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
