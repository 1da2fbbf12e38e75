"""Our sharding beside torch's: the same weights, bytes kept and bytes sent."""

import gc
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.utils.checkpoint import checkpoint

from lockstep.instruments.memory import Memory
from lockstep.instruments.traffic import Traffic
from lockstep.parallel.sharding import ShardedDataParallel, ShardedOptimizer
from lockstep.planner.communication import communication
from lockstep.planner.memory import BYTES, OPTIMIZERS, memory
from lockstep.trainer.process import joined
from tests import ranks
from tests.conftest import daily

WIDTH = 12  # which every number of ranks here divides
# Of a model, for the planner: what does not concern sharding is 1 or 0.
SHAPE: dict[str, Any] = {"layers": 3, "hidden": WIDTH, "head_dim": WIDTH}
SHAPE |= dict.fromkeys(("heads", "kv_heads", "sequence"), 1)
SHAPE |= dict.fromkeys(("experts", "dense_layers", "experts_per_token"), 0)
BLOCK = WIDTH * (WIDTH + 1) + WIDTH


class Block(nn.Module):
    """A parameter of its own, and a child."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.inner = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.scale * self.inner(x).relu_()


def stack(width: int = WIDTH) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(Block(width) for _ in range(3)))


def batch(number: int, width: int = WIDTH) -> Tensor:
    """This rank's rows."""
    n = dist.get_world_size()
    x = torch.randn(12, width, generator=torch.Generator().manual_seed(number))
    return x.chunk(n)[dist.get_rank()]


def cut(model: nn.Module, theirs: bool, low: Any = None) -> nn.Module:
    """By torch or by us, with the same units."""
    if not theirs:
        return ShardedDataParallel(model, low)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(param_dtype=low, reduce_dtype=torch.float32)
    for one in reversed(list(model.modules())):
        if one._parameters:
            fully_shard(
                one, mesh=mesh, mp_policy=policy, reshard_after_forward=True
            )
    return model


def whole(model: nn.Module) -> list[Any]:
    """All parameters, as plain data."""
    if isinstance(model, ShardedDataParallel):
        found = list(model.full_parameters().values())
    else:
        found = [p.full_tensor() for p in model.parameters()]  # type: ignore[attr-defined]
    return torch.cat([one.detach().flatten() for one in found]).tolist()


def arrived(model: nn.Module) -> None:
    if isinstance(model, ShardedDataParallel):
        model.wait_for_gradients()


def trained(theirs: bool, low: Any, width: int) -> tuple[list[Any], float]:
    """Weights after steps of two micro-batches; bytes sent in the last pair."""
    with joined(30, ranks.store()):
        model = cut(stack(width), theirs, low)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        for number in range(3):
            with Traffic() as traffic:
                for micro in range(2):
                    x = batch(2 * number + micro, width).to(low)
                    model(x).float().square().mean().backward()
                    arrived(model)
            optimizer.step()
            optimizer.zero_grad()
        return whole(model), traffic.sent


@pytest.mark.parametrize("low", [None, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("world", "width"), daily([(1, 5), (2, WIDTH), (3, 7)], (2, WIDTH))
)
def test_it_trains_what_fully_shard_trains(
    world: int, width: int, low: Any
) -> None:
    """Our ZeRO-3 ends with the weights of torch's `fully_shard` and sends as
    many bytes, in float32 and in bfloat16."""
    found = ranks.run_ranks(world, trained, False, low, width)
    expected = ranks.run_ranks(world, trained, True, low, width)
    for (mine, sent), (torchs, sends) in zip(found, expected, strict=True):
        # In bfloat16 a sum's order is seen in its third digit.
        assert mine == pytest.approx(
            torchs, rel=1e-5, abs=3e-3 if low else 1e-6
        )
        if width == WIDTH:
            assert sent == sends


@pytest.mark.parametrize("low", [None, torch.bfloat16], ids=str)
def test_it_sends_what_is_planned(low: Any) -> None:
    """Two micro-batches of our ZeRO-3 send the bytes that the planner says, in
    float32 and in bfloat16."""
    given = SHAPE | {"dp": 2, "zero_stage": 3, "microbatches": 2}
    given |= {"params": 3 * BLOCK, "bytes_gradient": 4}
    plan = communication(given | {"bytes_parameter": 2 if low else 4})
    for _, sent in ranks.run_ranks(2, trained, False, low, WIDTH):
        assert sent == float(plan["data_bytes"])


def planned(stage: int, world: int, *of: str) -> int:
    """The planner's bytes for Adam in 32 bits, and its two counters."""
    given = dict(zip(BYTES, OPTIMIZERS["adam-fp32"], strict=False))
    given |= {"params": 3 * BLOCK, "dp": world, "zero_stage": stage}
    plan = memory(given)
    return round(sum(float(plan[f"{what}_bytes"]) for what in of))


def kept() -> dict[str, int]:
    """Bytes of tensors that live: between steps, then after backward; and the
    most that were there beside them."""
    with joined(30, ranks.store()):
        x = batch(0)[:1].clone()
        gradients = planned(3, dist.get_world_size(), "gradients")
        with Memory() as seen:
            model = cut(stack(), False)
            optimizer = torch.optim.Adam(model.parameters())
            for _ in range(2):
                gc.collect()  # a graph may be in a cycle
                between = seen.peak = seen.live
                model(x).mean().backward()
                arrived(model)
                after, peak = seen.settled(between + gradients), seen.peak
                optimizer.step()
                optimizer.zero_grad()
        counters = 4 * len(list(model.parameters()))
        return {
            "between": between - counters,
            "gradients": after - between,
            "gathered": peak - after,
        }


@pytest.mark.parametrize("world", [2, 3])
def test_it_keeps_what_is_planned(world: int) -> None:
    """Between steps a rank holds the bytes that the planner says for its
    shards, and in a pass fewer than three whole layers beside them."""
    for found in ranks.run_ranks(world, kept):
        expected = planned(3, world, "parameters", "optimizer")
        assert found["between"] == expected
        assert found["gradients"] == planned(3, world, "gradients")
        # A whole layer and its gradient, and one that is on its way.
        assert found["gathered"] < 3 * 4 * BLOCK


def composed() -> dict[str, float]:
    """The largest difference to one process: with blocks that are computed
    again, some layers frozen, and one block used twice."""
    with joined(30, ranks.store()) as me:
        x = torch.cat([batch(0), batch(0).flip(1)])
        found = {}

        def run(model: nn.Module, blocks: nn.Module, again: bool) -> None:
            optimizer = torch.optim.AdamW(model.parameters(), 0.01)
            for _ in range(2):
                y = x
                for block in [*blocks, blocks[1]]:  # type: ignore[misc, index]
                    y = (
                        checkpoint(block, y, use_reentrant=False)
                        if again
                        else block(y)
                    )
                y.square().mean().backward()
                arrived(model)
                if not isinstance(model, ShardedDataParallel):
                    for param in model.parameters():
                        if param.grad is not None:
                            dist.all_reduce(param.grad)
                            param.grad /= me.world_size
                optimizer.step()
                optimizer.zero_grad()

        for again in (False, True):
            for frozen in (False, True):
                plain, blocks = stack(), stack()
                for one in (plain, blocks):
                    one[1].requires_grad_(not frozen)
                run(plain, plain, False)
                model = ShardedDataParallel(blocks)
                run(model, blocks, again)
                named = model.full_parameters()
                found[f"again={again}, frozen={frozen}"] = max(
                    (named[name] - param).abs().max().item()
                    for name, param in plain.named_parameters()
                )
        return found


def test_it_composes() -> None:
    """ZeRO-3 has one process's gradients together with activation
    checkpointing, frozen layers and several uses of one layer."""
    for found in ranks.run_ranks(2, composed):
        assert found == pytest.approx(dict.fromkeys(found, 0), abs=1e-6)


def frozen() -> list[str]:
    """What both passes send when two of three layers are frozen; memory that
    stays is an error."""
    with joined(30, ranks.store()):
        model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(3)))
        model[1:].requires_grad_(False)
        sharded = ShardedDataParallel(model)
        x = batch(0).clone()
        with Memory() as seen:
            loss = sharded(x).mean()
            loss.backward()
            sharded.wait_for_gradients()
        gc.collect()
        part = 4 * WIDTH * (WIDTH + 1) // dist.get_world_size()
        kept = 3 * part + part + loss.nbytes  # parameters and one gradient
        assert seen.settled(kept) == kept
        return [call.op for call in seen.calls]


def test_a_frozen_unit_is_gathered_and_not_reduced() -> None:
    """With two of three layers frozen, all three are gathered for both passes
    and one gradient is reduce-scattered."""
    for ops in ranks.run_ranks(2, frozen):
        assert ops == ["all_gather"] * 6 + ["reduce_scatter"]


def refusals() -> list[str]:
    said = []
    with joined(30, ranks.store()):
        tied, half = stack(), stack()
        tied[1].scale = tied[0].scale
        half[2].inner.bias.requires_grad_(False)  # type: ignore[union-attr]
        for model in (tied, half):
            with pytest.raises(ValueError) as raised:  # noqa: PT011
                ShardedDataParallel(model)
            said.append(str(raised.value))
    return said


def test_what_cannot_be_cut_is_refused() -> None:
    tied, half = ranks.run_ranks(1, refusals)[0]
    assert tied == "0.scale and 1.scale are one parameter"
    assert half.startswith("2.inner.weight, 2.inner.bias differ in")


# ZeRO-1


def stepped(theirs: bool, kind: type[torch.optim.Optimizer]) -> dict[str, Any]:
    """Weights after steps under a scheduler; bytes kept and sent."""
    with joined(30, ranks.store()):
        model = stack()
        groups: list[dict[str, Any]] = [
            {"params": list(model[:2].parameters())},
            {"params": list(model[2].parameters()), "lr": 0.5},
        ]
        optimizer: Any
        if theirs:
            optimizer = ZeroRedundancyOptimizer(groups, kind, lr=0.1)
        else:
            optimizer = ShardedOptimizer(groups, kind, lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        for number in range(3):
            model(batch(number)).square().mean().backward()
            for param in model.parameters():
                dist.all_reduce(param.grad)
            model[1].scale.grad = None
            with Traffic() as traffic:
                optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
            if not theirs and number == 1:  # as if the job began again
                saved = optimizer.state_dict()
                optimizer = ShardedOptimizer(groups, kind, lr=0.7)
                optimizer.load_state_dict(saved)
                scheduler.optimizer = optimizer
        weights = [p.detach().flatten() for p in model.parameters()]
        state = [] if theirs else optimizer.inner.state.values()
        return {
            "weights": torch.cat(weights).tolist(),
            "sent": traffic.sent,
            "kept": sum(s["exp_avg"].nbytes for s in state if "exp_avg" in s),
        }


@pytest.mark.parametrize("world", daily([1, 3], 3))
@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
def test_it_steps_as_zero_redundancy_optimizer(
    world: int, kind: type[torch.optim.Optimizer]
) -> None:
    """Under a scheduler, and resumed from its state dict between two steps, our
    ZeRO-1 ends with the weights of torch's `ZeroRedundancyOptimizer`. Its step
    sends half of an all-reduce, after the gradients' whole one."""
    found = ranks.run_ranks(world, stepped, False, kind)
    expected = ranks.run_ranks(world, stepped, True, kind)
    for mine, torchs in zip(found, expected, strict=True):
        assert mine["weights"] == pytest.approx(torchs["weights"], abs=1e-6)
        # Half of an all-reduce: the other half was DDP's.
        assert mine["sent"] == 4 * 3 * BLOCK * (world - 1) / world


def closed() -> float:
    with joined(30, ranks.store()):
        weight = nn.Parameter(torch.ones(3))
        optimizer = ShardedOptimizer([weight], torch.optim.SGD, lr=1.0)

        def closure() -> Tensor:
            loss = weight.sum()
            loss.backward()
            return loss

        return float(optimizer.step(closure) + weight.sum())


def test_a_closure_is_called_with_gradients() -> None:
    assert ranks.run_ranks(2, closed) == [3.0, 3.0]


def test_each_keeps_its_share_of_the_state() -> None:
    """Of both moments; a parameter that was never used has none."""
    found = ranks.run_ranks(3, stepped, False, torch.optim.AdamW)
    moment = planned(1, 3, "optimizer") / 2
    for mine in found:
        assert mine["kept"] <= moment
    assert sum(mine["kept"] for mine in found) == 3 * moment - 4 * WIDTH
