"""Lab 12: one design, with the arithmetic of a whiteboard and no planner."""

from math import exp, sqrt

# Llama 3 70B: 80 layers, 64 heads of 128, 8 of them with keys and values.
LAYERS, HIDDEN, FFN, PARAMS = 80, 8192, 28672, 70.6e9
KEYS = 8 * 128
TP, CP, DP = 8, 4, 2
SEQUENCES, TOKENS = 64, 32768  # in a step; in a sequence
MICROBATCHES = SEQUENCES // DP
MINE = TOKENS // CP  # tokens of a sequence on one rank
PEAK, NVLINK, CARD = 0.6 * 989e12, 370e9, 46e9


# --8<-- [start:layout]
def layout() -> dict:
    """Tensors split in the node, a sequence over four nodes; no pipeline."""
    return {
        "tp": TP,
        "cp": CP,
        "pp": 1,
        "dp": DP,
        "zero_stage": 2,
        "micro_batch": 1,
        "recompute": "none",
        "sequence_parallel": True,
        "context": "ring",
    }


# --8<-- [end:layout]


# --8<-- [start:memory]
def kept(tp: int, cp: int) -> float:
    """Activations: bytes that a token keeps of a layer, times both."""
    norms = 2 * 4 * HIDDEN
    attention = 2 * (2 * HIDDEN + 2 * KEYS)
    mlp = 2 * 4 * FFN
    return LAYERS * TOKENS / cp * (norms + attention + mlp) / tp


def memory() -> float:
    """ZeRO-2 keeps a tensor-parallel slice of the weights whole, and divides
    the rest by all ranks that share them: data and context."""
    weights = 2 * PARAMS / TP
    sharded = (2 + 12) * PARAMS / TP / (DP * CP)
    logits = 6 * MINE * 128256 / TP
    return weights + sharded + kept(TP, CP) + logits


# --8<-- [end:memory]


# --8<-- [start:bytes]
def tensor_bytes() -> float:
    """Four all-reduces a layer, or as many pairs of their halves."""
    one = 2 * (TP - 1) / TP * MINE * HIDDEN * 2
    return MICROBATCHES * LAYERS * 4 * one


def context_bytes() -> float:
    """Keys and values go round in bf16, forward and backward; their gradients
    come home in fp32."""
    passes = 2 * (CP - 1) * 2 + CP * 4
    return MICROBATCHES * LAYERS * 2 * passes * MINE * KEYS / TP


def data_bytes() -> float:
    """A reduce-scatter for each micro-batch, and one all-gather."""
    share = (DP * CP - 1) / (DP * CP)
    return PARAMS / TP * share * 2 * (MICROBATCHES + 1)


# --8<-- [end:bytes]


# --8<-- [start:time]
def work() -> float:
    """Operations: six a parameter and token, and attention's products."""
    attention = 12 * LAYERS * TOKENS * HIDDEN
    return SEQUENCES * TOKENS * (6 * PARAMS + attention)


def exposed(link: float) -> float:
    """What nothing hides: tensor parallelism."""
    return tensor_bytes() / link


def seconds() -> float:
    """Of a step; keys hide behind attention, gradients behind the backward
    passes."""
    return work() / (64 * PEAK) + exposed(NVLINK)


def exposed_gradients(card: float) -> float:
    """What gradients expose over such a card: four fifths of the backward
    passes, and of one forward pass, hide them."""
    passes = (2 + 1 / MICROBATCHES) / 3
    hides = 0.8 * passes * work() / (64 * PEAK)
    return max(0, data_bytes() / card - hides)


# --8<-- [end:time]


def figures() -> dict[str, float]:
    """What the design comes to."""
    return {
        "microbatches": MICROBATCHES,
        "total_bytes": memory(),
        "step_seconds": seconds(),
        "mfu": work() / (64 * 989e12) / seconds(),
    }


# --8<-- [start:axes]
def axes() -> dict[str, dict]:
    """Three rows: this design has no pipeline."""
    both = "all-gather and reduce-scatter"
    return {
        "tensor": {
            "ranks": range(8),
            "link": "NVLink",
            "collective": both,
            "each": "layer and micro-batch",
            "sent": tensor_bytes(),
            "hides": "nothing",
            "saves": "activations",
            "saved": kept(1, CP) - kept(TP, CP),
            "risk": exposed(NVLINK / 2) - exposed(NVLINK),
        },
        "context": {
            "ranks": [0, 8, 16, 24],
            "link": "InfiniBand",
            "collective": "send and receive",
            "each": "layer and micro-batch",
            "sent": context_bytes(),
            "hides": "attention",
            "saves": "activations",
            "saved": kept(TP, 1) - kept(TP, CP),
            "risk": exposed_gradients(CARD / 2),  # which share the card
        },
        "data": {
            "ranks": range(0, 64, 8),  # context's ranks among them
            "link": "InfiniBand",
            "collective": both,
            "each": "micro-batch",
            "sent": data_bytes(),
            "hides": "computing",
            "saves": "optimizer",
            "saved": 12 * PARAMS / TP * 7 / 8,
            "risk": exposed_gradients(CARD / 2),
        },
    }


# --8<-- [end:axes]


# --8<-- [start:rejected]
def rejected() -> list[dict]:
    """FSDP alone, which one asks first; and FSDP with TP in the node."""
    alone = {
        "tp": 1,
        "cp": 1,
        "pp": 1,
        "dp": 64,
        "zero_stage": 3,
        "recompute": "full",
    }
    state = 16 * PARAMS / 64
    inputs = LAYERS * TOKENS * HIDDEN * 2
    one_block, logits = kept(1, 1) / LAYERS, 6 * TOKENS * 128256
    gathered = 2 * 2 * 68.5e9 / LAYERS  # two layers; tables are not in it
    overflow = state + inputs + one_block + logits + gathered
    node = {**alone, "tp": 8, "dp": 8, "sequence_parallel": True}
    again = 4 / 3 * work() / (64 * PEAK)  # the forward pass once more
    # Eight data-parallel ranks take 8 micro-batches of 4 times the tokens.
    slower = again + exposed(NVLINK)
    return [
        {"layout": alone, "because": "memory", "number": overflow},
        {"layout": node, "because": "time", "number": slower},
    ]


# --8<-- [end:rejected]

# Part two.
NODES, STEP = 512, 23.2
SHARE = 12 * 406e9 / 4096  # bytes of a checkpoint, of one GPU
MTBF = 54 * 86400 / 419 * 16384 / 4096  # seconds, of the job
EVERY = 6 * 3600  # between two replays


# --8<-- [start:failures]
def failures() -> dict:
    """A quarter of Llama 3's GPUs, and of its failures."""
    return {
        "a_day": 86400 / MTBF,
        "interval_seconds": sqrt(2 * 2 * MTBF),
        "restart": {
            "detect": 60,
            "preflight": 0,  # a spare was checked when it came
            "meet": 150,
            "restore": 1,  # from a peer, over the node's cards
            "warm_up": 90,
        },
    }


def spares() -> dict[str, float]:
    """Two are in repair on average; six are enough in 99 of 100 cases."""
    return {
        "nodes": 6,
        "slowest_seconds": 2 * 7 / 8 * 1e9 / (0.8 * NVLINK),
    }


# --8<-- [end:failures]


# --8<-- [start:peers]
def peers() -> dict[str, float]:
    """One copy in the next rack; the last whole one stays during a save."""
    return {
        "copies": 1,
        "distance": 4,
        "generations": 2,
        "bytes_per_node": 8 * SHARE * 2 * 2,
    }


def corruption() -> dict:
    """Every replica beside another one, four times a day."""
    return {
        "compares": "gradients before the average",
        "every_seconds": EVERY,
        "keep_seconds": 2 * EVERY,
        "costs": STEP / EVERY,
    }


# --8<-- [end:peers]


# --8<-- [start:goodput]
def goodput() -> float:
    """Losses, each a share of the time; half an interval goes per failure."""
    told = failures()
    interval, restart = told["interval_seconds"], sum(told["restart"].values())
    saves = 2 / interval
    replayed = interval / 2 / MTBF
    return 1 - saves - replayed - restart / MTBF - STEP / EVERY


def premise() -> dict:
    """Restarts alone take more than half a percent."""
    return {"refused": "goodput", "possible": exp(-(60 + 150 + 90) / MTBF)}


# --8<-- [end:goodput]
