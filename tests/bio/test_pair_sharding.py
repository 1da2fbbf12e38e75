"""A pair representation that ranks share: the same as on one device, and what
is sent and kept."""

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh

from lockstep.bio import pair_sharding as ours
from lockstep.bio.pair import PairBlock, attend, in_chunks, planned
from lockstep.trainer.process import joined
from tests import ranks

N, C = 12, 8
SPLITS = [(2, 1), (4, 1), (2, 2), (1, 2)]
BLOCKS = 2


def made(dtype: torch.dtype, chunked: bool = False) -> torch.nn.ModuleList:
    torch.manual_seed(0)
    way = {"attend": in_chunks} if chunked else {}
    blocks = [PairBlock(C, 2, 4, **way) for _ in range(BLOCKS)]
    return torch.nn.ModuleList(blocks).to(dtype)


def drawn(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """z, and the gradient of what the blocks make of it."""
    generator = torch.Generator().manual_seed(5)
    both = torch.randn(2, N, N, C, generator=generator, dtype=torch.float64)
    return both[0].to(dtype), both[1].to(dtype)


def passes(
    blocks: torch.nn.ModuleList, z: Tensor, grad: Tensor, layout: Any
) -> list[Tensor]:
    """What they make of z, and its gradient."""
    z = z.clone().requires_grad_()
    out = z
    for block in blocks:
        out = block(out, layout)
    out.backward(grad)
    assert z.grad is not None
    return [out.detach(), z.grad]


def laid_out(rows: int, columns: int) -> Any:
    if columns == 1:
        return ours.Rows()
    return ours.tiles(init_device_mesh("cpu", (rows, columns)))


def off(found: Tensor, right: Tensor) -> float:
    return float((found - right).abs().max() / right.abs().max())


def beside_one_device(
    rows: int, columns: int, dtype: torch.dtype, chunked: bool
) -> tuple[float, float, list[float]]:
    """Of what blocks make and of z's gradient; of the weights' gradients,
    summed; and those averaged, over what they should be."""
    whole, grad = drawn(torch.float64)
    alone = made(torch.float64)
    alone.load_state_dict(made(dtype).state_dict())
    expected = passes(alone, whole, grad, ours.Layout())
    layout = laid_out(rows, columns)
    blocks = made(dtype, chunked)
    mine = [layout.part(x).to(dtype) for x in (whole, grad)]
    found = passes(blocks, *mine, layout)
    tensors = [
        off(one, layout.part(right))
        for one, right in zip(found, expected, strict=True)
    ]
    ours.sum_gradients(blocks)
    weights, averaged = [], []
    both = zip(blocks.parameters(), alone.parameters(), strict=True)
    for one, right in both:
        assert one.grad is not None
        assert right.grad is not None
        weights.append(off(one.grad, right.grad))
        mean = one.grad / dist.get_world_size()
        averaged.append(float(mean.norm() / right.grad.norm()))
    return max(tensors), max(weights), averaged


MOST = {torch.float64: 1e-12, torch.float32: 1e-5}
WAYS = {"scores": attend, "chunks": in_chunks}


def all_of(rows: int, columns: int) -> dict[str, Any]:
    with joined(60, ranks.store()):
        found: dict[str, Any] = {
            str(dtype): beside_one_device(
                rows, columns, dtype, dtype == torch.float32
            )
            for dtype in MOST
        }
        for name, way in WAYS.items():
            found[name] = tuple(ours.measured(rows, columns, 32, way))
        try:
            laid_out(rows, columns).part(torch.zeros(7, 7, 1))
        except ValueError as error:
            found["refused"] = str(error)
        return found


@pytest.fixture(scope="module", params=SPLITS, ids=str)
def split(request: pytest.FixtureRequest) -> Any:
    """Rows and columns, and what each rank found."""
    rows, columns = request.param
    return rows, columns, ranks.run_ranks(rows * columns, all_of, rows, columns)


def test_one_device_has_the_same(split: Any) -> None:
    """The sharded pair block has one device's outputs and gradients. Averaged
    by DDP, the gradients would be too small by the number of ranks."""
    rows, columns, found = split
    for rank in found:
        for dtype, most in MOST.items():
            tensors, weights, averaged = rank[str(dtype)]
            assert tensors < most
            assert weights < most
            # As DDP would have it: too small by the number of ranks.
            share = [1 / (rows * columns)] * len(averaged)
            assert averaged == pytest.approx(share, rel=1e-4)


@pytest.mark.parametrize("way", WAYS)
def test_a_rank_sends_and_keeps_what_is_planned(split: Any, way: str) -> None:
    """For each way to attend, a rank of the sharded pair block sends and keeps
    the bytes that the planner says, to the byte."""
    rows, columns, found = split
    asked = {"rows": rows, "columns": columns, "bytes_activation": 4}
    plan = planned(32, attention=way, **asked)
    norms = 7 * 2 * 4 * 32 * 32 / (rows * columns)  # means and deviations
    # What is computed again in backward gathers nothing again.
    for rank in found:
        sent, kept = rank[way]
        assert sent == plan["sent_bytes"].value
        assert kept == plan["block_bytes"].value + norms


def test_what_ranks_do_not_divide_is_refused(split: Any) -> None:
    rows, columns, found = split
    ranks_of_an_axis = rows if rows > 1 else columns
    for rank in found:
        said = f"{ranks_of_an_axis} ranks do not divide 7 residues"
        assert rank["refused"] == said


LARGE = (8, 8), (64, 1)


def test_two_axes_send_and_keep_less_once_ranks_are_many() -> None:
    """As long as there are four, they are equal but for what is sent."""
    found = {}
    for one in ((4, 1), (2, 2), *LARGE):
        asked = {"rows": one[0], "columns": one[1], "attention": "chunks"}
        plan = planned(2048, **asked)
        keys = "sent_bytes", "block_bytes"
        found[one] = [plan[key].value for key in keys]
    assert found[2, 2][1] == found[4, 1][1]
    assert found[2, 2][0] < found[4, 1][0]
    tiles, rows = (found[one] for one in LARGE)
    sent, kept = (one / other for one, other in zip(rows, tiles, strict=True))
    assert sent > 2
    assert kept > 1.9


def test_the_table_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ours, "SPLITS", ((1, 1), (2, 1)))
    ours.main()
    *_, row = capsys.readouterr().out.splitlines()
    sent, planned_sent, kept, planned_kept = map(float, row[16:].split())
    assert sent == planned_sent > 0
    assert kept == pytest.approx(planned_kept, rel=0.01)
