"""What the chapter on data parallelism says of DDP, run on gloo ranks."""

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel as DDP

from lockstep.experiments.demos.ddp_traffic import (
    Seen,
    all_at_once,
    gradients,
    one_by_one,
    overlapped,
    seen,
)
from lockstep.experiments.demos.fsdp2_traffic import (
    LAYERS,
    MICRO_BATCHES,
    RANKS,
)
from lockstep.instruments.traffic import Traffic
from lockstep.trainer.process import joined
from tests import ranks


def grouped(work: Any, *args: Any) -> Any:
    """`work(*args)` in a group of all ranks."""
    with joined(30, ranks.store()):
        return work(*args)


def on_two(work: Any, *args: Any) -> list[Any]:
    """What two ranks find."""
    return ranks.run_ranks(2, grouped, work, *args)


def mine() -> Tensor:
    """One sample, all ones on rank 0 and all twos on rank 1."""
    return torch.full((1, 4), 1.0 + dist.get_rank())


def layer() -> nn.Linear:
    """The same on every rank."""
    torch.manual_seed(0)
    return nn.Linear(4, 4)


def gradient(module: nn.Module) -> float:
    """Of its first weight."""
    first: Any = next(module.parameters())
    return float(first.grad.flatten()[0])


# What is sent, and when


@pytest.fixture(scope="module")
def counted() -> dict[str, Seen]:
    """Each case of the page's table, as rank 0 saw it."""
    return ranks.run_ranks(RANKS, grouped, seen)[0]  # type: ignore[no-any-return]


def test_buckets_leave_only_the_last_for_the_end(
    counted: dict[str, Seen],
) -> None:
    """Eight layers averaged after the backward pass leave eight all-reduces for
    its end. DDP with two layers to a bucket starts three of its four before
    the last gradient is ready, and so do hooks by hand. All send the same
    bytes."""
    apart = counted["one by one, at the end"]
    assert (apart.calls, apart.late) == (LAYERS, LAYERS)
    whole = counted["all at once, at the end"]
    assert (whole.calls, whole.late) == (1, 1)
    ddp = counted["DDP, two layers a bucket"]
    assert (ddp.calls, ddp.late) == (LAYERS // 2, 1)
    hooks = counted["by hooks, two a bucket"]
    assert (hooks.calls, hooks.late) == (LAYERS // 2, 1)
    one = counted["  one bucket"]
    assert (one.calls, one.late) == (1, 1)
    assert {one.sent for one in (apart, whole, ddp, hooks, one)} == {1}


def test_accumulation_without_no_sync_sends_every_micro_batch(
    counted: dict[str, Seen],
) -> None:
    """Four micro-batches send four times as much, and with `no_sync` around
    forward and backward pass of the first three as much as one. Around the
    backward pass alone it changes nothing."""
    each, once = counted["4 micro-batches"], counted["  with no_sync"]
    assert (each.sent, each.late) == (MICRO_BATCHES, MICRO_BATCHES)
    assert (once.sent, once.late) == (1, 1)
    assert counted["  forward outside it"].sent == MICRO_BATCHES


def test_gradients_as_views_of_buckets_spare_a_copy(
    counted: dict[str, Seen],
) -> None:
    """DDP holds weights, gradients and buckets, three times the weights. With
    `gradient_as_bucket_view` gradients lie in the buckets: twice."""
    assert counted["DDP, two layers a bucket"].held == 3
    assert counted["  gradients are views"].held == 2


def test_looking_for_unused_parameters_costs_an_all_reduce(
    counted: dict[str, Seen],
) -> None:
    """With `find_unused_parameters` a step has one all-reduce more, which tells
    the ranks which parameters any of them used, even if all were."""
    plain = counted["DDP, two layers a bucket"]
    found = counted["  find unused parameters"]
    assert (found.calls, found.late) == (plain.calls + 1, plain.late + 1)


def test_an_fp16_hook_sends_half_the_bytes(counted: dict[str, Seen]) -> None:
    """`fp16_compress_hook` sends half of what fp32 gradients take."""
    assert counted["  compressed to fp16"].sent == 0.5


def averaged(average: Any) -> list[float]:
    """A layer's gradient after a pass of every rank's own sample."""
    net: Any = layer()
    model = DDP(net) if average is None else net
    model(mine()).square().sum().backward()
    if average is not None:
        average(gradients(net))
    return net.weight.grad.flatten().tolist()  # type: ignore[no-any-return]


def averaged_twice() -> list[list[float]]:
    """The weights after two steps of two layers, averaged by hooks in a bucket
    for each layer, and by DDP."""
    found = []
    for by_hooks in (True, False):
        torch.manual_seed(0)
        net: Any = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        model = net if by_hooks else DDP(net)
        buckets = [[*one.parameters()] for one in reversed(net)]
        wait = overlapped(buckets) if by_hooks else lambda: None
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            model(mine()).square().sum().backward()
            wait()
            optimizer.step()
        found.append(torch.cat([p.flatten() for p in net.parameters()]))
    return [one.tolist() for one in found]


def test_averaging_during_the_backward_pass_trains_what_ddp_trains() -> None:
    """Two ranks with different samples take two steps. Buckets that hooks send
    during the backward pass leave the weights that DDP leaves, bit for bit."""
    (hooks, ddp), other = on_two(averaged_twice)
    assert hooks == ddp
    assert other == [hooks, ddp]


@pytest.mark.parametrize("average", [one_by_one, all_at_once])
def test_averaging_by_hand_gives_ddps_gradients(average: Any) -> None:
    """An all-reduce of each gradient after the backward pass, or one of all,
    leaves the gradients that DDP leaves."""
    assert on_two(averaged, average) == on_two(averaged, None)


# What DDP keeps alike, and what it does not


def after_construction() -> list[float]:
    """A weight that every rank drew by its own seed, once DDP has it."""
    torch.manual_seed(dist.get_rank())
    net = nn.Linear(2, 2)
    DDP(net)
    return net.weight.flatten().tolist()  # type: ignore[no-any-return]


def test_ddp_starts_all_ranks_with_rank_0s_weights() -> None:
    """Two ranks draw their weights by seeds of their own. Once DDP wraps them,
    both have what rank 0 drew."""
    torch.manual_seed(0)
    first = nn.Linear(2, 2).weight.flatten().tolist()
    assert on_two(after_construction) == [first] * 2


def running_means(batches: int) -> float:
    """Of a batch norm after so many forward passes. Rank 0's inputs are all 0,
    rank 1's all 10."""
    net = nn.BatchNorm1d(1, momentum=0.5)
    model = DDP(net)
    for _ in range(batches):
        model(torch.full((2, 1), 10.0 * dist.get_rank()))
    return net.running_mean.item()  # type: ignore[union-attr]


def broadcasts() -> list[int]:
    """How many a forward pass starts without gradients, the first and the
    second after a training step."""
    model = DDP(nn.BatchNorm1d(1))
    model(torch.ones(2, 1)).sum().backward()
    model.eval()
    found = []
    for _ in range(2):
        with torch.no_grad(), Traffic() as traffic:
            model(torch.ones(2, 1))
        found.append(len(traffic.calls))
    return found


def test_the_first_evaluation_after_a_step_broadcasts_buffers() -> None:
    """After a training step, the first forward pass under `no_grad` sends
    buffers, in `eval` mode as well. The second sends nothing."""
    for first, second in on_two(broadcasts):
        assert first > 0 == second


def test_buffers_are_rank_0s_again_before_each_forward_pass() -> None:
    """Rank 0's inputs are 0 and rank 1's are 10. Rank 1's running mean is 5
    after each of three passes, since each begins with rank 0's mean, which
    stays 0: what rank 1 has seen is never in it."""
    for batches in (1, 2, 3):
        assert on_two(running_means, batches) == [0, 5]


# Mistakes


def inner(through_ddp: bool) -> float:
    """A gradient after a pass through DDP, or through the module within."""
    model: Any = DDP(layer())
    (model if through_ddp else model.module)(mine()).sum().backward()
    return gradient(model)


def test_a_call_of_the_module_within_averages_nothing() -> None:
    """Through `model.module(x)` each rank keeps its own gradient, 1 and 2, and
    nothing raises. Through `model(x)` both have 1.5."""
    assert on_two(inner, False) == [1, 2]
    assert on_two(inner, True) == [1.5, 1.5]


def unfrozen() -> list[float]:
    """Gradients of a layer that thawed after DDP, and of one that was never
    frozen, as their sums."""
    net = nn.Sequential(layer(), layer())
    net[0].requires_grad_(False)
    model = DDP(net)
    net[0].requires_grad_(True)
    model(mine()).sum().backward()
    return [float(one.weight.grad.sum()) for one in net]  # type: ignore[union-attr]


def test_a_parameter_unfrozen_after_wrapping_is_not_averaged() -> None:
    """DDP hooks the parameters that require a gradient when it is built. One
    that is unfrozen later has another gradient on each rank, and nothing
    raises."""
    (thawed, usual), (other, same) = on_two(unfrozen)
    assert thawed != other
    assert usual == same


class Two(nn.Module):
    """Of two layers a pass may use one."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.spare = layer(), layer()

    def forward(self, x: Tensor, both: bool) -> Tensor:
        x = self.used(x)
        return self.spare(x) if both else x  # type: ignore[no-any-return]


def passes(**options: bool) -> str:
    """How two passes end that leave a layer out."""
    model = DDP(Two(), **options)
    try:
        for _ in range(2):
            model(mine(), False).sum().backward()
    except RuntimeError as error:
        return str(error)
    return f"{gradient(model)}, {model.module.spare.weight.grad}"


def test_an_unused_parameter_raises_in_the_next_forward_pass() -> None:
    """A layer that no rank uses leaves its bucket unfilled. The first pass goes
    through, and the next forward pass raises and names the option. With
    `find_unused_parameters` both go through, and the layer's gradient stays
    None."""
    for found in on_two(passes):
        assert "finished reduction in the prior iteration" in found
        assert "find_unused_parameters=True" in found
    found = ranks.run_ranks(2, grouped, found_unused)
    assert found == ["3.0, None"] * 2


def found_unused() -> str:
    """Two passes' gradients, 1.5 each, added up."""
    return passes(find_unused_parameters=True)


def one_less(skips: bool) -> str:
    """Rank 1 has one batch less than rank 0."""
    model = DDP(layer())
    for _ in range(2 - (skips and dist.get_rank() == 1)):
        model(mine()).sum().backward()
    return "done"


def test_a_rank_with_a_batch_less_leaves_the_other_waiting() -> None:
    """Rank 1 runs out of batches and leaves. Rank 0 is still in an all-reduce,
    and fails there."""
    assert on_two(one_less, False) == ["done"] * 2
    with pytest.raises(ranks.RankError, match=r"all_?reduce|[Cc]onnection"):
        ranks.run_ranks(2, grouped, one_less, True, timeout=20)


def joining() -> list[float]:
    """A gradient on both ranks, where rank 1 has one batch less."""
    model = DDP(layer())
    found = []
    with model.join():
        for _ in range(2 - dist.get_rank()):
            model.zero_grad()
            model(mine()).sum().backward()
            found.append(gradient(model))
    return found


def test_join_lets_ranks_have_unequal_numbers_of_batches() -> None:
    """In `model.join()` a rank that has run out takes part with zeros. The
    other's gradient is divided by both ranks all the same."""
    assert on_two(joining) == [[1.5, 0.5], [1.5]]
