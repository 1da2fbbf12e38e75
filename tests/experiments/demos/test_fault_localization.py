"""A NaN is planted and found, a bit is flipped and found, on gloo ranks."""

import copy
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lockstep.experiments.demos.fault_localization import (
    BeforeReduce,
    NotFinite,
    checksum,
    first_bad,
    flip,
    guard,
    odd_ranks,
    wrong_ranks,
)
from lockstep.experiments.demos.training_instability import Transformer, batch
from lockstep.trainer.process import joined
from tests import ranks

RANK, STEP, LAYER = 2, 5, "blocks.1.mlp.0"
STEPS, EVERY = 12, 4


def grouped(work: Any, *args: Any) -> Any:
    """`work(*args)` in a group of all ranks."""
    with joined(30, ranks.store()):
        return work(*args)


class Training:
    """The transformer under DDP. On one rank, at one step, one layer makes a
    NaN, as a defective unit or an unlucky overflow would."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model, self.step = Transformer(), 0
        planted = self.model.get_submodule(LAYER)
        planted.register_forward_hook(self.plant)
        self.ddp = DistributedDataParallel(self.model)
        self.adam = torch.optim.AdamW(self.model.parameters(), 1e-3)
        self.saved: dict[int, Any] = {}
        self.replayed = 0

    def plant(self, module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        """The NaN, at its rank and step."""
        if (dist.get_rank(), self.step) == (RANK, STEP):
            output = output.clone()
            output[0, 0, 0] = torch.nan
        return output

    def backward(self) -> None:
        """The gradient of the current step."""
        rows = batch(self.step, rank=dist.get_rank())
        self.adam.zero_grad()
        logits = self.ddp(rows[:, :-1])
        F.cross_entropy(logits.transpose(1, 2), rows[:, 1:]).backward()

    def run(self, until: int) -> None:
        """Steps up to that one, with a checkpoint of every fourth."""
        while self.step < until:
            if self.step % EVERY == 0:
                both = self.model.state_dict(), self.adam.state_dict()
                self.saved[self.step] = copy.deepcopy(both)
            self.backward()
            self.adam.step()
            self.step += 1
            self.replayed += 1

    def rewind(self, step: int) -> None:
        """To the newest checkpoint that is not after a step, and up to it."""
        self.step = max(at for at in self.saved if at <= step)
        weights, moments = copy.deepcopy(self.saved[self.step])
        self.model.load_state_dict(weights)
        self.adam.load_state_dict(moments)
        self.run(step)

    def sound(self, done: int) -> bool:
        """Whether all weights are finite when so many steps are done."""
        self.rewind(done)
        return all(p.isfinite().all() for p in self.model.parameters())


def hunted() -> dict[str, Any]:
    """Everything that is found out about the NaN, on one rank."""
    training = Training()
    found: dict[str, Any] = {}
    training.run(STEPS)
    found["poisoned"] = not training.model.head.weight.isfinite().all().item()
    bad = first_bad(0, STEPS, training.sound)
    found["step"] = (
        bad - 1
    )  # `bad` steps are done, so the last is number bad - 1
    training.rewind(bad - 1)
    training.backward()
    found["after the reduce"] = not all(
        p.grad.isfinite().all() for p in training.model.parameters()
    )
    look = BeforeReduce(training.ddp)
    training.backward()
    found["ranks"] = look.everywhere()
    hooks = guard(training.model)
    rows = batch(training.step, rank=dist.get_rank())
    try:
        training.model(rows[:, :-1])
        found["layer"] = None
    except NotFinite as error:
        found["layer"] = str(error)
    for hook in hooks:
        hook.remove()
    return found


@pytest.fixture(scope="module")
def hunts() -> list[dict[str, Any]]:
    """What each of three ranks found."""
    return ranks.run_ranks(3, grouped, hunted)


def test_the_reduce_gives_a_nan_to_every_rank(
    hunts: list[dict[str, Any]],
) -> None:
    """A NaN that one of three ranks makes in one step is in the gradients of
    all ranks after DDP's all-reduce, and in the weights of all of them to the
    end."""
    assert all(one["poisoned"] and one["after the reduce"] for one in hunts)


def test_step_rank_and_layer_of_a_nan_are_found(
    hunts: list[dict[str, Any]],
) -> None:
    """Bisection from checkpoints names the step, gradients before the reduce
    name the one rank, and forward hooks name the layer, on that rank alone."""
    assert {one["step"] for one in hunts} == {STEP}
    assert all([*one["ranks"]] == [RANK] for one in hunts)
    layers = [one["layer"] for one in hunts]
    assert layers[RANK] == f"{LAYER} (Linear)"
    assert [layers[r] for r in range(3) if r != RANK] == [None, None]


def test_bisection_asks_for_the_logarithm_of_the_steps() -> None:
    """Between step 0 and step 1,000 the first bad one is found in ten
    replays, whichever it is."""
    for bad in 1, 437, 1000:
        asked: list[int] = []

        def sound(step: int, bad: int = bad, asked: list[int] = asked) -> bool:
            asked.append(step)
            return step < bad

        assert first_bad(0, 1000, sound) == bad
        assert len(asked) <= 10


@pytest.mark.filterwarnings("ignore:.*Anomaly Detection:UserWarning")
@pytest.mark.filterwarnings("ignore:Error detected in:UserWarning")
def test_anomaly_mode_names_the_backward_function() -> None:
    """A backward pass that makes a NaN of finite values, here the square root
    at 0 times 0, raises under `detect_anomaly` and names the function. The
    forward pass is finite, so forward hooks see nothing."""
    x = torch.zeros(3, requires_grad=True)
    with torch.autograd.detect_anomaly():
        y = (x.sqrt() * 0).sum()
        assert y.isfinite()
        with pytest.raises(RuntimeError, match=r"SqrtBackward0.*nan"):
            y.backward()


# Silent data corruption


def flipped(where: str) -> dict[str, Any]:
    """Two steps of SGD; before the second, a bit of a weight or of a gradient
    flips on one rank."""
    torch.manual_seed(0)
    model = Transformer()
    ddp = DistributedDataParallel(model)
    sgd = torch.optim.SGD(model.parameters(), 0.1)
    target = model.head.weight
    strikes = False

    def strike(gradient: Tensor) -> Tensor:
        if strikes and where == "gradient":
            gradient = gradient.clone()
            flip(gradient, 0, 20)
        return gradient

    target.register_hook(strike)
    for step in range(2):
        strikes = step == 1 and dist.get_rank() == RANK
        if strikes and where == "weight":
            flip(target, 0, 20)
        sgd.zero_grad()
        rows = batch(step, rank=dist.get_rank())
        logits = ddp(rows[:, :-1])
        F.cross_entropy(logits.transpose(1, 2), rows[:, 1:]).backward()
        sgd.step()
    return {"odd": odd_ranks(checksum(model.parameters()))}


def test_checksums_find_a_flipped_weight() -> None:
    """One bit that flips in one rank's weight stays there, since DDP sends
    gradients alone: the checksums of three replicas name the rank."""
    for one in ranks.run_ranks(3, grouped, flipped, "weight"):
        assert one["odd"] == [RANK]


def test_checksums_miss_a_flipped_gradient() -> None:
    """One bit that flips in one rank's gradient before the all-reduce is
    averaged into every replica: all checksums agree."""
    for one in ranks.run_ranks(3, grouped, flipped, "gradient"):
        assert one["odd"] == []


def compared(*checksums: int) -> list[int] | str:
    """The ranks whose checksum is odd, or why no rank can be named."""
    try:
        return odd_ranks(checksums[dist.get_rank()])
    except ValueError as error:
        return str(error)


def test_two_replicas_have_no_majority() -> None:
    """Two replicas with different checksums name nobody: each rank raises. If
    they agree, no rank is odd."""
    assert ranks.run_ranks(2, grouped, compared, 7, 7) == [[], []]
    told = "no majority among ranks [0, 1]: [7, 8]"
    assert ranks.run_ranks(2, grouped, compared, 7, 8) == [told] * 2


def compared_by_shard() -> list[int]:
    """The odd ranks among the replicas of this rank's shard. Rank 4's is
    wrong."""
    rank = dist.get_rank()
    groups = [dist.new_group([at, at + 2, at + 4]) for at in range(2)]
    return odd_ranks(9 if rank == 4 else rank % 2, groups[rank % 2])


def test_only_replicas_of_one_shard_are_compared() -> None:
    """Six ranks hold two shards, three replicas of each. Rank 4's shard is
    wrong: its group names it by its global rank, and the other group names
    nobody. All ranks together have no majority."""
    assert ranks.run_ranks(6, grouped, compared_by_shard) == [[4], []] * 3
    told = "no majority among ranks [0, 1, 2, 3, 4, 5]: [0, 1, 0, 1, 9, 1]"
    found = ranks.run_ranks(6, grouped, compared, 0, 1, 0, 1, 9, 1)
    assert found == [told] * 6


def replayed(faulty: int | None, times: int = 2) -> list[int]:
    """The ranks that a replay of each gradient by a neighbor accuses. The
    faulty rank computes so many of its gradients wrongly."""
    torch.manual_seed(0)
    model, left = Transformer(), times

    def gradient_of(rank: int) -> Sequence[Tensor]:
        nonlocal left
        rows = batch(0, rank=rank)
        logits = model(rows[:, :-1])
        loss = F.cross_entropy(logits.transpose(1, 2), rows[:, 1:])
        found = torch.autograd.grad(loss, list(model.parameters()))
        if dist.get_rank() == faulty and left:
            left -= 1
            flip(found[0], 0, 3)  # a change in the seventh digit
        return found

    return wrong_ranks(gradient_of)


@pytest.mark.parametrize("faulty", [None, 0, 2])
def test_a_replay_by_a_neighbor_names_the_rank(faulty: int | None) -> None:
    """Where each rank computes its neighbor's gradient as well, the rank whose
    arithmetic flips a low bit is the one that both failed comparisons share.
    Without a fault none fails."""
    wanted = [] if faulty is None else [faulty]
    assert ranks.run_ranks(4, grouped, replayed, faulty) == [wanted] * 4


def test_a_fault_that_comes_and_goes_leaves_two_suspects() -> None:
    """Rank 2's first gradient is wrong, and its second is right. One
    comparison fails, and both ranks of that pair are suspects."""
    found = ranks.run_ranks(4, grouped, replayed, 2, 1)
    assert found == [[2, 3]] * 4


def test_what_a_flipped_bit_does_to_a_weight() -> None:
    """In an fp32 weight of 0.02, flipping bit 0 makes a relative change of
    about 1e-7, bit 22 one of less than a half, and bit 30 makes a number beyond
    1e36."""
    sizes = {}
    for bit in 0, 22, 30:
        weight = torch.tensor([0.02])
        before = weight.clone()
        flip(weight, 0, bit)
        sizes[bit] = ((weight - before).abs() / before).item()
        assert checksum([weight]) != checksum([before])
    assert 5e-8 < sizes[0] < 2e-7
    assert 0.1 < sizes[22] < 0.5
    assert 0.02 * sizes[30] > 1e36
