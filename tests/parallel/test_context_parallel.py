"""Our attention over a split sequence beside torch's: the same results, and
what it sends and computes."""

from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._context_parallel import (
    _attention as torchs,
)
from torch.utils.flop_counter import FlopCounterMode

from lockstep.experiments.demos import bytes_on_wire
from lockstep.parallel import context_parallel as ours
from lockstep.planner.communication import communication
from lockstep.trainer.process import joined
from tests import ranks
from tests.conftest import daily

BOTH = {"ring": ours.ring_attention, "ulysses": ours.ulysses_attention}
ATEN = torch.ops.aten
FLASH = ATEN._scaled_dot_product_flash_attention_for_cpu
FLASH_BACKWARD = ATEN._scaled_dot_product_flash_attention_for_cpu_backward
# Frames around each message.
SLACK: dict[str, Any] = {"rel": 2e-3, "abs": 4096}


def drawn(length: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """q, k, v and the output's gradient."""
    generator = torch.Generator().manual_seed(7)
    size = 2, 4, length, 8
    whole = [torch.randn(size, generator=generator) for _ in range(4)]
    return [x.to(dtype) for x in whole]


def both_passes(act: Any, tensors: list[Tensor], *args: Any) -> list[Tensor]:
    """The output, and the gradients of q, k and v."""
    *qkv, grad = tensors
    leaves = [x.clone().requires_grad_() for x in qkv]
    out = act(*leaves, *args)
    return [out.detach(), *torch.autograd.grad(out, leaves, grad)]


def farthest(found: list[Tensor], expected: list[Tensor]) -> list[float]:
    pairs = zip(found, expected, strict=True)
    return [float((one - other).abs().max()) for one, other in pairs]


def orders(length: int, rank: int, world: int) -> list[Tensor]:
    whole = torch.arange(length)
    zigzag = ours.zigzag_positions(length, rank, world)
    return [whole.chunk(world)[rank], zigzag, whole[rank::world]]


def beside_one_process(name: str, dtype: torch.dtype) -> list[float]:
    """In every order, causal and not."""
    found = []
    with joined(30, ranks.store()) as me:
        whole = drawn(32, dtype)
        for causal in (False, True):
            alone = both_passes(
                F.scaled_dot_product_attention,
                [x.double() for x in whole],
                None,
                0.0,
                causal,
            )
            for positions in orders(32, me.rank, me.world_size):
                mine = [x[:, :, positions] for x in whole]
                got = both_passes(BOTH[name], mine, positions, None, causal)
                assert {one.dtype for one in got} == {dtype}
                right = [x[:, :, positions] for x in alone]
                found += farthest(got, right)
    return found


EXACT = (1, torch.float64, 1e-14), (4, torch.float64, 1e-14)


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize(
    ("world", "dtype", "most"),
    daily(
        [*EXACT, (4, torch.bfloat16, 5e-2)],
        *EXACT,
    ),
)
def test_one_process_has_the_same(
    name: str, world: int, dtype: torch.dtype, most: float
) -> None:
    """Ring attention and Ulysses have one process's outputs and gradients, in
    contiguous, zig-zag and striped order, causal and not."""
    for found in ranks.run_ranks(world, beside_one_process, name, dtype):
        assert max(found) < most


class Torchs(torch.autograd.Function):
    """torch's own ring, in zig-zag order, with the CPU's kernel."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out, sums = torchs._templated_ring_attention(
            dist.group.WORLD, 2, FLASH, q, k, v, is_causal=True
        )
        ctx.save_for_backward(q, k, v, out, sums)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return torchs._templated_ring_attention_backward(
            dist.group.WORLD,
            2,
            FLASH_BACKWARD,
            grad,
            "grad_out",
            *ctx.saved_tensors,
            is_causal=True,
            dropout_p=0.0,
        )


def beside_torchs_ring() -> list[float]:
    with joined(30, ranks.store()) as me:
        positions = ours.zigzag_positions(32, me.rank, me.world_size)
        mine = [x[:, :, positions] for x in drawn(32)]
        found = both_passes(ours.ring_attention, mine, positions)
        return farthest(found, both_passes(Torchs.apply, mine))


def test_torchs_ring_has_the_same() -> None:
    """Our ring attention has the outputs and gradients of torch's own ring."""
    for found in ranks.run_ranks(4, beside_torchs_ring):
        assert max(found) < 1e-5


def torchs_context() -> str:
    with joined(30, ranks.store()) as me:
        mesh = init_device_mesh("cpu", (me.world_size,))
        q, k, v, _ = drawn(32)
        try:
            with context_parallel(
                mesh, buffers=[q, k, v], buffer_seq_dims=[2, 2, 2]
            ):
                F.scaled_dot_product_attention(q, k, v, is_causal=True)
        except NotImplementedError as error:
            return str(error)
    return ""


def test_torchs_context_parallel_has_no_attention_on_a_cpu() -> None:
    """PyTorch 2.13's `context_parallel` refuses the attention kernels that a
    CPU has."""
    for said in ranks.run_ranks(2, torchs_context):
        assert "does not have a sharding strategy registered" in said


LENGTH = 1024


def sent(name: str, dtype: torch.dtype) -> int:
    """Bytes that this rank sends in both passes, by the kernel's count."""
    with joined(60, ranks.store()) as me:
        positions = ours.zigzag_positions(LENGTH, me.rank, me.world_size)
        mine = [x[:, :, positions] for x in drawn(LENGTH, dtype)]
        both_passes(BOTH[name], mine, positions)  # connects
        return bytes_on_wire.sent(
            lambda: both_passes(BOTH[name], mine, positions)
        )


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize(
    "dtype", daily([torch.float32, torch.bfloat16], torch.bfloat16)
)
def test_each_sends_what_is_planned(name: str, dtype: torch.dtype) -> None:
    """Ring attention and Ulysses send the bytes that the planner says, by the
    kernel's count."""
    asked: dict[str, Any] = {"cp": 4, "context": name, "sequence": LENGTH}
    asked |= {"micro_batch": 2, "bytes_activation": dtype.itemsize}
    asked |= {"layers": 1, "dense_layers": 0, "experts": 0, "params": 0}
    asked |= {"hidden": 32, "heads": 4, "kv_heads": 4, "head_dim": 8}
    asked["experts_per_token"] = 0
    planned = float(communication(asked)["context_bytes"])
    places = 3 * 8 * LENGTH // 4  # of tokens, to three others
    for found in ranks.run_ranks(4, sent, name, dtype):
        assert found == pytest.approx(planned + places, **SLACK)


def work() -> list[int]:
    """Scores of a head that this rank computes, contiguous and zig-zag."""
    found = []
    with joined(30, ranks.store()) as me:
        for positions in orders(64, me.rank, me.world_size)[:2]:
            q, k, v, _ = (x[:, :, positions] for x in drawn(64))
            with FlopCounterMode(display=False) as counter:
                ours.ring_attention(q, k, v, positions)
            found.append(counter.get_total_flops() // (4 * 2 * 4 * 8))
    return found


def test_zigzag_gives_every_rank_the_same_work() -> None:
    """On four ranks with 16 tokens each, contiguous parts make the ranks
    compute 256, 512, 768 and 1,024 scores of a head. In zig-zag order each
    computes 640."""
    contiguous, zigzag = zip(*ranks.run_ranks(4, work), strict=True)
    assert contiguous == (256, 512, 768, 1024)
    assert zigzag == (640,) * 4


def refused() -> list[str]:
    said = []
    with joined(30, ranks.store()) as me:
        q, k, v, _ = drawn(4)
        backwards = torch.arange(4).flip(0) if me.rank else torch.arange(4)
        three = q[:, :3], k[:, :3], v[:, :3]
        for act in (
            lambda: ours.ring_attention(q, k, v, backwards),
            lambda: ours.ulysses_attention(*three, torch.arange(4)),
            lambda: ours.zigzag_positions(10, me.rank, me.world_size),
        ):
            try:
                act()
            except ValueError as error:
                said.append(str(error))
    return said


def test_what_is_refused_is_refused_on_every_rank() -> None:
    for said in ranks.run_ranks(2, refused):
        assert said == [
            "positions do not ascend on every rank",
            "2 ranks do not divide 3 heads",
            "2 * 2 ranks do not divide length 10",
        ]
