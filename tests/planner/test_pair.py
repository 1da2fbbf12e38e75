"""The planner's folding trunks against modules: parameters, and what autograd
keeps of a block."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lockstep.bio import pair
from lockstep.bio.pair_sharding import saved
from lockstep.planner.pair import TRUNK, TRUNKS, trunk
from lockstep.planner.pair import pair as plan
from tests.planner.folding import Evoformer, Pairformer

KINDS: dict[str, type[nn.Module]] = {
    "alphafold2": Evoformer,
    "alphafold3": Pairformer,
}
ASKED: dict[str, Any] = {"attention": "scores", "recompute": "none"}
ASKED |= {"rows": 1, "columns": 1, "bytes_activation": 4}
SMALL: dict[str, Any] = {"channels": 16, "heads": 2, "head_dim": 12}
SMALL |= {"msa_channels": 24, "msa_heads": 3, "outer_channels": 5}
SMALL |= {"single_heads": 4, "residues": 20, "blocks": 1}


def numbers(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("name", TRUNKS)
@pytest.mark.parametrize("shape", [{}, SMALL])
def test_parameters_are_those_of_blocks_of_that_shape(
    name: str, shape: dict[str, Any]
) -> None:
    s = TRUNK | trunk(name) | {"residues": 1} | shape
    with torch.device("meta"):
        block = KINDS[name](s)
    assert plan(ASKED | s)["parameters"].value == s["blocks"] * numbers(block)


def statistics(module: nn.Module, rows: dict[int, int]) -> int:
    """Bytes of means and deviations, which the formulas leave out; `rows` has
    the norms' rows by their width."""
    norms = [m for m in module.modules() if isinstance(m, nn.LayerNorm)]
    return sum(2 * 4 * rows[m.normalized_shape[0]] for m in norms)


WAYS = {"scores": pair.attend, "chunks": pair.in_chunks}
WAYS["fused"] = pair.sdpa_detached


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("gated", [0, 1])
def test_a_pair_block_keeps_what_is_planned(way: str, gated: int) -> None:
    """A pair block's autograd keeps what the planner says, to the byte, except
    for the norms' statistics."""
    s = TRUNK | SMALL | {"gated_transition": gated, "attention": way}
    torch.manual_seed(0)
    shape = s["channels"], s["heads"], s["head_dim"], True, bool(gated)
    block = pair.PairBlock(*shape, WAYS[way])
    z = torch.randn(20, 20, 16, requires_grad=True)
    found = saved(block, lambda: block(z * 1))
    planned = plan(ASKED | s)["block_bytes"].value
    assert found == planned + statistics(block, {16: 400})


@pytest.mark.parametrize("way", WAYS)
def test_an_evoformer_keeps_what_is_planned(way: str) -> None:
    s = TRUNK | SMALL | {"sequences": 7, "attention": way}
    torch.manual_seed(0)
    block = Evoformer(s, WAYS[way])
    m = torch.randn(7, 20, 24, requires_grad=True)
    z = torch.randn(20, 20, 16, requires_grad=True)
    found = saved(block, lambda: sum_of(block(m * 1, z * 1)))
    planned = plan(ASKED | s)["block_bytes"].value
    # Without pairs an attention by column has one zero for a bias.
    spare = {"scores": 0, "chunks": 4, "fused": 4}[way]
    assert found == planned + statistics(block, {16: 400, 24: 140}) + spare


def sum_of(both: tuple[Tensor, Tensor]) -> Tensor:
    return both[0].sum() + both[1].sum()


@pytest.mark.parametrize("way", ["scores", "chunks"])
def test_another_pairformer_keeps_what_is_planned(way: str) -> None:
    """What the second block adds: its own z is the first one's."""
    s = TRUNK | SMALL | {"single_channels": 12, "attention": way}
    s |= {"gated_transition": 1}
    torch.manual_seed(0)
    first, second = (Pairformer(s, WAYS[way]) for _ in range(2))
    x = torch.randn(20, 12, requires_grad=True)
    z = torch.randn(20, 20, 16, requires_grad=True)
    both = nn.ModuleList([first, second])
    one = saved(both, lambda: sum_of(first(x * 1, z * 1)))
    two = saved(both, lambda: sum_of(second(*first(x * 1, z * 1))))
    planned = plan(ASKED | s)["block_bytes"].value
    assert two - one == planned + statistics(second, {16: 400, 12: 20})


def test_recomputed_blocks_keep_their_inputs_and_one_block() -> None:
    s = ASKED | {"residues": 64, "blocks": 48}
    kept, full = (plan(s | {"recompute": how}) for how in ("none", "full"))
    one = kept["block_bytes"].value
    assert kept["total_bytes"].value == 48 * one
    assert full["total_bytes"].value == 48 * kept["pair_bytes"].value + one
