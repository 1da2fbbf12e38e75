"""What the chapter on sharding says of FSDP2, run on gloo ranks."""

from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
)
from torch.distributed.tensor import DTensor
from torch.nn.utils import clip_grad_norm_

from lockstep.experiments.demos import fsdp2_traffic
from lockstep.experiments.demos.fsdp2_traffic import (
    LAYERS,
    RANKS,
    RATE,
    VOCABULARY,
    WIDTH,
    Seen,
    Transformer,
    from_rank_0,
    hybrid,
    seen,
    shard,
    sharded_step,
    stack,
    train_step,
)
from lockstep.instruments.memory import Memory
from lockstep.instruments.traffic import Call, Traffic
from lockstep.trainer.process import joined
from tests import ranks


def grouped(work: Any, *args: Any) -> Any:
    """`work(*args)` in a group of all ranks."""
    with joined(30, ranks.store()):
        return work(*args)


def mesh() -> Any:
    """All ranks, in one dimension."""
    return init_device_mesh("cpu", (dist.get_world_size(),))


# The step by hand


def by_hand() -> list[list[float]]:
    """The weights that a step of every rank's shards leaves, as one list."""
    rank, world = dist.get_rank(), dist.get_world_size()
    parts = [
        layer.weight.detach().chunk(world)[rank].clone() for layer in stack()
    ]
    x, y = (rows.chunk(world)[rank] for rows in batch())
    sharded_step(parts, x, y)
    return [part.flatten().tolist() for part in parts]


def batch() -> tuple[Tensor, Tensor]:
    """Inputs and targets of all ranks together."""
    chance = torch.Generator().manual_seed(1)
    x, y = (torch.randn(8, WIDTH, generator=chance) for _ in range(2))
    return x, y


def test_a_sharded_step_by_hand_is_the_step_of_one_process() -> None:
    """Two ranks that keep half of each weight, gather it for each layer and
    reduce-scatter its gradient end with the weights of one process that took
    the same step on the whole batch."""
    model = stack()
    before = [layer.weight.detach().flatten().clone() for layer in model]
    x, y = batch()
    nn.functional.mse_loss(model(x), y).backward()
    torch.optim.SGD(model.parameters(), RATE).step()
    found = zip(*ranks.run_ranks(2, grouped, by_hand), strict=True)
    for layer, old, halves in zip(model, before, found, strict=True):
        mine = torch.tensor(halves).flatten() - old
        update = layer.weight.detach().flatten() - old
        assert update.norm() > 0.01
        assert torch.allclose(mine, update, atol=1e-3 * float(update.norm()))


# FSDP2 as a reader would write it


def tokens() -> tuple[Tensor, Tensor]:
    """Return the tokens and targets of all ranks together, (4, 8) each."""
    chance = torch.Generator().manual_seed(1)
    x, y = torch.randint(VOCABULARY, (2, 4, 8), generator=chance)
    return x, y


def with_fsdp2(steps: int) -> list[list[float]]:
    """Return all parameters after some steps on this rank's sequences. The
    shards' dtype is fp32."""
    rank, world = dist.get_rank(), dist.get_world_size()
    optimizer = shard(model := Transformer(), mesh())
    x, y = (rows.chunk(world)[rank] for rows in tokens())
    for _ in range(steps):
        train_step(model, optimizer, x, y)
    parts: list[Any] = list(model.parameters())
    assert {part.to_local().dtype for part in parts} == {torch.float32}
    return [part.full_tensor().flatten().tolist() for part in parts]


def test_fsdp2_in_bf16_trains_what_one_process_trains() -> None:
    """Two ranks with fp32 shards, bf16 gathers, fp32 reduction and clipping end
    with the weights of one process that computes each half of the batch with a
    bf16 copy of its fp32 weights and averages both gradients in fp32."""
    model, (x, y) = Transformer(), tokens()
    before = [part.detach().clone() for part in model.parameters()]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(2):
        for rows, targets in zip(x.chunk(2), y.chunk(2), strict=True):
            half = Transformer().bfloat16()
            half.load_state_dict(model.state_dict())
            logits = half(rows).float().flatten(0, 1)
            nn.functional.cross_entropy(logits, targets.flatten()).backward()
            pairs = zip(model.parameters(), half.parameters(), strict=True)
            for part, copy in pairs:
                assert copy.grad is not None
                mine = copy.grad.float() / 2
                part.grad = mine if part.grad is None else part.grad + mine
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    for found in ranks.run_ranks(2, grouped, with_fsdp2, 2):
        for part, old, one in zip(
            model.parameters(), before, found, strict=True
        ):
            update = part.detach() - old
            mine = torch.tensor(one).view_as(old) - old
            assert update.norm() > 0
            assert (mine - update).norm() < 0.01 * update.norm()


Held = dict[str, tuple[bool, bool]]


def ends_held() -> list[Held]:
    """Return what is held whole of the embedding and the output layer while the
    first block's backward pass runs, wrapped as on the page and by blocks."""
    return [of_ends(by_blocks) for by_blocks in (False, True)]


def of_ends(by_blocks: bool) -> Held:
    """Return by layer whether its weight is whole, and has a gradient."""
    model = Transformer()
    if by_blocks:
        for unit in [*model.blocks, model]:
            fully_shard(unit, mesh=mesh())
    else:
        shard(model, mesh())
    held: Held = {}

    def look(gradient: Tensor) -> None:
        for name in "embedding", "output":
            weight = getattr(model, name).weight
            whole = not isinstance(weight, DTensor)
            held[name] = whole, whole and weight.grad is not None

    def watch(block: nn.Module, args: Any, out: Tensor) -> None:
        out.register_hook(look)

    model.blocks[0].register_forward_hook(watch)
    model(tokens()[0]).float().sum().backward()
    return held


def test_a_root_keeps_embedding_and_output_layer_whole() -> None:
    """If the root holds the embedding and the output layer, both are still
    whole in the first block's backward pass, the last to run, and so is the
    output layer's gradient. As units of their own, neither is."""
    for units, root in ranks.run_ranks(2, grouped, ends_held):
        assert units == {"embedding": (False, False), "output": (False, False)}
        assert root == {"embedding": (True, False), "output": (True, True)}


# What is gathered, sent and held


@pytest.fixture(scope="module")
def counted() -> dict[str, Seen]:
    """Each case of the page's table, as rank 0 saw it."""
    return ranks.run_ranks(RANKS, grouped, seen)[0]  # type: ignore[no-any-return]


def test_one_unit_gathers_all_weights_at_once(
    counted: dict[str, Seen],
) -> None:
    """With `fully_shard` on the root alone, one all-gather brings all weights,
    and a rank holds more than the whole model at the peak. With a unit for each
    of eight layers, the largest gather is an eighth, and so is the peak lower
    than the model."""
    alone, each = counted["root alone"], counted["each layer"]
    assert (alone.gathers, alone.largest) == (1, 1)
    assert (each.gathers, each.largest) == (2 * LAYERS, 1 / LAYERS)
    assert alone.peak > 2 > 1 > each.peak


def test_weights_kept_after_forward_are_gathered_once(
    counted: dict[str, Seen],
) -> None:
    """`reshard_after_forward=True` gathers every layer twice and sends one and
    a half times what DDP's all-reduce sends. `False` gathers once, sends as
    much as DDP, and holds more. An int gathers again among fewer ranks."""
    freed, kept = counted["each layer"], counted["each layer, kept"]
    assert freed.gathers == 2 * kept.gathers
    assert (freed.sent, kept.sent) == (1.5, 1)
    twos = counted["each layer, by twos"]
    assert freed.peak < twos.peak < kept.peak
    assert kept.sent < twos.sent < freed.sent


def test_accumulation_gathers_for_every_micro_batch(
    counted: dict[str, Seen],
) -> None:
    """Four micro-batches send four times as much as one. Without gradient sync
    until the last, the gathers stay. With weights kept as well, the step sends
    what DDP's does, and a rank holds whole weights and whole gradients."""
    one, four = counted["each layer"], counted["4 micro-batches"]
    assert four.sent == 4 * one.sent
    waits = counted["  reduced at the end"]
    assert (waits.gathers, waits.reduces) == (four.gathers, LAYERS)
    keeps = counted["  and weights kept"]
    assert (keeps.gathers, keeps.reduces, keeps.sent) == (LAYERS, LAYERS, 1)
    assert one.peak < four.peak < waits.peak < keeps.peak
    assert keeps.peak > 2


def test_the_demo_prints_a_line_for_each_case(
    counted: dict[str, Seen],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(fsdp2_traffic, "in_a_group", lambda *_: [counted])
    fsdp2_traffic.main()
    _, *lines = capsys.readouterr().out.splitlines()
    assert [line[:22].rstrip() for line in lines] == [*counted]
    sent = [float(line.split()[-2]) for line in lines]
    assert sent == [round(one.sent, 2) for one in counted.values()]


def of_hybrid() -> list[tuple[str, int]]:
    """The collectives of a step on two nodes of two, and their ranks."""
    hybrid(model := stack(), 2, 2)
    with Traffic() as traffic:
        model(torch.ones(1, WIDTH)).sum().backward()
    return [(call.op, call.ranks) for call in traffic.calls]


def test_hybrid_sharding_gathers_in_the_node() -> None:
    """On a mesh of two nodes with two GPUs, gathers and reduce-scatters are
    among the two of a node. One all-reduce for each layer crosses nodes, and it
    is among the two that hold the same shard."""
    for calls in ranks.run_ranks(4, grouped, of_hybrid):
        assert set(calls) == {
            ("all_gather", 2),
            ("reduce_scatter", 2),
            ("all_reduce", 2),
        }
        assert calls.count(("all_reduce", 2)) == LAYERS


# Precision


def reducing(dtype: torch.dtype) -> tuple[list[float], list[float]]:
    """What a step of one micro-batch in bf16 sends, and one of four, over what
    DDP sends with gradients of that dtype; and, while each layer's backward
    pass runs, the bytes a parameter of reduce-scatter inputs that are held."""
    model = stack()
    policy = MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=dtype)
    for layer in [*model, model]:
        fully_shard(layer, mesh=mesh(), mp_policy=policy)
    states: Any = model
    held: list[float] = []

    def hold(gradient: Tensor) -> None:
        found = states._get_fsdp_state()._comm_ctx.reduce_scatter_states
        size = sum(one.reduce_scatter_input.nbytes for one in found)
        held.append(size / WIDTH**2)

    def watch(layer: nn.Module, args: Any, out: Tensor) -> None:
        out.register_hook(hold)

    for layer in model:
        layer.register_forward_hook(watch)
    counted = []
    for micro_batches in 1, 4:
        with Traffic() as traffic:
            for _ in range(micro_batches):
                model(torch.ones(1, WIDTH)).sum().backward()
        counted.append(traffic.sent)
    whole = dtype.itemsize * LAYERS * WIDTH**2
    of_ddp = Call("all_reduce", whole, dist.get_world_size()).sent
    return [one / of_ddp for one in counted], held[:LAYERS]


def both() -> dict[torch.dtype, tuple[list[float], list[float]]]:
    """By the dtype that gradients are reduced in."""
    return {one: reducing(one) for one in (torch.float32, torch.bfloat16)}


@pytest.fixture(scope="module")
def by_dtype() -> dict[torch.dtype, tuple[list[float], list[float]]]:
    """That, as rank 0 saw it."""
    return ranks.run_ranks(2, grouped, both)[0]  # type: ignore[no-any-return]


def test_reduced_in_fp32_a_micro_batch_sends_what_ddp_sends(
    by_dtype: dict[torch.dtype, tuple[list[float], list[float]]],
) -> None:
    """With weights in bf16 and gradients reduced in fp32, a step of one
    micro-batch sends exactly what DDP's all-reduce of fp32 gradients sends, and
    one of four micro-batches four times that. Reduced in bf16 it is one and a
    half times what DDP sends with bf16 gradients, and six times."""
    assert by_dtype[torch.float32][0] == [1, 4]
    assert by_dtype[torch.bfloat16][0] == [1.5, 6]


def test_a_gradient_is_held_until_the_next_layers_is_complete(
    by_dtype: dict[torch.dtype, tuple[list[float], list[float]]],
) -> None:
    """While the backward pass of a layer runs, FSDP2 still holds the whole
    gradient of the layer before, as the input of its reduce-scatter: 4 bytes a
    parameter reduced in fp32, 2 in bf16. The first layer finds none."""
    for dtype, (_, held) in by_dtype.items():
        assert held == [0] + [dtype.itemsize] * (LAYERS - 1)


def whole_forward() -> list[float]:
    """The weights that live while each layer's forward pass runs, over those of
    a layer. Each gathers the next one before it runs."""
    model = stack()
    for layer in [*model, model]:
        fully_shard(layer, mesh=mesh())
    layers: list[Any] = list(model)
    for layer, following in pairwise(layers):
        layer.set_modules_to_forward_prefetch([following])
    held: list[float] = []
    with torch.no_grad():
        model(torch.ones(1, WIDTH))  # the first pass sets up
        with Memory() as memory:
            for layer in layers:
                layer.register_forward_pre_hook(
                    lambda *_: held.append(memory.live / (4 * WIDTH**2))
                )
            model(torch.ones(1, WIDTH))
    return held


def test_the_forward_pass_holds_three_layers_whole() -> None:
    """A gather fills a buffer, and FSDP2 copies the weights out of it. It keeps
    that buffer until the next layer's copy. So while a layer runs, it, its
    buffer and the next one's live; of the last, which has no next one, two."""
    for held in ranks.run_ranks(2, grouped, whole_forward):
        expected = [3] * (LAYERS - 1) + [2]
        assert held == pytest.approx(expected, abs=0.1)


def tied() -> list[str]:
    """What a step of an embedding and an output layer with one weight says,
    sharded as one unit and as two."""
    return [of_tied(together) for together in (True, False)]


def of_tied(together: bool) -> str:
    """What one of them says."""
    table, output = nn.Embedding(8, 4), nn.Linear(4, 8, bias=False)
    output.weight = table.weight
    model = nn.Sequential(table, output)
    units: Any = [[table, output]] if together else [table, output]
    for unit in [*units, model]:
        fully_shard(unit, mesh=mesh())
    try:
        model(torch.arange(8)).sum().backward()
    except ValueError as error:
        return str(error)
    return "trains"


def test_tied_weights_share_a_unit() -> None:
    """An embedding and an output layer that have one weight cannot be units of
    their own: the first forward pass raises. `fully_shard([a, b])` makes one
    unit of both, and that trains."""
    for one_unit, two_units in ranks.run_ranks(2, grouped, tied):
        assert one_unit == "trains"
        assert "fully_shard([module_a, module_b])" in two_units


def seen_dtypes() -> dict[str, str]:
    """Where a sharded layer has which dtype."""
    layer = nn.Linear(4, 4)
    found: dict[str, str] = {}
    low = MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=torch.float32)
    fully_shard(layer, mesh=mesh(), mp_policy=low)
    layer.register_forward_hook(
        lambda layer, args, out: found.update(
            weight=str(layer.weight.dtype), output=str(out.dtype)
        )
    )
    layer(torch.ones(1, 4)).sum().backward()
    found["shard"] = str(layer.weight.dtype)
    found["gradient"] = str(layer.weight.grad.dtype)  # type: ignore[union-attr]
    return found


def test_a_layer_computes_in_bf16_and_its_shard_stays_fp32() -> None:
    """With `param_dtype` bf16 and `reduce_dtype` fp32 the gathered weight and
    the output are bf16, while the shard and its gradient stay fp32."""
    found = ranks.run_ranks(2, grouped, seen_dtypes)[0]
    low, high = "torch.bfloat16", "torch.float32"
    assert (found["weight"], found["output"]) == (low, low)
    assert (found["shard"], found["gradient"]) == (high, high)


def reduced(dtype: torch.dtype) -> float:
    """The mean of two ranks' gradients, 256 and 1, reduced in a dtype."""
    layer = nn.Linear(1, 2, bias=False)
    policy = MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=dtype)
    fully_shard(layer, mesh=mesh(), mp_policy=policy)
    mine = (256.0, 1.0)[dist.get_rank()]
    layer(torch.full((1, 1), mine)).sum().backward()
    gradient: Any = layer.weight.grad
    return float(gradient.to_local()[0, 0])


def test_a_bf16_reduction_loses_a_small_gradient() -> None:
    """One rank's gradient is 256, the other's is 1. Reduced in fp32 their mean
    is 128.5. Reduced in bf16 it is 128: the small one has vanished."""
    assert ranks.run_ranks(2, grouped, reduced, torch.float32) == [128.5] * 2
    assert ranks.run_ranks(2, grouped, reduced, torch.bfloat16) == [128.0] * 2


def waiting(dtype: torch.dtype) -> torch.dtype:
    """The format of gradients that wait for the last micro-batch, when they
    are reduced in a dtype."""
    layer = nn.Linear(4, 4, bias=False)
    policy = MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=dtype)
    sharded: Any = fully_shard(layer, mesh=mesh(), mp_policy=policy)
    sharded.set_requires_gradient_sync(False)
    for _ in range(2):
        layer(torch.ones(1, 4)).sum().backward()
    group = sharded._get_fsdp_state()._fsdp_param_group
    one = group.fsdp_params[0]
    whole: Tensor = one.unsharded_accumulated_grad
    if whole is None:  # then there was nothing to convert
        whole = one._unsharded_param.grad
    assert whole.shape == (4, 4)
    return whole.dtype


def test_gradients_wait_in_the_format_they_are_reduced_in() -> None:
    """Without gradient sync, whole gradients are kept until the last
    micro-batch: in fp32 where they are reduced in fp32, in bf16 where they are
    reduced in bf16."""
    for dtype in torch.float32, torch.bfloat16:
        assert ranks.run_ranks(2, grouped, waiting, dtype) == [dtype] * 2


def clipped() -> list[float]:
    """The norm that clipping returns, and that of this rank's shards."""
    model = stack()
    for layer in model:
        fully_shard(layer, mesh=mesh())
    fully_shard(model, mesh=mesh())
    model(torch.ones(1, WIDTH)).square().sum().backward()
    own: Any = [parameter.grad for parameter in model.parameters()]
    mine = float(torch.stack([g.to_local().norm() for g in own]).norm())
    norm: Any = clip_grad_norm_(model.parameters(), 1e9)
    return [float(norm.full_tensor()), mine]


def test_clipping_takes_the_norm_over_all_shards() -> None:
    """`clip_grad_norm_` returns a DTensor whose full value is the norm over the
    whole model, the same on both ranks. The norm of a rank's own shards is
    another and a smaller number."""
    model = stack()
    model(torch.ones(1, WIDTH)).square().sum().backward()
    whole = float(clip_grad_norm_(model.parameters(), 1e9))
    for norm, own in ranks.run_ranks(2, grouped, clipped):
        assert norm == pytest.approx(whole, rel=1e-4)
        assert own < 0.95 * whole


# Starting and saving


def loaded() -> tuple[list[int], list[float], list[str], list[str]]:
    """How large this rank's shards are, what the first weight is, and which
    names a full and a sharded state dict hold."""
    whole = stack().state_dict() if dist.get_rank() == 0 else {}
    model = from_rank_0(whole)
    weights: Any = list(model.parameters())
    full = get_model_state_dict(
        model, options=StateDictOptions(full_state_dict=True, cpu_offload=True)
    )
    sharded = get_model_state_dict(model)
    assert all(isinstance(one, DTensor) for one in sharded.values())
    return (
        [one.to_local().numel() for one in weights],
        weights[0].full_tensor().flatten().tolist(),
        list(full),
        list(sharded),
    )


def test_a_model_made_on_meta_loads_what_rank_0_has() -> None:
    """A model built without memory, sharded, and loaded with
    `broadcast_from_rank0` has rank 0's weights on every rank, although the
    other had none to give, and each rank's memory holds its half."""
    expected = stack()[0].weight.flatten().tolist()
    for sizes, first, _, _ in ranks.run_ranks(2, grouped, loaded):
        assert sizes == [WIDTH * WIDTH // 2] * LAYERS
        assert first == expected


def test_a_full_state_dict_is_given_to_rank_0_alone() -> None:
    """Asked for a full state dict on the CPU, rank 0 gets every weight and the
    other rank an empty dict. A sharded one has all names on both ranks."""
    names = list(stack().state_dict())
    found = ranks.run_ranks(2, grouped, loaded)
    assert [full for _, _, full, _ in found] == [names, []]
    assert [sharded for *_, sharded in found] == [names, names]


# Mistakes


def stepped(built_before: bool) -> bool:
    """Whether a step changes the weights."""
    layer = nn.Linear(4, 4)
    early = torch.optim.SGD(layer.parameters(), 1.0)
    fully_shard(layer, mesh=mesh())
    late = torch.optim.SGD(layer.parameters(), 1.0)
    weight: Any = layer.weight
    before = weight.full_tensor().clone()
    layer(torch.ones(1, 4)).sum().backward()
    (early if built_before else late).step()
    return not torch.equal(before, weight.full_tensor())


def test_an_optimizer_built_before_sharding_trains_nothing() -> None:
    """`fully_shard` puts new parameters into the module. An optimizer that was
    built before holds the old ones: its step raises nothing and changes
    nothing. Built after, it trains."""
    assert ranks.run_ranks(2, grouped, stepped, True) == [False] * 2
    assert ranks.run_ranks(2, grouped, stepped, False) == [True] * 2


class Encoder(nn.Module):
    """A layer with a second way in."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.encode(x)

    def encode(self, x: Tensor) -> Tensor:
        """What forward does."""
        return self.inner(x)  # type: ignore[no-any-return]


def encoded(registered: bool) -> str:
    """What comes of calling another method than forward."""
    model = Encoder()
    fully_shard(model, mesh=mesh())
    if registered:
        register_fsdp_forward_method(model, "encode")
    try:
        return str(tuple(model.encode(torch.ones(1, 4)).shape))
    except RuntimeError as error:
        return str(error)


def test_a_method_other_than_forward_finds_shards() -> None:
    """Hooks gather weights for `forward` alone. Another method meets a DTensor
    and raises, unless `register_fsdp_forward_method` names it."""
    for found in ranks.run_ranks(2, grouped, encoded, False):
        assert "mixed torch.Tensor and DTensor" in found
    assert ranks.run_ranks(2, grouped, encoded, True) == ["(1, 4)"] * 2


def skipping(skips: bool) -> str:
    """One rank leaves out a layer that the other runs."""
    model = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
    for layer in model:
        fully_shard(layer, mesh=mesh())
    x = model[0](torch.ones(1, 4))
    if not skips or dist.get_rank() == 0:
        x = model[1](x)
    return str(tuple(x.shape))


def test_a_rank_that_skips_a_layer_leaves_the_other_waiting() -> None:
    """Two ranks run two sharded layers. When one of them skips the second and
    leaves, the other is still in that layer's all-gather, and fails there."""
    assert ranks.run_ranks(2, grouped, skipping, False) == ["(1, 4)"] * 2
    with pytest.raises(ranks.RankError, match=r"all_gather|[Cc]onnection"):
        ranks.run_ranks(2, grouped, skipping, True, timeout=20)
