"""What the chapter on pipelines says of torch's, run on gloo ranks."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._dynamo import OptimizedModule
from torch._dynamo.backends.common import aot_autograd
from torch._functorch import config as functorch
from torch._functorch.aot_autograd import make_boxed_func
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining._backward import (
    stage_backward_input,
    stage_backward_weight,
)
from torch.distributed.pipelining.schedules import (
    OVERLAP_F_B,
    UNSHARD,
    _Action,
    _add_unshard_reshard,
    _ComputationType,
)
from torch.distributed.tensor import DTensor
from torch.utils.checkpoint import checkpoint

from lockstep.experiments.demos.torch_pipelines import (
    MICRO_BATCHES,
    RANKS,
    SCHEDULES,
    WIDTH,
    Composed,
    Pipeline,
    Seen,
    SplitStack,
    batch,
    carry_out,
    clip_over_stages,
    composed,
    dealt,
    fsdp,
    model,
    per_token,
    seen,
    summed,
)
from lockstep.instruments.traffic import Traffic
from lockstep.planner.schedules import Schedule
from lockstep.trainer.process import joined
from tests import ranks


def grouped(work: Any, *args: Any, seconds: float = 30) -> Any:
    """`work(*args)` in a group of all ranks."""
    with joined(seconds, ranks.store()):
        return work(*args)


# Backward passes in two halves


def weights(stages: int) -> list[list[Tensor]]:
    """Two layers for each stage, alike on every rank."""
    chance = torch.Generator().manual_seed(0)
    return [
        [torch.randn(WIDTH, WIDTH, generator=chance) / 4 for _ in range(2)]
        for _ in range(stages)
    ]


# The number of a message's group, its sender and its receiver.
Message = tuple[int, int, int]


@contextmanager
def noted(groups: list[dist.ProcessGroup]) -> Iterator[list[Message]]:
    """Every message that this rank issues in `groups`, in order."""
    rank, messages = dist.get_rank(), list[Message]()
    isend, recv = dist.isend, dist.recv

    def sending(tensor: Tensor, to: int, group: dist.ProcessGroup) -> Any:
        messages.append((groups.index(group), rank, to))
        return isend(tensor, to, group)

    def receiving(tensor: Tensor, source: int, group: dist.ProcessGroup) -> Any:
        messages.append((groups.index(group), source, rank))
        return recv(tensor, source, group)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dist, "isend", sending)
        patch.setattr(dist, "recv", receiving)
        yield messages


def split(name: str) -> tuple[list[Any], list[Message]]:
    """The gradients of this rank's weights after a step of that schedule, and
    its messages."""
    rank, stages = dist.get_rank(), dist.get_world_size()
    stack = SplitStack(weights(stages)[rank])
    (x,), (target,) = batch()
    inputs, targets = x.chunk(MICRO_BATCHES), target.chunk(MICRO_BATCHES)

    def loss_gradient(number: int, output: Tensor) -> Tensor:
        return 2 * (output - targets[number]) / x.numel()

    steps = Schedule(name, stages, MICRO_BATCHES).steps[rank]
    channels = {kind: dist.new_group() for kind in "FI"}
    with noted(list(channels.values())) as messages:
        carry_out(stack, steps, inputs, loss_gradient, channels)
    assert not stack.owed
    return [gradient.tolist() for gradient in stack.gradients], messages


@pytest.mark.parametrize("name", ["zb-h1", "zb-h2"])
def test_split_backward_passes_give_the_whole_models_gradients(
    name: str,
) -> None:
    """Three ranks carry out the lists of ZB-H1 and of ZB-H2, gradients of
    inputs first and those of weights later. Every weight ends with the
    gradient that one process computes for the whole model and batch."""
    every = [layer.requires_grad_() for one in weights(3) for layer in one]
    (x,), (target,) = batch()
    output = x
    for layer in every:
        output = output @ layer.T
    nn.functional.mse_loss(output, target).backward()
    found = [
        gradient
        for gradients, _ in ranks.run_ranks(3, grouped, split, name)
        for gradient in gradients
    ]
    for layer, mine in zip(every, found, strict=True):
        assert layer.grad is not None
        assert layer.grad.norm() > 1e-3
        # Sums of micro-batches come in another order.
        torch.testing.assert_close(torch.tensor(mine), layer.grad)


def test_neighbors_issue_a_groups_messages_in_one_order() -> None:
    """Three ranks carry out ZB-H1's lists with one process group for
    activations and one for gradients. Within each group, both ends of a link
    issue its messages in the same order. Across the two groups they don't:
    the middle rank issues a send where the last rank issues one, too."""
    issued = [one for _, one in ranks.run_ranks(3, grouped, split, "zb-h1")]

    def over(rank: int, first: int, groups: tuple[int, ...]) -> list[Message]:
        link = {first, first + 1}
        return [
            message
            for message in issued[rank]
            if message[0] in groups and set(message[1:]) == link
        ]

    for first in range(2):
        for group in range(2):
            ends = [over(first + end, first, (group,)) for end in range(2)]
            assert ends[0] == ends[1]
            assert len(ends[0]) == MICRO_BATCHES
    middle, last = over(1, 1, (0, 1)), over(2, 1, (0, 1))
    assert middle[:3] == [(0, 1, 2), (0, 1, 2), (1, 2, 1)]
    assert last[:3] == [(0, 1, 2), (1, 2, 1), (0, 1, 2)]


# Torch's schedules


@pytest.fixture(scope="module")
def counted() -> list[dict[tuple[str, int], Seen]]:
    """Each schedule of the page's table, as every rank saw it."""
    return ranks.run_ranks(RANKS, grouped, seen)


@pytest.mark.parametrize("case", SCHEDULES)
def test_torch_holds_as_many_micro_batches_as_the_list_says(
    counted: list[dict[tuple[str, int], Seen]], case: tuple[str, int]
) -> None:
    """On four ranks with eight micro-batches, autograd keeps saved tensors of
    as many micro-batches at once, on every rank, as the schedule's list has
    forwards without their last gradient: 8 under GPipe, 4, 3, 2 and 1 under
    1F1B, up to 5.5 interleaved, 4 on every rank under ZB-H1 and ZB-V, and 4.5
    under DualPipeV."""
    planned = Schedule(SCHEDULES[case], RANKS, MICRO_BATCHES, case[1])
    assert [one[case].held for one in counted] == planned.held()


def test_more_parts_on_a_rank_send_more_messages(
    counted: list[dict[tuple[str, int], Seen]],
) -> None:
    """A rank in the middle sends two messages for each micro-batch and each of
    its parts. The ends send one less, and under a V both ends do: the last
    rank's two parts are neighbors."""
    for name, parts in SCHEDULES:
        sent = [one[name, parts].messages for one in counted]
        middle = 2 * parts * MICRO_BATCHES
        v_shaped = Schedule(SCHEDULES[name, parts], 2, 8, 2).v_shaped
        end = middle - (2 if v_shaped else 1) * MICRO_BATCHES
        assert sent == [end, middle, middle, end]


def check_gradients(name: str, parts: int) -> None:
    """Compare the gradients of this rank's parts with the whole model's."""
    rank, stages = dist.get_rank(), dist.get_world_size()
    every, whole = model(parts * stages), model(parts * stages)
    loss = nn.functional.mse_loss
    places = dealt(name, parts, rank, stages)
    mine: dict[int, nn.Module] = {place: every[place] for place in places}
    (x,), (target,) = batch()
    pipeline = Pipeline(name, mine, len(every), MICRO_BATCHES, loss)
    losses = pipeline.step(x, target)
    alone = loss(nn.Sequential(*whole)(x), target)
    alone.backward()
    if pipeline.last:
        torch.testing.assert_close(torch.stack(losses).mean(), alone)
    for place in places:
        for a, b in zip(
            every[place].parameters(), whole[place].parameters(), strict=True
        ):
            torch.testing.assert_close(a.grad, b.grad, atol=1e-7, rtol=1e-4)


def wrong_schedules() -> list[str]:
    """Each schedule whose gradients differ, and where."""
    wrong = []
    for case in SCHEDULES:
        try:
            check_gradients(*case)
        except AssertionError as error:
            wrong.append(f"{case}: {error}")
    return wrong


def test_torchs_schedules_train_the_whole_model() -> None:
    """On two gloo ranks, `ScheduleGPipe`, `Schedule1F1B`,
    `ScheduleInterleaved1F1B`, `ScheduleInterleavedZeroBubble`,
    `ScheduleZBVZeroBubble` and `ScheduleDualPipeV` give the losses and
    gradients of the uncut model on the whole batch. So for a loss that is a
    mean, `scale_grads`, which is on, divides by the number of micro-batches."""
    assert ranks.run_ranks(2, grouped, wrong_schedules) == [[], []]


def refused(name: str, micro_batches: int) -> str:
    """What torch says when it is asked for that."""
    rank, stages = dist.get_rank(), dist.get_world_size()
    parts = 2 if name == "DualPipeV" else 1
    every = model(parts * stages)
    mine: dict[int, nn.Module] = {
        place: every[place] for place in dealt(name, parts, rank, stages)
    }
    try:
        Pipeline(name, mine, len(every), micro_batches, summed)
    except ValueError as error:
        return str(error)
    return ""


def test_torch_wants_enough_micro_batches() -> None:
    """torch's 1F1B refuses fewer micro-batches than stages, and its DualPipeV
    fewer than parts."""
    few = ranks.run_ranks(2, grouped, refused, "1F1B", 1)
    assert all(
        "greater than or equal to the number of stages" in s for s in few
    )
    few = ranks.run_ranks(2, grouped, refused, "DualPipeV", 3)
    assert all("at least as many microbatches as stages" in s for s in few)
    assert ranks.run_ranks(2, grouped, refused, "1F1B", 2) == ["", ""]


def order() -> list[tuple[str, int]]:
    """What this rank does under torch's zero bubble with one part a rank."""
    rank, stages = dist.get_rank(), dist.get_world_size()
    mine: dict[int, nn.Module] = {rank: model(stages)[rank]}
    pipeline = Pipeline(
        "InterleavedZeroBubble", mine, stages, MICRO_BATCHES, summed
    )
    actions = pipeline.schedule.pipeline_order[rank]
    return [
        (action.computation_type.value, action.microbatch_index)
        for action in actions
        if action is not None
    ]


def test_torchs_zero_bubble_with_one_part_a_rank_is_zb_h1() -> None:
    """On four ranks `ScheduleInterleavedZeroBubble` with one part each has the
    list of ZB-H1, action by action."""
    planned = Schedule("zb-h1", RANKS, MICRO_BATCHES)
    assert ranks.run_ranks(RANKS, grouped, order) == [
        [(kind, number) for ((kind, number, _),) in steps]
        for steps in planned.steps
    ]


def outputs(wanted: bool) -> tuple[int, int]:
    """Of how many micro-batches a step of 1F1B keeps outputs on this rank, and
    how many buffers this stage receives into."""
    rank, stages = dist.get_rank(), dist.get_world_size()
    loss = nn.functional.mse_loss
    part: dict[int, nn.Module] = {rank: model(stages)[rank]}
    pipeline = Pipeline("1F1B", part, stages, MICRO_BATCHES, loss)
    (x,), (target,) = batch()
    if wanted:
        given = {"target": target} if rank else {}
        pipeline.schedule.step(*([] if rank else [x]), **given)
    else:
        pipeline.step(x, target)
    (stage,) = pipeline.stages
    infos = [stage.args_recv_info, stage.grad_recv_info]
    buffers = {
        one.buffer.data_ptr()
        for info in infos
        for micro_batch in info.values()
        for one in micro_batch
        if one is not None and one.buffer is not None
    }
    return len(stage.output_chunks), len(buffers)


def test_a_step_keeps_all_outputs_unless_told_not_to() -> None:
    """After a step of torch's 1F1B the last of two stages still has the outputs
    of all eight micro-batches, and with `return_outputs=False` of none."""
    (_, _), (kept, _) = ranks.run_ranks(2, grouped, outputs, True)
    assert kept == MICRO_BATCHES
    (_, _), (kept, _) = ranks.run_ranks(2, grouped, outputs, False)
    assert kept == 0


def test_stages_make_a_buffer_for_every_micro_batch() -> None:
    """Each of two stages under 1F1B has eight buffers to receive in, one for
    each micro-batch, though it holds two micro-batches or one."""
    found = ranks.run_ranks(2, grouped, outputs, False)
    assert [buffers for _, buffers in found] == [MICRO_BATCHES] * 2


def compiled(name: str) -> str:
    """What torch says to a stage that was compiled."""
    rank, stages = dist.get_rank(), dist.get_world_size()
    part: Any = torch.compile(model(stages)[rank])
    try:
        Pipeline(name, {rank: part}, stages, MICRO_BATCHES, summed)
    except RuntimeError as error:
        return str(error)
    return ""


def test_zero_bubble_refuses_compiled_stages() -> None:
    """`ScheduleInterleavedZeroBubble` raises for a stage that went through
    `torch.compile`; `Schedule1F1B` takes it."""
    for said in ranks.run_ranks(2, grouped, compiled, "InterleavedZeroBubble"):
        assert (
            "not supported with stage modules that have used torch.compile"
            in said
        )
    assert ranks.run_ranks(2, grouped, compiled, "1F1B") == ["", ""]


class Block(nn.Module):
    """Two layers with a function between them."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = (nn.Linear(WIDTH, WIDTH) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """The block's."""
        return self.down(self.up(x).tanh())


def test_a_block_compiled_in_place_runs_its_backward_twice() -> None:
    """A block that was compiled by `block.compile()` isn't an OptimizedModule,
    so torch's check for zero bubble schedules lets it pass. When torch splits
    its backward pass, the compiled backward runs twice for one micro-batch:
    once for the gradient of the input, and once for those of the weights."""
    block, ran = Block(), []

    def interpreted(graph: Any, example: Any) -> Any:
        return make_boxed_func(graph.forward)

    def counted(graph: Any, example: Any) -> Any:
        def run(*arguments: Tensor) -> Any:
            ran.append(len(arguments))
            return graph.forward(*arguments)

        return make_boxed_func(run)

    block.compile(
        backend=aot_autograd(fw_compiler=interpreted, bw_compiler=counted)
    )
    assert not any(isinstance(m, OptimizedModule) for m in block.modules())
    x = torch.ones(1, WIDTH, requires_grad=True)
    y = block(x)
    weights = list(block.parameters())
    _, owed = stage_backward_input(
        [y], [torch.ones_like(y)], [x], iter(weights)
    )
    assert len(ran) == 1
    stage_backward_weight(iter(weights), owed)
    assert len(ran) == 2
    split = [weight.grad for weight in weights]
    whole = torch.autograd.grad(block(x).sum(), weights)
    torch.testing.assert_close(split, list(whole))


@pytest.mark.parametrize(
    ("block", "x", "groups"),
    [
        (Block(), torch.ones(1, WIDTH), 2),
        (
            nn.TransformerEncoderLayer(WIDTH, 2, 32, norm_first=True),
            torch.ones(2, 1, WIDTH),
            6,
        ),
    ],
)
def test_a_split_backward_recomputes_a_block_for_every_layer(
    block: nn.Module, x: Tensor, groups: int
) -> None:
    """A block under activation checkpointing runs again once in a whole
    backward pass. If torch splits the backward pass, the block runs again for
    the gradient of its input, and once more for each layer with weights: seven
    times in all for a transformer layer with six of them."""
    ran = []
    block.register_forward_pre_hook(lambda *_: ran.append("forward"))
    x.requires_grad_()
    checkpoint(block, x, use_reentrant=False).sum().backward()
    assert len(ran) == 1 + 1
    ran.clear()
    y = checkpoint(block, x, use_reentrant=False)
    weights = list(block.parameters())
    _, owed = stage_backward_input(
        [y], [torch.ones_like(y)], [x], iter(weights)
    )
    assert len(ran) == 1 + 1
    stage_backward_weight(iter(weights), owed)
    assert len(ran) == 1 + 1 + groups


def in_place(donate: bool) -> str:
    """What a step of zero bubble says to blocks that were compiled in place,
    whose backward may or may not reuse what the forward saved."""
    rank, stages = dist.get_rank(), dist.get_world_size()
    block = Block()
    block.compile(backend="aot_eager")
    loss = nn.functional.mse_loss
    pipeline = Pipeline("InterleavedZeroBubble", {rank: block}, stages, 2, loss)
    (x,), (target,) = batch(rows=2)
    with functorch.patch(donated_buffer=donate):
        try:
            pipeline.step(x, target)
        except RuntimeError as error:
            return str(error.__cause__ or error)
    return "ran" if all(w.grad is not None for w in block.parameters()) else ""


def test_a_block_compiled_in_place_fails_in_the_first_step() -> None:
    """Under `ScheduleInterleavedZeroBubble` the last of two stages, whose block
    was compiled in place, raises when its backward is split. It runs with
    `torch._functorch.config.donated_buffer` off."""
    short = partial(grouped, seconds=10)
    _, said = ranks.run_ranks(2, short, in_place, True)
    assert "compiled with non-empty donated buffers" in said
    assert ranks.run_ranks(2, grouped, in_place, False) == ["ran", "ran"]


def paired(told: bool) -> list[str]:
    """The kinds of this rank's first pair of a DualPipeV step as they were
    done, or that a function was asked to do them."""
    rank, stages = dist.get_rank(), dist.get_world_size()
    every, done = model(2 * stages), []
    places = dealt("DualPipeV", 2, rank, stages)
    mine: dict[int, nn.Module] = {place: every[place] for place in places}
    loss = nn.functional.mse_loss
    pipeline = Pipeline("DualPipeV", mine, len(every), MICRO_BATCHES, loss)
    (x,), (target,) = batch()
    for stage in pipeline.stages:
        for kind in "forward", "backward":
            note(stage, f"{kind}_one_chunk", kind, done)
    if told:

        def asked(action: Any, context: Any) -> None:
            done.append("asked")
            raise StopIteration

        pipeline.schedule.register_custom_function(OVERLAP_F_B, asked)
        with pytest.raises(StopIteration):
            pipeline.step(x, target)
        return done[-1:]
    pipeline.step(x, target)
    table = pipeline.schedule.pipeline_order[rank]
    before = table[: [a.sub_actions is None for a in table].index(False)]
    at = sum(a.computation_type.value in "FBI" for a in before)
    return done[at : at + 2]


def note(stage: Any, method: str, kind: str, done: list[str]) -> None:
    """Have a stage write down what it does."""
    act = getattr(stage, method)

    def noted(*args: Any, **kwargs: Any) -> Any:
        done.append(kind)
        return act(*args, **kwargs)

    setattr(stage, method, noted)


def test_a_pair_runs_one_after_the_other_unless_told_how() -> None:
    """PyTorch runs a pair of DualPipeV's as a forward and then a backward. A
    function registered for such pairs runs instead of them."""
    assert (
        ranks.run_ranks(2, grouped, paired, False)
        == [["forward", "backward"]] * 2
    )
    assert ranks.run_ranks(2, grouped, paired, True) == [["asked"]] * 2


def test_a_split_backward_calls_a_weights_hook_and_not_its_accumulators() -> (
    None
):
    """When torch computes the gradients of a stage's weights by themselves,
    hooks of `register_hook` run, and those of
    `register_post_accumulate_grad_hook` don't."""
    block, ran = Block(), []
    weights = list(block.parameters())
    for weight in weights:
        weight.register_hook(lambda _: ran.append("tensor"))
        weight.register_post_accumulate_grad_hook(lambda _: ran.append("after"))
    x = torch.ones(1, WIDTH, requires_grad=True)
    y = block(x)
    _, owed = stage_backward_input(
        [y], [torch.ones_like(y)], [x], iter(weights)
    )
    stage_backward_weight(iter(weights), owed)
    assert ran == ["tensor"] * len(weights)


# Data parallelism on top


@pytest.fixture(scope="module")
def replicated() -> list[dict[tuple[str, str], Composed]]:
    """Each line of the page's second table, as every rank saw it."""
    return ranks.run_ranks(4, grouped, composed)


@pytest.fixture(scope="module")
def over_replicas(
    replicated: list[dict[tuple[str, str], Composed]],
) -> dict[tuple[str, str], Composed]:
    """As the last stage saw it."""
    return replicated[2]


def test_a_pipeline_averages_over_replicas_once_a_step(
    over_replicas: dict[tuple[str, str], Composed],
) -> None:
    """Two stages on two ranks each, eight micro-batches, 1F1B: under DDP there
    is one all-reduce a step, and under FSDP one reduce-scatter for each unit
    with weights. Gradients are those of the whole model on both replicas'
    batches."""
    for wrap, reduces in (("DDP", 1), ("FSDP, freed", 2), ("FSDP, kept", 2)):
        one = over_replicas[wrap, "1F1B"]
        assert (one.reduces, one.gradients) == (reduces, "right")


def test_weights_freed_after_a_forward_are_gathered_every_micro_batch(
    over_replicas: dict[tuple[str, str], Composed],
) -> None:
    """Two units under FSDP, eight micro-batches: with
    `reshard_after_forward=False` a step gathers each once, with `True` nine
    times."""
    assert over_replicas["FSDP, kept", "1F1B"].gathers == 2
    assert over_replicas["FSDP, freed", "1F1B"].gathers == 18


@pytest.mark.parametrize(("parts", "gathers"), [(2, 2), (3, 3), (4, 15)])
def test_torch_keeps_three_parts_of_a_rank_gathered(
    parts: int, gathers: int
) -> None:
    """To rank 0's list of the interleaved schedule, four ranks with sixteen
    micro-batches, torch adds one gather for each of two parts or of three. With
    four parts it adds fifteen, for it keeps no more than three gathered."""
    kinds = {
        "F": _ComputationType.FORWARD,
        "B": _ComputationType.FULL_BACKWARD,
    }
    schedule = Schedule("interleaved", RANKS, 16, parts)
    actions: list[_Action | None] = [
        _Action(schedule.place(0, part), kinds[kind], number)
        for ((kind, number, part),) in schedule.steps[0]
    ]
    listed = _add_unshard_reshard(actions)
    found = [action.computation_type for action in listed]
    assert found.count(UNSHARD) == gathers


def broad(free: bool) -> int:
    """Gathers of a step of `ScheduleLoopedBFS` over four parts on one rank,
    whose replica is on the other."""
    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("pp", "dp"))
    mine = dict(enumerate(fsdp(one, mesh["dp"], free) for one in model(4)))
    loss, group = nn.functional.mse_loss, mesh.get_group("pp")
    pipeline = Pipeline("LoopedBFS", mine, 4, MICRO_BATCHES, loss, group)
    (x,), (target,) = batch()
    pipeline.step(x, target)
    with Traffic() as traffic:
        pipeline.step(x, target)
    return [call.op for call in traffic.calls].count("all_gather")


@pytest.mark.parametrize(("free", "gathers"), [(False, 10), (True, 72)])
def test_breadth_first_gathers_a_part_once_in_each_direction(
    free: bool, gathers: int
) -> None:
    """Four parts of two layers on a rank, eight micro-batches, breadth-first.
    Where weights are kept after a forward, torch frees the first part alone and
    gathers its two layers again: ten gathers. Where FSDP frees them, each of
    the eight layers takes one for every forward and one backward: 72."""
    assert ranks.run_ranks(2, grouped, broad, free) == [gathers] * 2


def test_ddp_averages_nothing_under_a_zero_bubble_schedule(
    replicated: list[dict[tuple[str, str], Composed]],
) -> None:
    """With `ScheduleInterleavedZeroBubble` the last of two stages that are
    wrapped in DDP starts no all-reduce. It keeps its own replica's gradient,
    and nothing is raised. The first stage averages as it should."""
    first, _, last, _ = (
        one["DDP", "InterleavedZeroBubble"] for one in replicated
    )
    assert (last.reduces, last.gradients) == (0, "its own replica's")
    assert (first.reduces, first.gradients) == (1, "right")


def test_fsdp_that_frees_weights_loses_gradients_under_a_zero_bubble_schedule(
    over_replicas: dict[tuple[str, str], Composed],
) -> None:
    """With `ScheduleInterleavedZeroBubble` over layers that free their weights
    after each forward, parameters end the step without a gradient. With
    `reshard_after_forward=False` gradients are right."""
    freed = over_replicas["FSDP, freed", "InterleavedZeroBubble"]
    kept = over_replicas["FSDP, kept", "InterleavedZeroBubble"]
    assert (freed.reduces, freed.gradients) == (0, "missing")
    assert (kept.gathers, kept.reduces, kept.gradients) == (2, 2, "right")


# Losses


def padded() -> tuple[Tensor, Tensor]:
    """A batch in which the later rows are padding: micro-batches have from two
    tokens down to none."""
    (x,), (target,) = batch()
    target[9:] = 0
    target[1] = 0
    return x, target


def mean_over_tokens(output: Tensor, target: Tensor) -> Tensor:
    """The loss of a micro-batch as a mean over its own tokens."""
    count = (target.abs().sum(-1) > 0).sum()
    return summed(output, target) / count.clamp(min=1)


def unequal(by_tokens: bool) -> list[float]:
    """This rank's gradients of padded micro-batches, flat."""
    rank, stages = dist.get_rank(), dist.get_world_size()
    part = model(stages)[rank]
    loss = summed if by_tokens else mean_over_tokens
    x, target = padded()
    pipeline = Pipeline(
        *("1F1B", {rank: part}, stages, MICRO_BATCHES, loss),
        scale_grads=not by_tokens,
    )
    if by_tokens:
        per_token(pipeline, x, target, int((target.abs().sum(-1) > 0).sum()))
    else:
        pipeline.step(x, target)
    return flat(part)


def flat(part: nn.Module) -> list[float]:
    """Gradients of a part."""
    found: list[float] = []
    for parameter in part.parameters():
        assert parameter.grad is not None
        found += parameter.grad.flatten().tolist()
    return found


def joint(every: list[list[float]]) -> Tensor:
    """The gradients of all ranks, one after the other."""
    return torch.tensor([gradient for one in every for gradient in one])


def test_scaled_gradients_weigh_micro_batches_not_tokens() -> None:
    """Micro-batches have from two tokens down to none. Means over each one's
    own tokens, with `scale_grads` on, give another gradient than the mean over
    all tokens. Sums with `scale_grads` off, divided by the tokens of the whole
    batch, give that one."""
    whole, (x, target) = model(2), padded()
    mean_over_tokens(nn.Sequential(*whole)(x), target).backward()
    right = torch.tensor([g for part in whole for g in flat(part)])
    found = [
        joint(ranks.run_ranks(2, grouped, unequal, by_tokens))
        for by_tokens in (False, True)
    ]
    assert (found[0] - right).norm() > 0.1 * right.norm()
    torch.testing.assert_close(found[1], right)


# Clipping and tied weights


def clipped(together: bool) -> tuple[float, list[float]]:
    """The norm that clipping sees, and this rank's gradients after it."""
    rank, stages = dist.get_rank(), dist.get_world_size()
    part = model(stages)[rank]
    (x,), (target,) = batch()
    loss = nn.functional.mse_loss
    Pipeline("1F1B", {rank: part}, stages, MICRO_BATCHES, loss).step(x, target)
    parameters = list(part.parameters())
    if together:
        norm = clip_over_stages(parameters, 0.01)
    else:
        norm = nn.utils.clip_grad_norm_(parameters, 0.01)
    return float(norm), flat(part)


def test_a_stage_clips_by_its_own_norm_unless_stages_sum_theirs() -> None:
    """`clip_grad_norm_` on each of two stages scales them by different
    factors. With the squares of norms summed over the pipeline, both see the
    whole model's norm, and gradients are those of the whole model, clipped."""
    whole = nn.Sequential(*model(2))
    (x,), (target,) = batch()
    nn.functional.mse_loss(whole(x), target).backward()
    norm = float(nn.utils.clip_grad_norm_(whole.parameters(), 0.01))
    right = torch.tensor(flat(whole))
    own = ranks.run_ranks(2, grouped, clipped, False)
    both = ranks.run_ranks(2, grouped, clipped, True)
    assert own[0][0] != pytest.approx(own[1][0], rel=0.05)
    assert [one[0] for one in both] == pytest.approx([norm] * 2, rel=1e-4)
    apart, found = (joint([one[1] for one in every]) for every in (own, both))
    torch.testing.assert_close(found, right, atol=1e-8, rtol=1e-4)
    assert (apart - right).norm() > 0.1 * right.norm()


def clipped_shards() -> tuple[float, list[float]]:
    """The norm that clipping sees, and this stage's gradients after it, with
    each of two stages sharded over two ranks."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp"))
    place, replica = mesh.get_local_rank("pp"), mesh.get_local_rank("dp")
    part = fsdp(model(2)[place], mesh["dp"], free=False)
    x, target = batch(2)
    loss, group = nn.functional.mse_loss, mesh.get_group("pp")
    pipeline = Pipeline("1F1B", {place: part}, 2, MICRO_BATCHES, loss, group)
    pipeline.step(x[replica], target[replica])
    norm = clip_over_stages(list(part.parameters()), 0.01, group)
    gradients: list[float] = []
    for parameter in part.parameters():
        assert isinstance(parameter.grad, DTensor)
        gradients += parameter.grad.full_tensor().flatten().tolist()
    return float(norm), gradients


def test_sharded_stages_clip_by_the_whole_models_norm() -> None:
    """The norm of a stage under FSDP is a DTensor. Two stages on two ranks each
    see the whole model's norm, and clip to the whole model's gradients."""
    whole = nn.Sequential(*model(2))
    x, target = batch(2)
    nn.functional.mse_loss(whole(x), target).backward()
    norm = float(nn.utils.clip_grad_norm_(whole.parameters(), 0.01))
    first, _, last, _ = both = ranks.run_ranks(4, grouped, clipped_shards)
    assert [one[0] for one in both] == pytest.approx([norm] * 4, rel=1e-4)
    found, right = joint([first[1], last[1]]), torch.tensor(flat(whole))
    torch.testing.assert_close(found, right, atol=1e-8, rtol=1e-4)


class Ends(nn.Module):
    """A stage with a copy of the weight that the two ends share."""

    def __init__(self, shared: Tensor, first: bool) -> None:
        super().__init__()
        self.shared, self.first = nn.Parameter(shared.clone()), first

    def forward(self, x: Tensor) -> Tensor:
        return (x @ self.shared).tanh() if self.first else x @ self.shared.T


def tied() -> tuple[list[float], list[float]]:
    """The gradient of this rank's copy, before and after both are summed."""
    rank = dist.get_rank()
    shared = weights(1)[0][0]
    stage = Ends(shared, rank == 0)
    (x,), (target,) = batch()
    loss = nn.functional.mse_loss
    Pipeline("1F1B", {rank: stage}, 2, MICRO_BATCHES, loss).step(x, target)
    gradient = stage.shared.grad
    assert gradient is not None
    before = gradient.flatten().tolist()
    dist.all_reduce(gradient)
    return before, gradient.flatten().tolist()


def test_tied_weights_need_the_sum_of_both_ends_gradients() -> None:
    """The first and the last stage each hold a copy of one weight. Their
    gradients differ, so one step would make the copies differ. Summed, they
    are the gradient of the weight that an uncut model uses twice."""
    shared = weights(1)[0][0].requires_grad_()
    (x,), (target,) = batch()
    output = (x @ shared).tanh() @ shared.T
    nn.functional.mse_loss(output, target).backward()
    assert shared.grad is not None
    found = ranks.run_ranks(2, grouped, tied)
    own = [torch.tensor(before) for before, _ in found]
    assert (own[0] - own[1]).norm() > 0.1 * own[0].norm()
    for _, after in found:
        torch.testing.assert_close(torch.tensor(after), shared.grad.flatten())


# Shapes


def smaller() -> tuple[str, list[int]]:
    """A whole batch, then one of half as many rows: what is raised, and how
    many rows this rank's second forwards were given."""
    rank, stages = dist.get_rank(), dist.get_world_size()
    part, rows = model(stages)[rank], []
    part.register_forward_pre_hook(lambda _, args: rows.append(len(args[0])))
    loss = nn.functional.mse_loss
    pipeline = Pipeline("1F1B", {rank: part}, stages, MICRO_BATCHES, loss)
    (x,), (target,) = batch()
    pipeline.step(x, target)
    rows.clear()
    half = len(x) // 2
    try:
        pipeline.step(x[:half], target[:half])
    except RuntimeError as error:
        return str(error), rows
    return "", rows


def test_a_smaller_batch_meets_buffers_of_the_first_batchs_shape() -> None:
    """After a step with micro-batches of two rows, a step with one row each
    fails on gloo: the first stage's output has one row and the gradient that
    comes back has two, because the second stage computed on the buffer of the
    first step, in which one row was old."""
    (first, sent), (second, given) = ranks.run_ranks(
        2, partial(grouped, seconds=5), smaller
    )
    assert set(sent) == {1}
    assert set(given) == {2}
    assert "Failed to run stage backward" in first
    assert "torch.Size([1, 16])" in first
    assert "torch.Size([2, 16])" in first
    assert second  # its neighbor is gone
