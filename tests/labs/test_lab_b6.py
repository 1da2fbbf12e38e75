"""Lab B6's updates of tiles: those of one device, and of the package's own
pair representation on a mesh."""

import os
from typing import Any

import pytest
import torch
import torch.distributed as dist

from lockstep.bio.pair import Layout
from lockstep.bio.pair_sharding import Tiles
from lockstep.instruments.traffic import Traffic
from lockstep.labs.lab_b6_pair_axes import grader, sound
from tests.ranks import run_ranks, store


def in_group(ranks: int, work: Any, *args: Any) -> Any:
    dist.init_process_group(
        "gloo", store=store(), rank=int(os.environ["RANK"]), world_size=ranks
    )
    found = work(*args)
    dist.barrier()
    dist.destroy_process_group()
    return found


def one_device(name: str) -> None:
    grader.its_update(name, sound)


@pytest.mark.parametrize("name", ["outgoing", "incoming", "attention"])
def test_an_update_of_tiles_is_one_devices(name: str) -> None:
    """On six ranks the update of the pair matrix in tiles is one device's."""
    run_ranks(6, in_group, 6, one_device, name)


def beside_the_package(rows: int, columns: int) -> tuple[float, float]:
    """Bytes of ours and of `Tiles`, for the same tile."""
    layout = grader.mesh(rows, columns)
    theirs: Layout = Tiles(*layout)
    a, b = grader.drawn(1, 12, 12, 3), grader.drawn(2, 12, 12, 3)
    x, y = sound.part(a, layout), sound.part(b, layout)
    with Traffic() as ours_sent:
        ours = sound.outgoing(x, y, layout)
    with Traffic() as theirs_sent:
        other = theirs.multiply(x, y)
    assert torch.allclose(ours, other)
    return ours_sent.sent, theirs_sent.sent


@pytest.mark.parametrize("shape", [(2, 2), (4, 1), (1, 4)])
def test_it_sends_what_the_package_sends(shape: tuple[int, int]) -> None:
    """The lab's solution sends as many bytes as the package's sharded pair
    block."""
    for ours, theirs in run_ranks(4, in_group, 4, beside_the_package, *shape):
        assert ours == theirs > 0


def incoming_turns_nothing() -> list[tuple[str, int]]:
    layout = grader.mesh(2, 2)
    x = sound.part(grader.drawn(1, 12, 12, 3), layout)
    found = []
    for act in (sound.outgoing, sound.incoming):
        with Traffic() as traffic:
            act(x, x, layout)
        found += [(call.op, call.bytes) for call in traffic.calls]
    return found


def test_incoming_sends_as_much_and_no_transpose() -> None:
    """The incoming update sends the same collectives as the outgoing one,
    without transposing the pair matrix."""
    for found in run_ranks(4, in_group, 4, incoming_turns_nothing):
        assert [op for op, _ in found] == 2 * ["all_gather", "reduce_scatter"]
        assert found[:2] == found[2:]


def refused() -> list[str]:
    said = []
    for size in ((12, 13), (13, 12)):
        with pytest.raises(ValueError, match="do not divide 13") as raised:
            sound.part(torch.zeros(*size), grader.mesh(2, 2))
        said.append(str(raised.value))
    return said


def test_what_ranks_do_not_divide_is_refused() -> None:
    for said in run_ranks(4, in_group, 4, refused):
        assert said == 2 * ["2 ranks do not divide 13"]


def weights() -> None:
    grader.adds_up(sound)


def test_gradients_of_weights_add_up_over_a_mesh() -> None:
    """On a mesh of four the gradients of the shared weights add up to one
    device's."""
    run_ranks(4, in_group, 4, weights)


def kept() -> None:
    grader.keeps_little(sound)


def test_a_rank_keeps_what_its_sums_need() -> None:
    """On six ranks each keeps for the backward pass no more than what its sums
    need."""
    run_ranks(6, in_group, 6, kept)
