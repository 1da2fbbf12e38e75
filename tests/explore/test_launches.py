"""The picture of launches beside bytes counted in torch and a closed form."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from lockstep.explore import launches
from lockstep.explore.settings import read


def values(text: str) -> dict[str, Any]:
    """All settings, some of them changed."""
    return read(launches.SETTINGS, text)


class Moved(TorchDispatchMode):
    """Bytes of what operations read and write."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        for one in (*args, made):
            if isinstance(one, Tensor):
                self.bytes += one.nbytes
        return made


@pytest.mark.parametrize("operations", [1, 2, 4, 6, 8])
def test_an_unfused_chain_moves_its_tensor_twice_an_operation(
    operations: int,
) -> None:
    """Bytes that torch's operations read and write in a chain of elementwise
    operations are counted: 2 tensors for each operation, where a fused kernel
    reads one and writes one. The picture says the same."""
    x = torch.ones(250_000)
    with Moved() as seen:
        y = x
        for _ in range(operations):
            y = y.sin()
    given = values(f"operations:{operations},bytes:1000000")
    assert seen.bytes == launches.moved(given, "one by one")
    assert x.nbytes + y.nbytes == launches.moved(given, "fused")


@pytest.mark.parametrize("size", launches.SETTINGS[1].values)
@pytest.mark.parametrize("launch", [2, 5, 10, 20])
def test_a_chain_takes_the_longer_of_launches_and_kernels(
    size: int, launch: int
) -> None:
    """One by one, a chain takes all launches and one kernel, or one launch and
    all kernels, whichever is longer. A CUDA graph always takes the second."""
    given = values(f"operations:8,bytes:{size},launch:{launch}")
    kernel = 2 * size / 3.35e12
    one = launch * 1e-6
    ends = {way: launches.run(given, way)[1][-1][1] for way in launches.WAYS}
    longer = max(8 * one + kernel, one + 8 * kernel)
    assert ends["one by one"] == pytest.approx(longer)
    assert ends["CUDA graph"] == pytest.approx(one + 8 * kernel)
    assert ends["fused"] == pytest.approx(one + kernel)


def test_only_fusion_helps_a_memory_bound_chain() -> None:
    """On tensors of 1 MB a CUDA graph takes a third of the time that the
    chain takes one by one. On tensors of 67 MB it saves nothing, and a fused
    kernel takes less than a fifth."""
    small = {w: launches.run(values(""), w)[1][-1][1] for w in launches.WAYS}
    assert small["CUDA graph"] < small["one by one"] / 3
    given = values("bytes:67108864")
    large = {w: launches.run(given, w)[1][-1][1] for w in launches.WAYS}
    assert large["CUDA graph"] == pytest.approx(large["one by one"])
    assert large["fused"] < large["one by one"] / 5
    assert launches.idle(given, "one by one") < 0.03
