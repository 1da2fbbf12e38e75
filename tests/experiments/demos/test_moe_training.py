"""What the chapter on experts says of training, sharding and saving them."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.nn.utils import clip_grad_norm_

from lockstep.experiments.demos.moe_training import (
    EXPERTS,
    Seen,
    chance,
    gradient_norm,
    load,
    meshes,
    save,
    shard,
    study,
)
from lockstep.parallel.expert_parallel import ExpertParallel
from lockstep.trainer.process import joined
from tests import ranks


def grouped(work: Any, *args: Any) -> Any:
    """`work(*args)` in a group of all ranks."""
    with joined(20, ranks.store()):
        return work(*args)


# Balance


@pytest.fixture(scope="module")
def seen() -> dict[str, Seen]:
    """What each method left, after two runs."""
    return ranks.run_ranks(1, grouped, study)[0]  # type: ignore[no-any-return]


def test_without_a_balance_some_experts_die(seen: dict[str, Seen]) -> None:
    """Eight experts learn eight equally frequent mappings, one expert per
    token. Without a balance at least a fifth of the experts of two runs end
    with less than 5 % of an even share, and the hottest has more than twice an
    even share. A weak auxiliary loss changes little. A strong one and a bias
    leave no dead expert, and the loss is a third lower."""
    nothing, weak = seen["nothing"], seen["auxiliary loss, 0.01"]
    assert nothing.dead >= 2 * EXPERTS / 5
    assert nothing.hottest > 2 > 0.75 * weak.hottest
    assert weak.dead > 0
    for name in ("auxiliary loss, 0.1", "bias, 0.01 a step"):
        assert seen[name].dead == 0
        assert seen[name].loss < 2 / 3 * nothing.loss


def test_a_balance_leaves_what_chance_leaves(seen: dict[str, Seen]) -> None:
    """Balanced by the strong loss or by the bias, the hottest of eight experts
    has as much more than its share as it would if the 512 tokens chose at
    random, 1.18. A bias that moves ten times as far in a step leaves more, and
    learns worse."""
    lots = chance()
    assert lots == pytest.approx(1.18, abs=0.01)
    steady, fast = seen["bias, 0.01 a step"], seen["bias, 0.1 a step"]
    for one in (seen["auxiliary loss, 0.1"], steady):
        assert one.hottest == pytest.approx(lots, abs=0.03)
    assert fast.hottest > lots + 0.08
    assert fast.loss > 1.3 * steady.loss


# Beside FSDP2

WIDTH, MANY = 8, 4


def parts() -> tuple[nn.Linear, list[nn.Module]]:
    """A router and all experts, alike on every rank."""
    torch.manual_seed(0)
    experts: list[nn.Module] = [
        nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(MANY)
    ]
    return nn.Linear(WIDTH, MANY, bias=False), experts


def tokens(rank: int) -> Tensor:
    """Of a rank, (tokens, width)."""
    chance = torch.Generator().manual_seed(rank)
    return torch.randn(16, WIDTH, generator=chance)


def backward(layer: nn.Module, x: Tensor) -> None:
    """The gradients of a mean over tokens and their numbers."""
    layer(x)[0].square().mean().backward()


def sharded(ep: int, divided: bool) -> tuple[ExpertParallel, DeviceMesh]:
    """The layer on all ranks, with gradients; without `divided`, FSDP2's own
    division is left."""
    experts, every = meshes(ep)
    layer = ExpertParallel(*parts(), 2, 1000, experts["ep"].get_group())
    shard(layer, experts["copies"], every)
    if not divided:
        for expert in layer.experts.values():
            unit: Any = expert
            unit.set_gradient_divide_factor(experts["copies"].size())
    backward(layer, tokens(dist.get_rank()))
    return layer, experts


def ratios(ep: int, divided: bool) -> tuple[float, list[float]]:
    """Gradients over those of one process that has all experts and tokens: of
    the router, and of this rank's experts."""
    layer, _ = sharded(ep, divided)
    router, every = parts()
    # A group of one rank, alike on all: its all-to-alls go nowhere.
    alone = [dist.new_group([r]) for r in range(dist.get_world_size())]
    whole = ExpertParallel(router, every, 2, 1000, alone[dist.get_rank()])
    backward(whole, torch.cat([tokens(r) for r in range(len(alone))]))

    def over(sharded: Any, right: Any) -> float:
        found = sharded.grad.full_tensor()
        by = float(found.norm() / right.grad.norm())
        assert torch.allclose(found, by * right.grad, atol=1e-6)
        return by

    own = [
        over(expert.weight, every[int(number)].weight)
        for number, expert in layer.experts.items()
    ]
    return over(layer.router.weight, router.weight), own


def test_experts_gradients_are_divided_by_all_ranks() -> None:
    """Four ranks, two to a set of experts, two copies of each. Divided by four
    the experts' gradients are those of one process with all tokens, and so are
    the router's. Divided by the two copies, as FSDP2 does on the mesh that it
    is given, they are twice too large: by as much as ranks share the
    experts."""
    for router, experts in ranks.run_ranks(4, grouped, ratios, 2, True):
        assert router == pytest.approx(1, rel=1e-4)
        assert experts == pytest.approx([1, 1], rel=1e-4)
    for router, experts in ranks.run_ranks(4, grouped, ratios, 2, False):
        assert router == pytest.approx(1, rel=1e-4)
        assert experts == pytest.approx([2, 2], rel=1e-4)


def norms() -> tuple[str, float, float]:
    """What torch's clipping makes of two meshes, the norm of the shards that
    this rank's experts' mesh knows of, and the norm over all ranks."""
    layer, _ = sharded(2, True)
    refused = ""
    try:
        clip_grad_norm_(layer.parameters(), 1)
    except RuntimeError as error:
        refused = str(error)
    own: Any = clip_grad_norm_(layer.experts.parameters(), 1e9)
    return refused, float(own.full_tensor()), float(gradient_norm(layer))


def test_clipping_needs_the_norm_over_both_meshes() -> None:
    """`clip_grad_norm_` refuses parameters on two meshes. Of the experts alone
    it returns another norm on ranks with other experts. The squares of all
    local shards, summed over all ranks, make the norm of one process's
    gradient."""
    router, every = parts()

    def whole() -> float:
        logits = router(x)
        weights, chosen = logits.softmax(1).topk(2)
        weights = weights / weights.sum(1, keepdim=True)
        made = torch.stack([expert(x) for expert in every], 1)
        index = chosen.unsqueeze(2).expand(-1, -1, WIDTH)
        output = (weights.unsqueeze(2) * made.gather(1, index)).sum(1)
        output.square().mean().backward()
        return float(
            clip_grad_norm_(nn.ModuleList([router, *every]).parameters(), 1e9)
        )

    x = torch.cat([tokens(rank) for rank in range(4)])
    right = whole()
    found = ranks.run_ranks(4, grouped, norms)
    for refused, _, norm in found:
        assert "same mesh" in refused
        assert norm == pytest.approx(right, rel=1e-4)
    experts = [own for _, own, _ in found]
    assert experts[0] == experts[2] != experts[1] == experts[3]


def test_adam_hides_a_factor_and_clipping_does_not() -> None:
    """Adam steps as far for a gradient eight times as large. With a global
    clip, an expert's gradient that is eight times too large makes the router's
    step of gradient descent more than four times smaller."""
    factors = (1, 8)

    def stepped(factor: int, clip: bool) -> tuple[Tensor, Tensor]:
        router, expert = (nn.Parameter(torch.ones(16)) for _ in range(2))
        kind = torch.optim.SGD if clip else torch.optim.Adam
        optimizer = kind([router, expert], 0.1)
        router.grad, expert.grad = torch.ones(16), factor * torch.ones(16)
        if clip:
            clip_grad_norm_([router, expert], 1)
        optimizer.step()
        return 1 - router.detach(), 1 - expert.detach()

    (_, one), (_, eight) = (stepped(factor, False) for factor in factors)
    assert torch.allclose(one, eight)
    (one, _), (eight, _) = (stepped(factor, True) for factor in factors)
    assert float((one / eight).mean()) > 4


# Checkpoints

SHAPE = torch.Size([4, 2, 3])
ALL = torch.arange(24.0).view(SHAPE)


def row() -> DeviceMesh:
    """All ranks, sharing the experts."""
    return init_device_mesh("cpu", (dist.get_world_size(),))


def mine() -> Tensor:
    """This rank's part of the experts."""
    return ALL.chunk(dist.get_world_size())[dist.get_rank()].clone()


def written(folder: Path) -> None:
    """A checkpoint of all ranks' experts."""
    save(mine(), row(), folder)


def read(folder: Path) -> bool:
    """Whether this rank gets its part of it."""
    return torch.equal(load(SHAPE, row(), folder), mine())


def test_stacked_experts_are_read_on_another_number_of_ranks(
    tmp_path: Path,
) -> None:
    """Four ranks save an expert each, as shards of one DTensor. Two ranks read
    two experts each, and one rank reads all four."""
    ranks.run_ranks(4, grouped, written, tmp_path)
    for world in (2, 1):
        assert all(ranks.run_ranks(world, grouped, read, tmp_path))


def written_plainly(folder: Path) -> list[float]:
    """What a rank has back that saved its own experts as a plain tensor, under
    the name that the others use."""
    state = {"experts": mine()}
    dcp.save(state, checkpoint_id=folder)
    state["experts"].zero_()
    dcp.load(state, checkpoint_id=folder)
    return state["experts"].flatten().tolist()


def test_plain_experts_under_one_name_come_back_as_one_ranks(
    tmp_path: Path,
) -> None:
    """Two ranks save different experts under the same name, as plain tensors.
    Nothing is raised, one rank's are written, and both ranks read those: half
    of the experts are lost."""
    found = ranks.run_ranks(2, grouped, written_plainly, tmp_path)
    assert found[0] == found[1]
    assert found[0] in [half.flatten().tolist() for half in ALL.chunk(2)]


def by_number(folder: Path, saving: bool) -> dict[str, list[float]]:
    """Save, or read into zeros, a layer whose experts are named by number."""
    layer = ExpertParallel(*parts(), 2, 1000)
    state = layer.state_dict()
    if saving:
        dcp.save(state, checkpoint_id=folder)
        return {}
    for one in state.values():
        one.zero_()
    dcp.load(state, checkpoint_id=folder)
    return {name: one.flatten().tolist() for name, one in state.items()}


def test_experts_named_by_number_are_read_on_another_number_of_ranks(
    tmp_path: Path,
) -> None:
    """Four ranks save a layer in which each names its expert by the expert's
    number. Two ranks read two each, by the same names, and the router."""
    ranks.run_ranks(4, grouped, by_number, tmp_path, True)
    router, every = parts()
    for state in ranks.run_ranks(2, grouped, by_number, tmp_path, False):
        assert len(state) == 3
        for name, values in state.items():
            right: Any = router
            if name.startswith("experts"):
                right = every[int(name.split(".")[1])]
            assert values == right.weight.flatten().tolist()


# When it goes wrong


def skipped() -> float:
    """A layer that a rank without tokens leaves out."""
    layer = ExpertParallel(*parts(), 2, 1000)
    x = tokens(0)[: 16 * (1 - dist.get_rank())]
    return float(layer(x)[0].sum()) if len(x) else 0


def test_a_rank_that_skips_the_experts_leaves_the_others_waiting() -> None:
    """One of two ranks has no tokens and skips the layer. The other is still in
    the layer's all-to-all, and fails there."""
    with pytest.raises(ranks.RankError, match=r"all_to_all|[Cc]onnection"):
        ranks.run_ranks(2, grouped, skipped, timeout=20)


def disagreed(more: int) -> list[float]:
    """What rank 1 has got, if it takes so many rows more from rank 0 than that
    one gives, into memory of minus ones."""
    rank = dist.get_rank()
    takes = [2 + more * rank, 2]
    arrived = torch.full((sum(takes), 4), -1.0)
    rows = torch.full((4, 4), rank + 1.0)
    dist.all_to_all_single(arrived, rows, takes, [2, 2])
    return arrived[:, 0].tolist()


def test_ranks_must_agree_how_many_rows_are_sent() -> None:
    """Rank 0 sends two rows to rank 1. If rank 1 expects three, gloo raises
    nothing and the third holds what was in memory before. If it expects one,
    its process ends."""
    fewer, found = ranks.run_ranks(2, grouped, disagreed, 1)
    assert fewer == [1, 1, 2, 2]
    assert found == [1, 1, -1, 2, 2]
    with pytest.raises(ranks.RankError, match="rank 1 died"):
        ranks.run_ranks(2, grouped, disagreed, -1, timeout=20)


def test_a_dead_expert_shrinks() -> None:
    """An expert that no token reaches has a gradient of zero. AdamW still
    multiplies its weights by 1 - rate × decay in every step: with 3e-4 and 0.1
    they lose a quarter in 10,000 steps. A hundred steps are run."""
    weight = nn.Parameter(torch.ones(4))
    optimizer = torch.optim.AdamW([weight], 3e-4, weight_decay=0.1)
    weight.grad = torch.zeros(4)
    for _ in range(100):
        optimizer.step()
    each = 1 - 3e-4 * 0.1
    assert torch.allclose(weight, torch.full((4,), each**100))
    assert round(each**10_000, 2) == 0.74
