"""The kinds of estimation questions: what is drawn, asked and derived.

A figure comes from the planner's own formulas. What the planner does not ask
is written here once, as a formula with its source.
"""

from lockstep.planner.collectives import SECONDS, flat
from lockstep.planner.communication import (
    ACTIVATION,
    DATA,
    EXCHANGED,
    EXPERT,
    GATHERS,
    PIPELINE,
    REDUCTIONS,
    TENSOR,
)
from lockstep.planner.figures import Formula, derive
from lockstep.planner.flops import (
    COST,
    DAYS,
    ENERGY,
    GPU_HOURS,
    MATMULS,
    PER_TOKEN,
)
from lockstep.planner.goodput import GOODPUT
from lockstep.planner.hardware import HARDWARE
from lockstep.planner.layout import SUM
from lockstep.planner.memory import STATES
from lockstep.planner.questions import QUESTIONS, ask
from lockstep.planner.seconds import COVER, GIVEN_COMPUTE, STEP, TIME, TOKENS

TOPICS = {
    "arithmetic": "Arithmetic",
    "memory": "Memory",
    "sharding": "Sharding",
    "communication": "Communication",
    "ddp": "Inside DDP",
    "model-parallel": "Model parallelism",
    "performance": "Performance",
    "checkpointing": "Checkpointing",
    "faults": "Fault tolerance",
    "operations": "Operations",
    "rl": "RL post-training",
}
# Figures that are a part of a whole.
SHARES = "bubble_fraction_of_total", "mfu", "lost"

CACHE = Formula(
    "cache_bytes",
    "2 * layers * kv_heads * head_dim * 2 * tokens",
    "B",
    "keys and values in 16 bits; Pope et al. 2022, section 3.3",
)
RATE = Formula(
    "tokens_per_second",
    "mfu * gpus * peak_flops / flops_per_token",
    "tokens/s",
    "the definition of MFU, solved; Chowdhery et al. 2022, appendix B",
)
STEPS = Formula("steps", "tokens / tokens_step", "steps", "of the optimizer")
INTENSITY = Formula(
    "intensity",
    "2 * rows * inner * columns"
    " / (2 * (rows * inner + inner * columns + rows * columns))",
    "FLOP/B",
    "16 bits a number, each matrix moved once; Williams et al. 2009",
)
SAVED = Formula(
    "checkpoint_bytes",
    "parameters_bytes + optimizer_bytes",
    "B",
    "gradients are done with when a step commits",
)
CARDS = Formula(
    "data_bandwidth",
    "cards * bandwidth",
    "B/s",
    "NCCL's rings leave a node by all of its cards",
)
LOST = Formula("lost", "1 - goodput", "of the time", "what is not kept")
WRITTEN = Formula(
    "write_seconds",
    "checkpoint_bytes / storage_bandwidth",
    "s",
    "all writers together, nothing hidden",
)


class Kind:
    """One kind of question.

    `draws` are (name, choices); choices are a list to pick from, or a function
    of what is drawn so far. A name `shape` is many numbers at once. `key` is
    the figure that is asked for, of those that `find` finds; an answer within
    `factor` is right.
    """

    def __init__(  # type: ignore[no-untyped-def]
        self,
        topic: str,
        title: str,
        text: str,
        thumb: str,
        draws: list,
        find,
        key: str,
        factor: float = 1.5,
        sensible=None,
    ) -> None:
        self.topic, self.title = topic, title
        self.text, self.thumb = text, thumb
        self.draws, self.key = draws, key
        self.plan = find if isinstance(find, str) else ""
        self._find, self._sensible = find, sensible
        self.factor = factor

    def inputs(self) -> list:
        """Return the names of the planner's inputs, if it asks the planner."""
        return [name for name, _ in QUESTIONS[self.plan].inputs]

    def find(self, given: dict) -> dict:
        """Return the given values with the figures."""
        if not self.plan:
            return self._find(given)
        known = self.inputs()
        return ask(self.plan, {k: given[k] for k in given if k in known})

    def sensible(self, found: dict) -> bool:
        """Whether anybody would ask it."""
        return self._sensible is None or self._sensible(found)


def derived(formulas: list, **usual: object):  # type: ignore[no-untyped-def]
    """Return a function that finds figures by these formulas of the planner."""

    def find(given: dict) -> dict:
        scope = dict(usual)
        scope.update(given)
        return derive(scope, formulas)

    return find


def one(formulas: list, name: str) -> Formula:
    """Return the formula of that name."""
    return next(found for found in formulas if found.name == name)


def powers(first: int, last: int) -> list:
    """Powers of two."""
    found = [first]
    while found[-1] < last:
        found.append(found[-1] * 2)
    return found


def broadcast(given: dict) -> dict:
    """Weights in 16 bits, from one rank to all."""
    s = dict(given, shard=1, zero_stage=0, bytes_parameter=2, op="broadcast")
    s = derive(dict(s, algorithm="ring"), STATES[:1])
    return derive(flat(dict(s, bytes=s["parameters_bytes"])), [SECONDS])


# Layers, hidden size and width of a gated MLP, as models of that size have.
DENSE = [
    {"layers": layers, "hidden": hidden, "heads": hidden // 128, "ffn": ffn}
    for layers, hidden, ffn in (
        (16, 2048, 8192),
        (28, 3072, 8192),
        (32, 4096, 11008),
        (32, 4096, 14336),
        (36, 4096, 12288),
        (40, 5120, 13824),
        (48, 6144, 16384),
        (60, 7168, 20480),
        (64, 8192, 22016),
        (80, 8192, 28672),
        (96, 12288, 32768),
        (126, 16384, 53248),
    )
]
SPARSE = [
    {
        "layers": layers,
        "hidden": hidden,
        "heads": hidden // 128,
        "experts": experts,
        "experts_per_token": chosen,
        "expert_ffn": ffn,
    }
    for layers, hidden, experts, chosen, ffn in (
        (16, 2048, 64, 8, 1024),
        (24, 2048, 64, 4, 1408),
        (32, 4096, 8, 2, 14336),
        (40, 6144, 16, 4, 10752),
        (48, 2048, 128, 8, 768),
        (56, 6144, 8, 2, 16384),
        (60, 5120, 160, 6, 1536),
        (94, 4096, 128, 8, 1536),
    )
]
BILLIONS = [1.3, 2.7, 3, 7, 8, 13, 14, 20, 30, 34, 40, 65, 70, 110, 180, 405]
PARAMS = ("params", [int(one * 1e9) for one in BILLIONS])
LARGE = ("params", [int(one * 1e9) for one in BILLIONS if one >= 7])
VOCAB = ("vocab", [32000, 50304, 100352, 128256, 151936])
SEQUENCE = ("sequence", powers(2048, 16384))
OPTIMIZER = (
    "optimizer",
    ["adam-mixed", "adam-mixed-fp32-gradients", "adam-fp32"],
)
PEAK = (
    "peak_flops",
    [HARDWARE[name]["peak_flops"] for name in ("a100", "h100")],
)
MIXED = {"bytes_parameter": 2, "bytes_gradient": 2, "bytes_optimizer": 12}
GPUS = ("gpus", powers(64, 16384))
BYTES = ("bytes", [2e8, 5e8, 1e9, 1.5e9, 2e9, 3e9, 7e9, 14e9, 26e9])
NETWORK = ("bandwidth", [25e9, 50e9, 100e9])
MFU = ("mfu", [0.25, 0.3, 0.35, 0.4, 0.45, 0.5])
TRAINED = ("tokens", [int(one * 1e11) for one in (3, 5, 10, 14, 20, 80, 150)])
PRICE = ("price_gpu_hour", [1.5, 2, 2.5, 3, 4])
RUN = [LARGE, TRAINED, GPUS, PEAK, MFU]
FLOPS = {
    "count_embeddings": 1,
    "count_attention": 0,
    "embedding": 0,
    "attention_flops": 0,
}


def paced(given: dict) -> dict:
    """Compute a run at an MFU: operations, tokens per second, days and cost."""
    s = dict(FLOPS, pue=1)
    s.update(given, active=given["params"])
    return derive(s, [MATMULS, PER_TOKEN, RATE, DAYS, GPU_HOURS])


def weeks(found: dict) -> bool:
    """Tell whether the run takes between a day and half a year."""
    return 1 < found["days"].value < 180


def rate(given: dict) -> int:
    """Tokens a second as a log has them, at an MFU of a working run."""
    return int(paced(dict(given, tokens=1))["tokens_per_second"].value)


def state(stage: int) -> Kind:
    """Bytes of state on a rank, at a stage of ZeRO."""
    return Kind(
        "sharding",
        f"State of a rank under ZeRO-{stage}",
        "{params} parameters train with {optimizer}, under ZeRO-"
        + str(stage)
        + " over {dp} ranks. How many bytes of parameters, gradients and"
        " optimizer does one rank hold?",
        "Split the bytes of a parameter into what is sharded and what stays"
        " whole. What stays whole decides.",
        [PARAMS, OPTIMIZER, ("dp", powers(8, 1024)), ("zero_stage", [stage])],
        "memory",
        "total_bytes",
        sensible=lambda found: 1e8 < found["total_bytes"].value < 2e11,
    )


KINDS: dict = {
    "params": Kind(
        "arithmetic",
        "Parameters of a decoder",
        "A decoder has {layers} layers, hidden size {hidden}, {heads} heads of"
        " which 8 hold keys and values, a gated MLP of width {ffn} and a"
        " vocabulary of {vocab}; its output layer is {tied_embeddings}. How"
        " many parameters?",
        "The MLP's three matrices come first, attention is a third or less of"
        " a layer, and norms do not count.",
        [
            ("shape", DENSE),
            VOCAB,
            ("kv_heads", [8]),
            ("gated_mlp", [True]),
            ("tied_embeddings", [True, False]),
        ],
        "params",
        "total",
    ),
    "embedding": Kind(
        "arithmetic",
        "Parameters of the tables",
        "A vocabulary of {vocab}, hidden size {hidden}, and an output layer"
        " that is {tied_embeddings}. How many parameters are in the embedding"
        " and the output layer?",
        "In a small model with a large vocabulary these are a good part.",
        [("shape", DENSE), VOCAB, ("tied_embeddings", [True, False])],
        "params",
        "embedding",
    ),
    "mixture": Kind(
        "arithmetic",
        "Parameters of a mixture of experts",
        "A mixture of experts has {layers} layers, hidden size {hidden},"
        " {heads} heads of which 4 hold keys and values, and in each layer"
        " {experts} experts, gated, of width {expert_ffn}. The vocabulary is"
        " {vocab}, with two tables. How many parameters does it have?",
        "Count one expert, times experts, times layers: the rest is small.",
        [
            ("shape", SPARSE),
            VOCAB,
            ("kv_heads", [4]),
            ("gated_mlp", [True]),
        ],
        "params",
        "total",
    ),
    "attention-flops": Kind(
        "arithmetic",
        "Operations of attention's products",
        "A decoder has {layers} layers, {heads} heads of 128 and sequences of"
        " {sequence} tokens. Leave the causal half in: how many operations does"
        " training spend for each token on queries times keys, and on scores"
        " times values?",
        "It grows with the sequence, where the matrices' share does not.",
        [
            ("shape", DENSE),
            ("vocab", [128256]),
            ("sequence", powers(4096, 131072)),
        ],
        "flops",
        "attention_flops",
    ),
    "run-flops": Kind(
        "arithmetic",
        "Operations of a run",
        "{params} parameters, dense, train on {tokens} tokens. How many"
        " operations is that, without attention's products?",
        "Six for each parameter and token: two forward, four backward.",
        [PARAMS, TRAINED, ("sequence", [4096])],
        "flops",
        "total_flops",
    ),
    "intensity": Kind(
        "arithmetic",
        "Intensity of a product",
        "{rows} tokens go through a matrix of {inner} by {columns}, all in 16"
        " bits, and each matrix is moved once. How many operations are that"
        " for each byte?",
        "With few tokens the weights are most of the bytes, and the intensity"
        " is near the number of tokens.",
        [
            ("rows", powers(16, 8192)),
            ("inner", [2048, 4096, 5120, 8192]),
            ("columns", [4096, 8192, 11008, 14336, 28672]),
        ],
        derived([INTENSITY]),
        "intensity",
    ),
    "state": Kind(
        "memory",
        "State of a model",
        "{params} parameters train with {optimizer}. How many bytes of"
        " parameters, gradients and optimizer, with nothing sharded?",
        "Add the bytes of one parameter first.",
        [
            PARAMS,
            ("optimizer", OPTIMIZER[1] + ["sgd-momentum-fp32"]),
        ],
        "memory",
        "total_bytes",
    ),
    "activations": Kind(
        "memory",
        "Activations, attention recomputed",
        "A GPT block with dropout: {layers} layers, hidden size {hidden},"
        " sequences of {sequence}, {micro_batch} of them in a micro-batch."
        " Tensor and sequence parallelism go over {tp} ranks, and attention's"
        " scores are recomputed. How many bytes of activations does a rank"
        " keep?",
        "34 bytes for each token, hidden number and layer; all are split.",
        [
            ("shape", DENSE),
            ("sequence", powers(2048, 8192)),
            ("micro_batch", [1, 2, 4]),
            ("tp", [2, 4, 8]),
            ("sequence_parallel", [True]),
            ("recompute", ["selective"]),
        ],
        "activations",
        "total_bytes",
        sensible=lambda found: found["total_bytes"].value < 1.4e11,
    ),
    "recompute": Kind(
        "memory",
        "Activations, all recomputed",
        "{layers} layers of hidden size {hidden}, sequences of {sequence},"
        " {micro_batch} of them in a micro-batch, all of each layer recomputed."
        " How many bytes does a rank keep for the backward pass?",
        "Only each layer's input stays, in 16 bits.",
        [
            ("shape", DENSE),
            SEQUENCE,
            ("micro_batch", [1, 2, 4]),
            ("recompute", ["full"]),
        ],
        "activations",
        "total_bytes",
        sensible=lambda found: found["total_bytes"].value < 1.4e11,
    ),
    "logits": Kind(
        "memory",
        "Logits of a micro-batch",
        "{micro_batch} sequences of {sequence} tokens, a vocabulary of {vocab}."
        " Logits are held in 16 bits, and once in 32 for the loss. How many"
        " bytes, on a rank that holds the whole vocabulary?",
        "Tokens times vocabulary times six; it surprises with large"
        " vocabularies.",
        [("micro_batch", [1, 2, 4, 8]), SEQUENCE, VOCAB],
        derived([one(SUM, "loss_bytes")], cp=1, tp=1, bytes_logit=6, mtp=0),
        "loss_bytes",
        sensible=lambda found: found["loss_bytes"].value < 4e10,
    ),
    "zero-1": state(1),
    "zero-2": state(2),
    "zero-3": state(3),
    "fsdp-bytes": Kind(
        "sharding",
        "Bytes that ZeRO-3 sends",
        "{params} parameters in 16 bits, gradients in {bytes_gradient}, ZeRO-3"
        " over {dp} ranks, {microbatches} micro-batches to a step; layers are"
        " gathered again for the backward pass. How many bytes does a rank send"
        " in one step?",
        "Two gathers and a reduce-scatter for each micro-batch, each about the"
        " model's bytes.",
        [
            PARAMS,
            ("dp", powers(8, 1024)),
            ("bytes_gradient", [2, 4]),
            ("microbatches", [1, 2, 4, 8]),
        ],
        lambda given: derived(
            [REDUCTIONS, EXCHANGED, GATHERS, DATA[3]],
            params_rank=given["params"],
            routed_rank=0,
            sharers=given["dp"],
            expert_copies=given["dp"],
            pp=1,
            reduce_each=0,
            replica_bytes=0,
            keep_gathered=0,
            trained_share=1,
            bytes_gathered=2,
            bytes_reduced=given["bytes_gradient"],
        )(given),
        "data_bytes",
        sensible=lambda found: found["params"] / found["dp"] < 4e9,
    ),
    "ring-bytes": Kind(
        "communication",
        "Bytes of a ring",
        "{ranks} ranks run a ring {op} over a buffer of {bytes}. How many bytes"
        " does each rank send?",
        "An all-reduce is a reduce-scatter and an all-gather, each nearly the"
        " buffer, however many ranks there are.",
        [
            ("op", ["all_reduce", "reduce_scatter", "all_gather"]),
            BYTES,
            ("ranks", powers(8, 1024)),
        ],
        "collective",
        "bytes_sent_per_rank",
    ),
    "ring-seconds": Kind(
        "communication",
        "Seconds of a ring all-reduce",
        "{ranks} ranks all-reduce {bytes} by ring. A link carries {bandwidth}"
        " one way, a hop costs {latency}. How long does it take?",
        "Bytes over bandwidth, twice, then look whether the hops' latency"
        " counts.",
        [
            ("op", ["all_reduce"]),
            BYTES,
            ("ranks", powers(8, 512)),
            NETWORK,
            ("latency", [5e-6, 1e-5, 2e-5]),
        ],
        "collective",
        "seconds",
    ),
    "ring-latency": Kind(
        "communication",
        "A small all-reduce on many ranks",
        "{ranks} ranks all-reduce {bytes} by ring; {bandwidth} one way,"
        " {latency} a hop. How long does it take?",
        "A ring has two hops for each rank: with small buffers latency is all.",
        [
            ("op", ["all_reduce"]),
            ("bytes", [4e3, 1e5, 1e6, 4e6]),
            ("ranks", powers(64, 4096)),
            NETWORK,
            ("latency", [5e-6, 1e-5, 2e-5]),
        ],
        "collective",
        "seconds",
    ),
    "tree-seconds": Kind(
        "communication",
        "Seconds of a tree all-reduce",
        "{ranks} ranks all-reduce {bytes} by two trees; {bandwidth} one way,"
        " {latency} a hop. How long does it take?",
        "The hops are twice the logarithm of the ranks.",
        [
            ("op", ["all_reduce"]),
            ("algorithm", ["tree"]),
            ("bytes", [4e3, 1e5, 1e6, 4e6, 1e8]),
            ("ranks", powers(64, 4096)),
            NETWORK,
            ("latency", [5e-6, 1e-5, 2e-5]),
        ],
        "collective",
        "seconds",
    ),
    "hierarchical": Kind(
        "communication",
        "Seconds of a hierarchical all-reduce",
        "{ranks} GPUs in nodes of 8 all-reduce {bytes}: rings within the nodes"
        " at {node_bandwidth}, then each GPU with its likes in other nodes at"
        " {bandwidth}. Leave latency out. How long does it take?",
        "Between nodes a GPU sends an eighth of the buffer, so see which part"
        " is longer.",
        [
            ("op", ["all_reduce"]),
            ("algorithm", ["hierarchical"]),
            BYTES,
            ("ranks", powers(16, 1024)),
            ("gpus_per_node", [8]),
            NETWORK,
            ("node_bandwidth", [300e9, 450e9]),
        ],
        "collective",
        "seconds",
    ),
    "ddp-exposed": Kind(
        "ddp",
        "Seconds that DDP waits for gradients",
        "{gpus} GPUs, eight to a node, train {params} parameters with DDP,"
        " gradients in 16 bits, {tokens_gpu} tokens for each GPU in a step. A"
        " GPU computes at {efficiency} of {peak_flops}. A node has {cards}"
        " NICs of {bandwidth} each. Communication can hide behind"
        " {overlap} of the backward pass. How many seconds of a step are spent"
        " waiting for it?",
        "Time of the ring at the rate of all the cards of a node, less what"
        " hides; the number of GPUs hardly matters.",
        [
            ("params", [int(one * 1e9) for one in (1.3, 2, 2.7, 3, 4)]),
            ("gpus", powers(16, 1024)),
            ("tokens_gpu", powers(1024, 8192)),
            PEAK,
            ("efficiency", [0.4, 0.45, 0.5]),
            ("overlap", [0.5, 0.6, 0.8]),
            ("cards", [2, 4, 8]),
            ("bandwidth", [12.5e9, 25e9, 50e9]),
        ],
        lambda given: derived(
            [MATMULS, PER_TOKEN, TOKENS]
            + [GIVEN_COMPUTE, one(TIME, "backward_share")]
            + [COVER[0], EXCHANGED, DATA[0], CARDS]
            + [one(TIME, "data_seconds"), one(STEP, "exposed_seconds")],
            **dict(
                FLOPS,
                active=given["params"],
                recomputed_flops=0,
                microbatches=1,
                global_batch=given["gpus"],
                sequence=given["tokens_gpu"],
                params_rank=given["params"],
                routed_rank=0,
                sharers=given["gpus"],
                expert_copies=given["gpus"],
                bytes_reduced=2,
                trained_share=1,
                replica_bytes=0,
                replica_bandwidth=1,
                layer_seconds=0,
                context_seconds=0,
                attention_seconds=0,
                ring=0,
            ),
        )(given),
        "exposed_seconds",
        2,
        sensible=lambda found: (
            found["exposed_seconds"].value > 0.7 * found["data_seconds"].value
        ),
    ),
    "bubble": Kind(
        "model-parallel",
        "The bubble of a pipeline",
        "A pipeline of {stages} stages runs {microbatches} micro-batches with"
        " {schedule}. Which share of the step is a stage idle?",
        "Stages less one over micro-batches is what the step takes in addition;"
        " of the whole step it is a little less.",
        [
            ("stages", [4, 8, 12, 16]),
            ("microbatches", [8, 16, 24, 32, 48, 64, 128]),
            ("schedule", ["gpipe", "1f1b"]),
        ],
        "pipeline",
        "bubble_fraction_of_total",
        sensible=lambda found: found["bubble_overhead"].value < 0.5,
    ),
    "interleaved": Kind(
        "model-parallel",
        "The bubble, interleaved",
        "{stages} stages, {microbatches} micro-batches, interleaved 1F1B with"
        " {virtual_stages} parts of the model on each rank. Which share of the"
        " step is a rank idle?",
        "The bubble of 1F1B, over the parts that a rank holds.",
        [
            ("stages", [4, 8, 16]),
            ("virtual_stages", [2, 3, 4]),
            ("rounds", [1, 2, 3, 4, 6, 8]),
            ("microbatches", lambda given: given["stages"] * given["rounds"]),
            ("schedule", ["interleaved"]),
        ],
        "pipeline",
        "bubble_fraction_of_total",
    ),
    "tp-bytes": Kind(
        "model-parallel",
        "Bytes of tensor parallelism",
        "A layer of hidden size {hidden} is split over {tp} ranks by tensor"
        " parallelism, 16 bits. A micro-batch is {micro_batch} sequences of"
        " {sequence}. How many bytes does a rank send for this layer, forward"
        " and backward?",
        "Four all-reduces of one activation tensor.",
        [
            ("shape", DENSE),
            ("tp", [2, 4, 8]),
            SEQUENCE,
            ("micro_batch", [1, 2, 4]),
        ],
        derived(
            [ACTIVATION, TENSOR],
            cp=1,
            microbatches=1,
            tensor_blocks=2,
            tensor_forwards=1,
            bytes_activation=2,
        ),
        "tensor_bytes",
    ),
    "expert-bytes": Kind(
        "model-parallel",
        "Bytes of expert parallelism",
        "{layers} layers of experts, hidden size {hidden}, {experts_per_token}"
        " experts for a token, shared by {ep} ranks. A micro-batch is"
        " {micro_batch} sequences of {sequence}, 16 bits, tokens evenly spread."
        " How many bytes does a rank send for it, forward and backward?",
        "Each token leaves once for each of its experts, and comes back; both"
        " again backward.",
        [
            ("shape", SPARSE),
            ("ep", [4, 8]),
            ("sequence", powers(2048, 8192)),
            ("micro_batch", [1, 2, 4]),
        ],
        derived(
            [ACTIVATION, EXPERT],
            cp=1,
            tp=1,
            sequence_parallel=0,
            pp=1,
            microbatches=1,
            expert_forwards=1,
            bytes_activation=2,
            dense_layers=0,
        ),
        "expert_bytes",
    ),
    "stage-bytes": Kind(
        "model-parallel",
        "Bytes between stages",
        "A pipeline passes activations of {micro_batch} sequences of"
        " {sequence} tokens, hidden size {hidden}, 16 bits, and their gradients"
        " back; {microbatches} micro-batches to a step. How many bytes does a"
        " stage in the middle send in a step?",
        "One tensor forward and one backward, for each micro-batch.",
        [
            ("shape", DENSE),
            ("sequence", powers(2048, 8192)),
            ("micro_batch", [1, 2]),
            ("microbatches", [8, 16, 32, 64]),
        ],
        derived(
            [ACTIVATION, PIPELINE],
            cp=1,
            tp=1,
            pp=2,
            virtual_stages=1,
            sequence_parallel=False,
            bytes_activation=2,
        ),
        "pipeline_bytes",
    ),
    "mfu": Kind(
        "performance",
        "MFU from a log",
        "A log says {tokens_per_second} tokens a second, on {gpus} GPUs of"
        " {peak_flops}. The model is dense with {params} parameters; leave"
        " attention's products out. What is the MFU?",
        "Operations of one GPU a second over its peak.",
        [
            LARGE,
            ("gpus", powers(64, 4096)),
            PEAK,
            ("mfu", [0.22, 0.28, 0.33, 0.38, 0.43, 0.48, 0.53]),
            ("tokens_per_second", rate),
            ("sequence", [4096]),
        ],
        "flops",
        "mfu",
    ),
    "days": Kind(
        "performance",
        "Days of a run",
        "{params} parameters, dense, {tokens} tokens, {gpus} GPUs of"
        " {peak_flops} at {mfu} MFU, without attention's products. How long"
        " does the run take?",
        "All operations over those of a day; a day is 86,400 s, nearly 10⁵.",
        RUN,
        paced,
        "days",
        2,
        sensible=weeks,
    ),
    "steps": Kind(
        "performance",
        "Steps of a run",
        "A step takes {global_batch} sequences of {sequence} tokens. How many"
        " steps are {tokens} tokens?",
        "Tokens of a step first: a few million in a large run.",
        [("global_batch", powers(256, 2048)), SEQUENCE, TRAINED],
        derived([TOKENS, STEPS]),
        "steps",
        sensible=lambda found: 1e4 < found["steps"].value < 2e6,
    ),
    "checkpoint-bytes": Kind(
        "checkpointing",
        "Size of a checkpoint",
        "{params} parameters train with {optimizer}. How many bytes does a full"
        " checkpoint have, of parameters and the optimizer's state?",
        "Gradients stay behind, so two to four bytes a parameter less than"
        " the state.",
        [PARAMS, ("optimizer", OPTIMIZER[1])],
        lambda given: derive(
            ask(
                "memory",
                {name: given[name] for name in ("params", "optimizer")},
            ),
            [SAVED],
        ),
        "checkpoint_bytes",
    ),
    "checkpoint-seconds": Kind(
        "checkpointing",
        "Seconds to write a checkpoint",
        "{params} parameters train with Adam in mixed precision. All ranks"
        " together write a full checkpoint at {storage_bandwidth}. How long"
        " does it take?",
        "Fourteen bytes a parameter: weights, master copy, two moments.",
        [LARGE, ("storage_bandwidth", [2e9, 5e9, 10e9, 20e9, 50e9, 100e9])],
        derived(
            STATES[:3] + [SAVED, WRITTEN], **dict(MIXED, shard=1, zero_stage=0)
        ),
        "write_seconds",
        sensible=lambda found: found["write_seconds"].value > 1,
    ),
    "interval": Kind(
        "checkpointing",
        "How often to save",
        "{gpus} GPUs, each with a failure every {gpu_mtbf_hours} hours of its"
        " own; any failure stops the job. A save blocks it for {save_seconds}."
        " How long should it work between two saves?",
        "The root of twice the save times the job's time between failures, as"
        " Young has it; Daly corrects by little.",
        [
            ("gpus", powers(256, 16384)),
            ("gpu_mtbf_hours", [20000, 30000, 50000]),
            ("save_seconds", [10, 20, 30, 60, 120, 300]),
            ("restart_seconds", [300]),
        ],
        "goodput",
        "interval_seconds",
    ),
    "mtbf": Kind(
        "faults",
        "Time between failures of a job",
        "One GPU with its share of the node fails every {gpu_mtbf_hours} hours."
        " A job runs on {gpus}, and any failure stops it. How long does it run"
        " between failures?",
        "Divide; independent failures add their rates.",
        [
            ("gpus", powers(128, 16384)),
            ("gpu_mtbf_hours", [10000, 20000, 30000, 50000, 80000]),
        ],
        derived(GOODPUT[:1]),
        "mtbf_seconds",
    ),
    "lost-time": Kind(
        "faults",
        "Time that failures and saves cost",
        "{gpus} GPUs, each with a failure every {gpu_mtbf_hours} hours of its"
        " own; a save blocks for {save_seconds}, a restart takes"
        " {restart_seconds}, and saves are as often as Daly's formula says."
        " Which share of the time is not work that is kept?",
        "Saves over the interval, and half an interval with a restart over the"
        " time between failures.",
        [
            ("gpus", powers(1024, 16384)),
            ("gpu_mtbf_hours", [20000, 30000, 50000]),
            ("save_seconds", [10, 30, 60, 120]),
            ("restart_seconds", [120, 300, 600, 900]),
        ],
        lambda given: derive(ask("goodput", given), [LOST]),
        "lost",
        sensible=lambda found: 0.02 < found["lost"].value < 0.4,
    ),
    "cost": Kind(
        "operations",
        "Cost of a run",
        "{params} parameters, dense, {tokens} tokens, at {mfu} MFU on {gpus}"
        " GPUs of {peak_flops}; a GPU costs {price_gpu_hour} an hour. What does"
        " the run cost?",
        "The number of GPUs cancels: cost is operations over what a GPU hour"
        " does.",
        RUN + [PRICE],
        lambda given: derive(paced(given), [COST]),
        "cost",
        2,
        sensible=weeks,
    ),
    "energy": Kind(
        "operations",
        "Energy of a run",
        "{gpus} GPUs run for a job of {tokens} tokens on {params} dense"
        " parameters, at {mfu} MFU of {peak_flops}. A GPU and its share of the"
        " host draw {watts_gpu} W, and the building takes {pue} times what its"
        " machines do. How much energy?",
        "GPU hours times kilowatts.",
        RUN + [("watts_gpu", [700, 1000, 1300]), ("pue", [1.1, 1.2, 1.4])],
        lambda given: derive(paced(given), [ENERGY]),
        "energy",
        2,
        sensible=weeks,
    ),
    "cache": Kind(
        "rl",
        "Keys and values of rollouts",
        "A sampler of {layers} layers, 8 heads of keys and values of 128"
        " numbers, holds {batch} rollouts of {sequence} tokens. How many bytes"
        " of keys and values, in 16 bits?",
        "Bytes of one token first: two tensors, layers, 8 heads of 128, two"
        " bytes.",
        [
            ("shape", DENSE),
            ("batch", powers(16, 256)),
            ("sequence", powers(2048, 32768)),
        ],
        lambda given: derived([CACHE], kv_heads=8, head_dim=128)(
            dict(given, tokens=given["batch"] * given["sequence"])
        ),
        "cache_bytes",
        sensible=lambda found: found["cache_bytes"].value < 1e12,
    ),
    "publish": Kind(
        "rl",
        "Seconds to publish weights",
        "A trainer broadcasts {params} parameters in 16 bits to {ranks}"
        " samplers along a chain, in small pieces; {bandwidth} one way,"
        " {latency} a hop. How long until all have the new policy?",
        "The bytes go over each link once, at the same time.",
        [
            LARGE,
            ("ranks", powers(8, 64)),
            ("bandwidth", [10e9, 25e9, 50e9]),
            ("latency", [1e-5, 2e-5]),
        ],
        broadcast,
        "seconds",
    ),
}
