"""The memory that a rank holds in tensors, from what its operators make."""

import weakref
from collections.abc import Iterator
from time import monotonic, sleep
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from .traffic import Traffic


class Memory(Traffic):
    """Traffic that also knows the bytes of all tensors that were made within
    it, and live."""

    def __init__(self) -> None:
        super().__init__()
        self.storages: dict[int, weakref.ref[Any]] = {}
        self.peak = 0  # bytes, the most that lived at a time

    @property
    def live(self) -> int:
        """Bytes now."""
        found = [one() for one in self.storages.values()]
        return sum(one.nbytes() for one in found if one is not None)

    def settled(self, most: int, seconds: float = 1) -> int:
        """Bytes as soon as there are at most `most`, or when time is up: gloo's
        threads let go of what they have sent a little after it arrived."""
        until = monotonic() + seconds
        while self.live > most and monotonic() < until:
            sleep(0.01)
        return self.live

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Let it happen, and look."""
        result = super().__torch_dispatch__(func, types, args, kwargs)
        for leaf in tree_leaves(result):
            for one in held(leaf):
                storage = one.untyped_storage()
                self.storages[storage._cdata] = weakref.ref(storage)
        self.peak = max(self.peak, self.live)
        return result


def held(leaf: Any) -> Iterator[Tensor]:
    """Yield the tensors that own memory: of a DTensor, this rank's part."""
    if is_traceable_wrapper_subclass(leaf):
        for name in leaf.__tensor_flatten__()[0]:
            yield from held(getattr(leaf, name))
    elif isinstance(leaf, Tensor):
        yield leaf
