"""What can be asked: for the command, for the pages and for the browser.

A question has inputs, each with its default (none: it must be given) and one
line of help, and a function that answers with figures.
"""

from .activations import activations
from .collectives import ALGORITHMS, BUS, collective
from .communication import CONTEXT, DEFAULTS
from .constants import VALUES
from .figures import PlanError, decimal, flag, one_of
from .flops import RECOMPUTE, flops
from .goodput import goodput
from .hardware import HARDWARE, RATES
from .intervals import judged
from .layout import LOSSES, OFFLOAD, RUN, RUN_RECOMPUTE, WHITEBOARD
from .memory import BYTES, OPTIMIZERS, memory
from .models import SHAPE, params
from .pair import ATTENTION, TRUNK, TRUNKS, pair, trunk
from .pipeline import SCHEDULES, pipeline
from .presets import PRESETS, preset
from .search import none_fits, numbers, search
from .seconds import KERNELS, PRECISIONS

HELP = {
    "preset": "Published model. Other options replace its values",
    "layers": "Number of layers",
    "hidden": "Width of the residual stream",
    "heads": "Attention heads",
    "vocab": "Vocabulary size",
    "kv_heads": "Heads of keys and values; 0: as many as heads",
    "head_dim": "Width of a head; 0: hidden / heads",
    "ffn": "Width of the MLP; 0: 4 hidden",
    "positions": "Learned positions; 0 with rotary embeddings",
    "gated_mlp": "Gated MLP with three matrices instead of two",
    "tied_embeddings": "One table for the embedding and the output layer",
    "bias": "Biases in all linear layers",
    "layer_norm": "Layer norm instead of RMS norm",
    "experts": "Experts per layer; 0: one dense MLP",
    "experts_per_token": "Experts that each token is routed to",
    "shared_experts": "Experts that every token passes through",
    "expert_ffn": "Width of an expert; 0: ffn",
    "dense_layers": "First layers, which have no experts",
    "window": "Tokens that a query attends to in layers with sliding windows",
    "windowed_layers": "Layers with sliding windows",
    "mtp": "Modules that predict further tokens (multi-token prediction), each"
    " one more layer and one more pass of the output layer",
    "q_rank": "Rank of the queries of multi-head latent attention; 0: whole",
    "kv_rank": "Rank of keys and values of multi-head latent attention; 0:"
    " ordinary attention",
    "rope_dim": "Width of a head's rotary part in multi-head latent attention",
    "trunk": "Published folding trunk. Other options replace its values",
    "residues": "Residues of the protein, or tokens of the complex",
    "rows": "Ranks that split the rows of the pair representation",
    "columns": "Ranks that split its columns",
    "channels": "Channels of the pair representation",
    "pair_bias": "Biases in the linear layers on pairs, except q, k and v",
    "gated_transition": "Gated transition with three matrices instead of two",
    "blocks": "Blocks of the trunk",
    "sequences": "Rows of the MSA; 0: no MSA",
    "msa_channels": "Channels of the MSA representation",
    "msa_heads": "Attention heads over the MSA",
    "outer_channels": "Channels of the outer product mean",
    "single_channels": "Channels of the single representation; 0: none",
    "single_heads": "Attention heads over the single representation",
    "attention": "Handling of attention scores: scores keeps them, chunks"
    " recomputes them, fused never stores them",
    "bytes_activation": "Bytes per number of an activation",
    "params": "Parameters of the whole model; with experts, those that a token"
    " passes through",
    "dp": "Ranks of data parallelism",
    "shard": "Ranks that share one copy (hybrid sharding); 0: all of dp",
    "zero_stage": "ZeRO stage: 0 shards nothing, 1 the optimizer, 2 also"
    " gradients, 3 everything",
    "optimizer": "Optimizer, instead of the three numbers of bytes",
    "bytes_parameter": "Bytes per parameter for the weights",
    "bytes_gradient": "Bytes per parameter for the gradients",
    "bytes_optimizer": "Bytes per parameter for the optimizer; 12 is Adam with"
    " a master copy",
    "gpus": "Number of GPUs",
    "gpus_per_node": "GPUs in a node",
    "tp": "Ranks of tensor parallelism",
    "cp": "Ranks of context parallelism",
    "pp": "Stages of the pipeline",
    "ep": "Ranks that share the experts",
    "context": "Context parallelism: ring or ulysses",
    "sequence": "Tokens per sequence",
    "global_batch": "Sequences per step",
    "micro_batch": "Sequences per micro-batch",
    "sequence_parallel": "Sequence parallelism: tp also splits the parts that"
    " tensor parallelism leaves whole",
    "recompute": "Activations that the backward pass recomputes",
    "recompute_layers": "Layers that recompute; 0: all",
    "offload_layers": "Layers whose activations wait on the host; copying is"
    " assumed to overlap",
    "offload": "State on the host: optimizer, or state for weights, gradients"
    " and optimizer; the planner then has no time",
    "keep_gathered": "Gathered ZeRO-3 weights that stay until the backward pass"
    " (reshard_after_forward=False)",
    "bytes_gathered": "Bytes of a weight as ZeRO sends it; 0: bytes_parameter",
    "bytes_reduced": "Bytes of a gradient as it is summed; 0: bytes_gradient",
    "lora_rank": "Rank of LoRA adapters on all linear layers of a block, other"
    " weights frozen; 0: train all weights",
    "bytes_frozen": "Bytes of a weight that LoRA freezes; 0: bytes_parameter",
    "op": "Collective: all_reduce, reduce_scatter, all_gather, all_to_all or"
    " broadcast",
    "ranks": "Ranks in the group",
    "bytes": "Bytes of the whole buffer, the size column of nccl-tests",
    "algorithm": "Algorithm: ring, tree or hierarchical",
    "bandwidth": "Bytes per second that a rank can send",
    "latency": "Seconds per hop",
    "node_bandwidth": "Bytes per second, one way, that a rank achieves within"
    " its node",
    "network_bandwidth": "Bytes per second, one way, that a rank achieves"
    " between nodes",
    "node_latency": "Seconds per hop within a node",
    "stages": "Stages of the pipeline",
    "microbatches": "Micro-batches per step",
    "schedule": "Pipeline schedule: gpipe, 1f1b, interleaved, zb-h1, zb-h2,"
    " zbv or dualpipev",
    "virtual_stages": "Parts of the model on each rank",
    "tokens": "Tokens of the whole run",
    "peak_flops": "Peak operations per second of one GPU, from its data sheet",
    "tokens_per_second": "Tokens per second of the whole job",
    "count_embeddings": "Embedding tables counted in 6 N",
    "count_attention": "Products of queries, keys and values counted",
    "hardware": "Accelerator, which sets the peak, memory and bandwidths that"
    " are 0",
    "memory": "Bytes of memory per GPU",
    "bucket_copies": "DDP's buckets in addition to the gradients, without"
    " gradient_as_bucket_view",
    "memory_bandwidth": "Bytes per second that a GPU reads from its memory",
    "efficiency": "Share of the peak that computing reaches; 0: from the model"
    " of a layer's time",
    "overlap": "Share of computing that overlaps communication; 0: from the"
    " model",
    "precision": "Format of the layers' matmuls: bf16, fp8 or fp4; empty: the"
    " format that the peak belongs to",
    "kernels": "Kernels: torch or fused (Transformer Engine, Megatron-LM);"
    " empty: torch, unless the optimizer keeps a 32-bit copy",
    "loss": "Loss: eager keeps 12 bytes per logit, fused 6, chunked 0; empty:"
    " eager with PyTorch's kernels, else fused",
    "causal": "Causal attention, which skips the half above the diagonal",
    "expert_tp": "Ranks that split one expert; 0: tp if ep divides dp, else 1",
    "reduce_each": "Reduction of gradients in each micro-batch of a pipeline",
    "fragmented": "Share of the transient memory that the allocator fragments",
    "context_memory": "Bytes of CUDA's context",
    "group_memory": "Bytes of NCCL's buffers per kind of parallelism",
    "whiteboard": "The chapters' numbers: 60 % of the peak, 80 % of"
    " computing overlaps communication, 6 bytes per logit, no memory for the"
    " system; the answer lists all that it sets",
    "price_gpu_hour": "Price of one GPU hour, in any currency",
    "watts_gpu": "Watts of one GPU and its share of the host",
    "pue": "Power of the building divided by the power of its machines",
    "gpu_mtbf_hours": "Mean hours between failures of one GPU and its share of"
    " the host",
    "save_seconds": "Seconds that each checkpoint blocks training",
    "restart_seconds": "Seconds from a failure to the first new step",
    "save_every_seconds": "Seconds between checkpoints; 0: Daly's formula",
}
CHOICES: dict = {
    "precision": ("",) + PRECISIONS,
    "kernels": ("",) + KERNELS,
    "loss": ("",) + tuple(sorted(LOSSES)),
    "offload": OFFLOAD,
    "preset": tuple(sorted(PRESETS)),
    "optimizer": tuple(sorted(OPTIMIZERS)),
    "recompute": RECOMPUTE,
    "op": tuple(sorted(BUS)),
    "algorithm": ALGORITHMS,
    "schedule": SCHEDULES,
    "context": tuple(sorted(CONTEXT)),
    "trunk": tuple(sorted(TRUNKS)),
    "attention": ATTENTION,
    "hardware": tuple(sorted(HARDWARE)),
    "zero_stage": (0, 1, 2, 3),
}


def choices(question: str, name: str) -> tuple:
    """What one of the inputs in CHOICES may be, in this question."""
    if name == "recompute" and question == "run":
        return ("auto",) + RUN_RECOMPUTE
    if name == "recompute" and question == "pair":
        # A trunk has an input of its own for attention's scores.
        return tuple(one for one in RECOMPUTE if one != "selective")
    return CHOICES[name]


def about(question: str, name: str) -> str:
    """Return the help text of an input of a question."""
    said = HELP.get(name, "")
    if name == "recompute":
        said += ": " + ", ".join(choices(question, name))
    return said


def needs(names: str) -> list:
    """Inputs that have no default."""
    return [(name, None) for name in names.split()]


# Of the presets alone.
HIDDEN = "router_bias", "masked_lm_head"
MODEL: list = [("preset", "")]
MODEL += [(name, SHAPE[name]) for name in SHAPE if name not in HIDDEN]
STATE = [
    ("optimizer", ""),
    ("bytes_parameter", DEFAULTS["bytes_parameter"]),
    ("bytes_gradient", DEFAULTS["bytes_gradient"]),
    ("bytes_optimizer", RUN["bytes_optimizer"]),
]
COST = [
    (name, RUN[name])
    for name in ("tokens", "price_gpu_hour", "watts_gpu", "pue")
]
CLUSTER = needs("gpus sequence global_batch") + [("hardware", "h100")]
CLUSTER += [(name, 0) for name in RATES]
CLUSTER += [
    (name, RUN[name])
    for name in ("gpus_per_node", "efficiency", "overlap", "schedule")
    + ("precision", "kernels", "loss", "causal")
]
CLUSTER += [
    (name, VALUES[name])
    for name in ("context_memory", "group_memory", "fragmented")
]
CLUSTER.append(("whiteboard", False))
CLUSTER += [(name, DEFAULTS[name]) for name in ("context", "virtual_stages")]
LAYOUT = [(name, 1) for name in ("tp", "cp", "pp", "ep", "micro_batch")] + [
    ("dp", 0),
    ("zero_stage", 0),
    ("shard", 0),
    ("recompute", "auto"),
    ("sequence_parallel", False),
    ("expert_tp", DEFAULTS["expert_tp"]),
    ("reduce_each", DEFAULTS["reduce_each"]),
    ("bucket_copies", RUN["bucket_copies"]),
]
LAYOUT += [
    (name, RUN[name])
    for name in ("recompute_layers", "offload_layers", "offload")
]
LAYOUT += [
    (name, DEFAULTS[name])
    for name in ("keep_gathered", "bytes_gathered", "bytes_reduced")
    + ("lora_rank", "bytes_frozen")
]


class Question:
    """`says` in a line; `inputs` are (name, default), in order, and None is
    for what must be given; `answer` takes all of them and returns figures, of
    which `keys` are what was asked for."""

    def __init__(  # type: ignore[no-untyped-def]
        self, says: str, inputs: list, answer, keys: tuple
    ) -> None:
        self.says, self.inputs = says, inputs
        self.answer, self.keys = answer, keys


def model_of(given: dict) -> dict:
    """The preset's shape, if there is one, under what is given."""
    found = preset(given["preset"]) if given["preset"] else {}
    for name in SHAPE:
        if given.get(name):
            found[name] = given[name]
    return found


def state_of(given: dict) -> dict:
    """The bytes of a parameter's state: the optimizer's, if it is named."""
    if not given["optimizer"]:
        return {}
    one_of("optimizer", given["optimizer"], CHOICES["optimizer"])
    for name, usual in STATE[1:]:
        if given[name] != usual:
            raise PlanError(
                f"{flag('optimizer')} {given['optimizer']} sets the bytes of a"
                f" parameter's state; leave out {flag(name)}"
            )
    return dict(zip(BYTES, OPTIMIZERS[given["optimizer"]]))  # noqa: B905


def trunk_of(given: dict) -> dict:
    """The trunk's shape, if one is named, under what is given."""
    found = trunk(given["trunk"]) if given["trunk"] else {}
    for name in given:
        if name not in found or given[name] != TRUNK[name]:
            found[name] = given[name]
    return found


def cluster_of(given: dict) -> dict:
    """All of it, with the hardware's numbers under what is given."""
    one_of("hardware", given["hardware"], CHOICES["hardware"])
    usual = HARDWARE[given["hardware"]]
    found = dict(given)
    for name in RATES:
        found[name] = given[name] or usual.get(name, 0)
    if given.get("whiteboard"):
        found["assumes"] = ""
        for name in WHITEBOARD:
            if found.get(name) in ("", 0, "auto", VALUES.get(name)):
                found[name] = WHITEBOARD[name]
                found["assumes"] += f" {flag(name)} {WHITEBOARD[name]}"
    precision = given.get("precision", "")
    if precision and precision != "bf16" and not given["peak_flops"]:
        found["peak_flops"] = usual.get("peak_flops_" + precision, 0)
    if not found.get("dp"):
        found.pop("dp", None)
    found.update(state_of(given))
    found.update(model_of(given))
    return found


def count(given: dict) -> dict:
    """Parameters of a shape."""
    return params(model_of(given))


def state(given: dict) -> dict:
    """What a rank holds, for an optimizer or for three numbers of bytes."""
    found = dict(given)
    found.update(state_of(given))
    return memory(found)


def operations(given: dict) -> dict:
    """Operations of a shape, or of a number of parameters."""
    found = dict(given)
    if given["params"] and not model_of(given):
        found["embedding"] = found["head_dim"] = 0
    else:
        found.update(count(given))
    if given["params"]:
        found["active"] = given["params"]
    return flops(found)


def pairs(given: dict) -> dict:
    """A trunk, by its name or by its shape."""
    return pair(trunk_of(given))


def lay_out(given: dict) -> dict:
    """One layout on known or given hardware."""
    one_of("recompute", given["recompute"], choices("run", "recompute"))
    return judged(cluster_of(given))


def find(given: dict) -> dict:
    """The layouts that fit, from a narrow search, and a verdict."""
    cluster = cluster_of(given)
    fit, refused = search(cluster, narrow=True, keep=numbers)
    if not fit:
        raise none_fits(refused)
    step = fit[0][1]["step_seconds"]
    return {
        "verdict": f"{len(fit)} layouts fit; the fastest takes"
        f" {decimal(step, 's')} a step",
        "assumes": cluster.get("assumes", ""),
        "fit": fit,
    }


PARAMS = "embedding", "attention", "mlp", "norm", "total", "active"
HELD = "parameters_bytes", "gradients_bytes", "optimizer_bytes"
COSTS = "days", "gpu_hours", "cost", "energy"
QUESTIONS = {
    "params": Question(
        "Count parameters by part; the active ones process one token.",
        MODEL,
        count,
        PARAMS,
    ),
    "memory": Question(
        "Compute bytes of parameters, gradients and optimizer on one rank.",
        needs("params") + [("dp", 1), ("zero_stage", 0), ("shard", 0)] + STATE,
        state,
        HELD + ("total_bytes",),
    ),
    "activations": Question(
        "Compute what one micro-batch keeps for the backward pass on one rank.",
        needs("layers hidden heads sequence")
        + [("micro_batch", 1), ("tp", 1)]
        + [("sequence_parallel", False), ("recompute", "none")],
        activations,
        ("bytes_per_layer", "total_bytes"),
    ),
    "pair": Question(
        "Count a folding trunk's parameters, and what a rank keeps and sends.",
        [("trunk", "")]
        + needs("residues")
        + [(name, TRUNK[name]) for name in TRUNK]
        + [("attention", "scores"), ("recompute", "none")]
        + [("rows", 1), ("columns", 1), ("bytes_activation", 2)],
        pairs,
        ("parameters", "pair_bytes", "logits_bytes", "msa_logits_bytes")
        + ("block_bytes", "total_bytes", "sent_bytes"),
    ),
    "collective": Question(
        "Compute a collective's bytes on the wire, and its time.",
        needs("op bytes ranks")
        + [("algorithm", "ring")]
        + [("bandwidth", 0), ("latency", 0), ("gpus_per_node", 8)]
        + [("node_bandwidth", 0), ("node_latency", 0)],
        collective,
        ("bytes_sent_per_rank", "seconds", "bus_factor", "algbw", "busbw"),
    ),
    "pipeline": Question(
        "Compute the idle share of a pipeline, in both definitions.",
        needs("stages microbatches")
        + [("schedule", "1f1b"), ("virtual_stages", 1)],
        pipeline,
        (
            "bubble_fraction_of_total",
            "bubble_overhead",
            "in_flight_microbatches",
        ),
    ),
    "flops": Question(
        "Compute a run's operations, MFU, HFU, days and cost.",
        MODEL
        + needs("sequence")
        + [("params", 0), ("gpus", 0), ("peak_flops", 0)]
        + [("tokens_per_second", 0), ("count_embeddings", True)]
        + [("count_attention", False), ("recompute", "none")]
        + COST,
        operations,
        ("flops_per_token", "total_flops", "mfu", "hfu")
        + COSTS
        + ("count_embeddings", "count_attention", "recompute"),
    ),
    "run": Question(
        "Compute one layout: the fullest rank's memory, bytes sent, step time.",
        MODEL + CLUSTER + LAYOUT + STATE + COST,
        lay_out,
        ("verdict", "remedy", "assumes", "leaves_out")
        + COSTS
        + ("step_seconds", "tokens_per_second", "tokens_per_second_gpu")
        + ("flops_gpu", "mfu", "mfu_causal", "hfu", "dominant", "outside")
        + ("total_bytes",)
        + HELD
        + (
            "absent_bytes",
            "activations_bytes",
            "logits_bytes",
            "buffers_bytes",
            "system_bytes",
        )
        + ("compute_seconds", "bubble_seconds", "exposed_seconds")
        + ("optimizer_seconds", "straggler_seconds", "data_bytes")
        + ("tensor_bytes", "context_bytes", "expert_bytes", "pipeline_bytes")
        + ("recompute", "dp", "microbatches", "kind", "width", "precision")
        + ("kernels",),
    ),
    "search": Question(
        "List all layouts that fit, the fastest first.",
        MODEL + CLUSTER + STATE,
        find,
        ("verdict", "assumes"),
    ),
    "goodput": Question(
        "Compute the share of time that goes into work that is kept.",
        needs("gpus gpu_mtbf_hours save_seconds restart_seconds")
        + [("save_every_seconds", 0)],
        goodput,
        ("mtbf_seconds", "interval_seconds", "goodput"),
    ),
}


def ask(name: str, given: dict) -> dict:
    """What the question's function finds, from `given` and the defaults.

    PlanError for an input that is missing, unknown or no plan's.
    """
    if name not in QUESTIONS:
        known = ", ".join(sorted(QUESTIONS))
        raise PlanError(f"there is no question {name}; ask one of {known}")
    return QUESTIONS[name].answer(complete(name, QUESTIONS[name].inputs, given))


def complete(name: str, inputs: list, given: dict) -> dict:
    """`given` and the defaults of the other `inputs`."""
    one = dict(inputs)
    for key in given:
        if key not in one:
            raise PlanError(f"{flag(key)} is no input of {name}")
    one.update(given)
    for key, _ in inputs:
        if one[key] is None:
            raise PlanError(f"{flag(key)} is missing")
    return one
