"""The planner against torch: what real modules have, keep and step with."""

import itertools
from collections.abc import Callable
from typing import Any

import psutil
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed import _functional_collectives as collectives
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
    set_checkpoint_early_stop,
)
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from lockstep.experiments.demos.peak_memory import MODES, Classic, again
from lockstep.planner.activations import BLOCK, activations
from lockstep.planner.communication import ACTIVATION, REGATHERED
from lockstep.planner.hardware import HARDWARE
from lockstep.planner.layout import layout
from lockstep.planner.memory import OPTIMIZERS
from lockstep.planner.models import params, shape
from lockstep.planner.presets import PRESETS, preset
from lockstep.planner.questions import ask
from lockstep.trainer.process import joined
from tests import ranks
from tests.planner.blocks import Block, count


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_parameters_are_those_of_a_model_of_that_shape(name: str) -> None:
    """For each preset the planner counts as many parameters as a torch model of
    that shape has."""
    assert params(preset(name))["total"].value == count(name)


@pytest.mark.parametrize("name", ["llama3-8b", "deepseek-v3"])
def test_attention_takes_as_many_operations_as_torch_counts(name: str) -> None:
    """Attention's two products of one layer, forward and backward, over a
    sequence of 64 tokens. The planner's count is torch's FLOP counter's. In
    latent attention queries and keys have 64 rotary numbers that values lack,
    so DeepSeek-V3's heads of 128 cost as much as heads of 160."""
    planned = ask("flops", {"preset": name, "sequence": 64})
    heads, size, rope, layers = (
        planned[one] for one in ("heads", "head_dim", "rope_dim", "layers")
    )
    with torch.device("meta"):
        q, k = torch.ones(2, heads, 64, size + rope, requires_grad=True)
        v = torch.ones(heads, 64, size, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        ((q @ k.mT).softmax(-1) @ v).sum().backward()
    counted = layers * counter.get_total_flops()
    assert planned["attention_flops"].value * 64 == counted


def test_torchs_counter_adds_scores_that_a_flash_kernel_computes_again() -> (
    None
):
    """For flash attention on a GPU, torch's FLOP counter has formulas of two
    products in the forward pass and five in the backward pass, because the
    backward pass computes the scores again. Per token, that's 14 × width ×
    sequence, where the model needs 12."""
    q = torch.ones(1, 4, 64, 32, device="meta")
    width, sequence = 4 * 32, 64
    forward, backward = (
        flop_registry[operation](*[q] * inputs, out_val=None)
        for operation, inputs in (
            (torch.ops.aten._scaled_dot_product_flash_attention, 3),
            (torch.ops.aten._scaled_dot_product_flash_attention_backward, 4),
        )
    )
    assert forward / sequence == 4 * width * sequence
    assert backward / sequence == 10 * width * sequence


# Saved tensors


def storage(tensor: Tensor) -> torch.UntypedStorage:
    """Where this rank's part of it lies, once it has come."""
    if isinstance(tensor, DTensor):
        tensor = collectives.wait_tensor(tensor.to_local())
    return tensor.untyped_storage()


def kept(
    forward: Callable[[Tensor], Tensor], x: Tensor, module: nn.Module
) -> int:
    """Bytes that autograd keeps of `forward(x)`, without parameters."""
    ours = {storage(p).data_ptr() for p in module.parameters()}
    found: dict[int, torch.UntypedStorage] = {}  # alive, so none has another's

    def pack(tensor: Tensor) -> Tensor:
        one = storage(tensor)
        found[one.data_ptr()] = one
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        forward(x)
    return sum(s.nbytes() for at, s in found.items() if at not in ours)


SHAPE: dict[str, Any] = {"layers": 1, "hidden": 64, "heads": 4, "tp": 1}
SHAPE |= {"sequence": 32, "micro_batch": 2, "sequence_parallel": 0}
SHAPE |= {"mlp_copies": 4, "norm_bytes": 2}
TOKENS = 32 * 2


def made(module: nn.Module) -> tuple[nn.Module, Tensor]:
    """In 16 bits, with an input that has a history."""
    x = torch.randn(2, 32, 64, dtype=torch.bfloat16, requires_grad=True)
    return module.to(torch.bfloat16), x * 1


def statistics(x: Tensor) -> int:
    """Bytes of mean and deviation that two norms keep, which the formulas
    leave out."""
    _, mean, _ = torch.native_layer_norm(x, [64], None, None, 1e-5)
    return 2 * 2 * mean.untyped_storage().nbytes()


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_a_classic_block_keeps_what_korthikanti_counts(recompute: str) -> None:
    """What autograd saves of a GPT-3 block in each mode of recomputation is
    what the formula of Korthikanti et al. gives, but for the norms'
    statistics."""
    block, x = made(Classic(64, 4, MODES[recompute].core))
    full = recompute == "full"
    found = kept((lambda x: again(block, x)) if full else block, x, block)
    whole = activations(SHAPE | {"recompute": recompute})["bytes_per_layer"]
    norms = 0 if full else statistics(x)
    assert found == whole.value + norms


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("gated", [0, 1])
def test_a_block_with_flash_attention_keeps_what_we_count(
    gated: int, kv_heads: int
) -> None:
    """What autograd saves of a block with flash attention is what the planner
    says, to the byte, but for the norms' statistics."""
    s = SHAPE | {"head_dim": 16, "kv_heads": kv_heads, "ffn": 160, "bias": 0}
    s |= {"gated_mlp": gated, "layer_norm": 1, "kv_rank": 0, "cp": 1}
    block, x = made(Block(s))
    found = kept(block, x, block)
    expected = BLOCK(s | {"width": 160}).value
    assert found == expected + statistics(x)


class LlamaNorm(nn.Module):
    """RMS norm as Llama's own code writes it, in fp32."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)
        return y.type_as(x) * self.weight


NORMS: dict[Callable[[int], nn.Module], int] = {
    nn.LayerNorm: 4,
    LlamaNorm: 8,
    nn.RMSNorm: 10,
}


@pytest.mark.parametrize("norm", NORMS)
def test_an_eager_rms_norm_keeps_more_than_its_input_and_output(
    norm: Callable[[int], nn.Module],
) -> None:
    """A norm and the linear layer behind it keep, for each token and hidden
    number in bf16, 4 bytes with nn.LayerNorm, 8 with an RMS norm as Llama's
    code writes it, and 10 with nn.RMSNorm, which has no fused kernel on a
    CPU and keeps fp32 copies."""
    pair, x = made(nn.Sequential(norm(64), nn.Linear(64, 64, bias=False)))
    numbers = TOKENS * 64
    assert kept(pair, x, pair) // numbers == NORMS[norm]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("kv_heads", "ffn"), [(1, 224), (4, 160)])
def test_a_compiled_block_keeps_less_whatever_its_norms(
    norm: Callable[[int], nn.Module], kv_heads: int, ffn: int
) -> None:
    """With key-value heads k times the heads and an MLP w times the hidden
    size, an eager block keeps 4 + 4k + 8w bytes for each token and hidden
    number, and 4, 8 or 10 for each norm. Split by torch.compile's partitioner,
    it keeps 12 + 4k + 6w with every norm, because the backward pass computes
    norms and the activation again."""
    s = SHAPE | {"head_dim": 16, "kv_heads": kv_heads, "ffn": ffn, "bias": 0}
    s |= {"gated_mlp": 1, "layer_norm": 0, "kv_rank": 0, "cp": 1}
    block = Block(s)
    block.norm1, block.norm2 = norm(64), norm(64)
    block, x = made(block)
    numbers, k, w = TOKENS * 64, kv_heads / 4, ffn / 64
    eager = 4 + 4 * k + 8 * w + 2 * NORMS[norm]
    assert kept(block, x, block) // numbers == eager
    torch.compiler.reset()
    compiled = torch.compile(block, backend="aot_eager_decomp_partition")
    assert kept(compiled, x, block) // numbers == 12 + 4 * k + 6 * w


@pytest.mark.parametrize(("every", "kept_bytes"), [(1, 25.0), (2, 15.5)])
def test_selective_recomputation_keeps_matmuls_and_attention(
    every: int, kept_bytes: float
) -> None:
    """A block with a quarter as many key-value heads as heads and an MLP 3.5
    times the hidden size, under a policy that saves attention and all matmuls,
    keeps 25 bytes for each token and hidden number, its input included. If only
    every second matmul is saved, as in torchtitan, it keeps 15.5."""
    matmul = torch.ops.aten.mm.default
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    calls = itertools.count()

    def policy(ctx: Any, op: Any, *args: Any, **more: Any) -> CheckpointPolicy:
        if op == kernel or (op == matmul and next(calls) % every == 0):
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    contexts = create_selective_checkpoint_contexts(policy)
    s = SHAPE | {"head_dim": 16, "kv_heads": 1, "ffn": 224, "bias": 0, "cp": 1}
    block, x = made(Block(s | {"gated_mlp": 1, "layer_norm": 0, "kv_rank": 0}))
    checkpoint(block, x, use_reentrant=False, context_fn=lambda: contexts)
    saved = sum(
        one.val.nbytes
        for outputs in contexts[0].storage.values()
        for one in tree_leaves(outputs)
        if isinstance(getattr(one, "val", None), Tensor)
    )
    sums = TOKENS * 4 * 4  # of each head the logarithm of a sum, in fp32
    assert (x.nbytes + saved - sums) / (TOKENS * 64) == kept_bytes


@pytest.mark.parametrize("early", [True, False])
def test_recomputing_a_llama_block_costs_a_quarter(early: bool) -> None:
    """torch's checkpoint stops before a block's last product, so a block of
    Llama 3 8B, with 8,192 tokens, takes a quarter more operations, and a third
    only with early stop off."""
    with torch.device("meta"):
        block = Block(shape(preset("llama3-8b")))
        x = torch.ones(1, 8192, 4096, requires_grad=True)

    def counted(forward: Callable[[Tensor], Tensor]) -> int:
        with FlopCounterMode(display=False) as counter:
            forward(x * 1).sum().backward()
        return counter.get_total_flops()

    with set_checkpoint_early_stop(early):
        more = counted(lambda x: again(block, x)) / counted(block) - 1
    assert more == pytest.approx(0.25 if early else 1 / 3, abs=0.02)


def test_autocast_keeps_its_copies_of_weights_until_the_backward_pass() -> None:
    """Linear layers with fp32 weights under bf16 autocast keep, after the
    forward pass, 2 bytes for each parameter beside the weights themselves."""
    stack = nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(4)))

    def forward(x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return stack(x)

    one = torch.ones(1, 64, requires_grad=True)
    activations = 4 * 64 * 2  # of one token: each layer's input, in bf16
    found = kept(forward, one, stack) - activations
    assert found == 2 * sum(p.numel() for p in stack.parameters())


def split_block() -> tuple[int, float]:
    """Tensor and sequence parallel on two ranks: what a rank keeps, and what
    it should."""
    s = SHAPE | {"head_dim": 16, "kv_heads": 4, "ffn": 160, "bias": 0}
    s |= {"gated_mlp": 0, "layer_norm": 1, "kv_rank": 0, "cp": 1}
    s |= {"tp": 2, "sequence_parallel": 1}
    with joined(30, ranks.store()):
        block, x = made(Block(s))
        gather = {"input_layouts": Shard(1)}
        gather |= {"desired_input_layouts": Replicate()}
        plan: dict[str, ParallelStyle] = {
            "norm1": SequenceParallel(),
            "attention": PrepareModuleInput(**gather),
            "attention.o": RowwiseParallel(output_layouts=Shard(1)),
            "norm2": SequenceParallel(),
            "mlp": PrepareModuleInput(**gather),
            "mlp.up": ColwiseParallel(),
            "mlp.down": RowwiseParallel(output_layouts=Shard(1)),
        }
        plan |= {f"attention.{name}": ColwiseParallel() for name in "qkv"}
        mesh = init_device_mesh("cpu", (2,))
        half = x[:, :16].clone()
        found = kept(parallelize_module(block, mesh, plan), half, block)
    s |= {"microbatches": 1, "pp": 1, "bytes_activation": 2, "width": 160}
    s |= {"activation_bytes": ACTIVATION(s).value}
    expected = BLOCK(s).value + REGATHERED(s).value + statistics(half)
    return found, expected


def test_sequence_parallelism_keeps_what_megatron_gathers_again() -> None:
    """On two ranks, torch's sequence parallelism keeps what the planner says it
    gathers once."""
    for found, expected in ranks.run_ranks(2, split_block):
        assert found == expected


# Optimizers

MADE: dict[str, Callable[[list[Tensor]], torch.optim.Optimizer]] = {
    "adam-fp32": torch.optim.AdamW,
    "sgd-momentum-fp32": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
}


@pytest.mark.parametrize("name", MADE)
def test_an_optimizer_holds_so_many_bytes(name: str) -> None:
    """After a step each of torch's optimizers holds, for each parameter, the
    bytes that the planner says."""
    weight = nn.Parameter(torch.ones(16, 16))
    optimizer = MADE[name]([weight])
    weight.grad = torch.ones_like(weight)
    optimizer.step()
    held = [t for t in optimizer.state[weight].values() if t.numel() > 1]
    bytes_parameter, bytes_gradient, bytes_optimizer, _ = OPTIMIZERS[name]
    assert weight.element_size() == bytes_parameter
    assert weight.grad.element_size() == bytes_gradient
    assert sum(t.element_size() for t in held) == bytes_optimizer


def test_muon_holds_one_momentum_beside_a_master_copy() -> None:
    """torch's Muon holds one momentum, which with the master weight makes the
    bytes that the planner says."""
    master = nn.Parameter(torch.ones(16, 16))
    optimizer = torch.optim.Muon([master])
    master.grad = torch.ones_like(master)
    optimizer.step()
    held = sum(t.element_size() for t in optimizer.state[master].values())
    assert held + master.element_size() == OPTIMIZERS["muon"][2]


def test_8_bit_adam_holds_what_it_was_seen_to_hold() -> None:
    """bitsandbytes 0.50.2 and torchao 0.18.0, of which neither is needed here,
    kept the same for 1,024 by 1,024 weights on a CPU: two moments of a byte,
    a scale in fp32 for each block of 256, and two tables of 256 values. What
    updates the weights, in fp32, is beside them."""
    weights, held = 2**20, 2_131_968
    assert held == 2 * (weights + weights // 256 * 4 + 256 * 4)
    planned = OPTIMIZERS["adam-8bit"][2] * weights
    assert 4 * weights + held - 2 * 1024 == planned


def resident(as_view: bool) -> int:
    """Bytes in memory of a process after a step's backward pass under DDP."""
    with joined(60, dist.HashStore()):
        model = nn.Linear(4096, 4096, bias=False)
        ddp = DistributedDataParallel(model, gradient_as_bucket_view=as_view)
        ddp(torch.ones(1, 4096)).sum().backward()
        return psutil.Process().memory_info().rss


def test_buckets_are_a_copy_of_gradients_unless_those_are_views() -> None:
    """DDP's buckets take as much memory as the gradients, unless
    `gradient_as_bucket_view` is set, and the planner counts them so."""
    (apart,), (views,) = (ranks.run_ranks(1, resident, v) for v in (0, 1))
    given = preset("llama3-8b") | HARDWARE["h100"] | {"gpus": 8}
    given |= {"sequence": 8192, "global_batch": 8, "bytes_gradient": 4}
    plan = layout(given | {"bucket_copies": True})
    copies = plan["buffers_bytes"].value / plan["gradients_bytes"].value
    assert copies == 1
    assert layout(given)["buffers_bytes"].value == 0
    found = (apart - views) / (4096 * 4096 * 4)
    assert found == pytest.approx(copies, abs=0.2)
