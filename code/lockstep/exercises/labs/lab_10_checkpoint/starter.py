"""Lab 10: checkpoint and resume.

Part one is a loader on one process, part two a sampler for many. Part three
keeps state: a checkpoint is a directory below `root`,

    step-00000012/            its step, with eight digits
        manifest.json         {"step": 12, "files": {"model.pt":
                                {"bytes": 880, "sha256": "9f86…"}, …}}
        model.pt              a file for each part, by torch.save

and nothing else there is one, whatever it is called. A process may be killed
between any two lines. Ranks share `root`, and are in a group already.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


class Loader:
    """Batches of a shuffled dataset. Each `for` over it goes to the end of the
    epoch that it is in; the next `for` begins the next one.

    Args:
        dataset: has `len(dataset)` and `dataset[i]`, a sample.
        batch_size: samples of a batch; an epoch's last batch may be shorter.
        seed: decides the order, with the epoch's number. Every epoch has each
            sample once, in another order. Global generators stay as they are.
        prefetch: batches that are fetched before they are asked for.
    """

    def __init__(
        self, dataset: Any, batch_size: int, seed: int, prefetch: int = 0
    ) -> None:
        raise NotImplementedError

    def __iter__(self) -> Iterator[list[Any]]:
        """Lists of samples. A `for` that is left early loses no sample: the
        next one goes on after the batch that the consumer got last."""
        raise NotImplementedError  # TODO: what was got counts, nothing else

    def state_dict(self) -> dict[str, Any]:
        """Plain data, fit for JSON. It may be asked for between two batches;
        after an epoch's last batch it is the next epoch's beginning."""
        raise NotImplementedError

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with exactly the samples that would have come next, also with
        another `batch_size` or `prefetch`.

        Raises:
            ValueError: the state was saved with another seed, or with a
                dataset of another length: there is no such next sample.
        """
        raise NotImplementedError


def share(
    n: int, seed: int, position: int, count: int, rank: int, world: int
) -> list[int]:
    """Which samples this rank trains on, in a step that begins at `position`.

    There is one endless order of samples: epoch after epoch, each another
    permutation of range(n). It follows from `n` and `seed` alone.

    Args:
        position: how many samples of the order are done, in all epochs.
        count: samples of the step, of all ranks together; it may be more than
            what is left of an epoch.

    Returns:
        Sample ids. The ranks' lists hold those `count` samples, each in one
        list, for any `world`; their lengths differ by at most one.
    """
    raise NotImplementedError  # TODO: the order first, then the ranks


def publish(root: Path, step: int, parts: dict[str, Any]) -> None:
    """Save `parts` as the checkpoint of `step`. All ranks call it.

    When it returns, on any rank, the checkpoint is whole, and outlives a power
    cut. Where a rank cannot write, all ranks raise, and there is no checkpoint
    of that step. A damaged one of the same step is replaced.

    Args:
        root: may not be there yet.
        parts: this rank's, by name: tensors and plain data. No two ranks have
            a name in common, and a rank may have none.
    """
    raise NotImplementedError  # TODO: no moment at which half of it has a name


def newest(root: Path, say: Callable[[str], None] = print) -> Path | None:
    """The newest checkpoint that is whole, or None. All ranks call it.

    Whole: its manifest is of this step, and its files have the sizes and the
    SHA-256 that the manifest says, as every rank sees them. Ranks may see
    different ones for a while, and get the same answer nonetheless.

    Args:
        root: may not be there yet. A file `latest` in it may tell the truth.
        say: called on rank 0 with a line for each `step-…` that is newer and
            passed over: its name, and what is wrong with it.
    """
    raise NotImplementedError  # TODO: nothing is believed, everything is read


def load(folder: Path, name: str) -> Any:
    """A part of a checkpoint, as it was saved; nothing in the file is run."""
    raise NotImplementedError


def prune(root: Path, keep: int) -> None:
    """Remove checkpoints that are older than the newest `keep` whole ones, and
    nothing else. One rank calls it, after `publish`."""
    raise NotImplementedError  # TODO: a damaged one is nothing to fall back on
