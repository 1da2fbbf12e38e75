"""What the backward pass keeps of a block: 16 bits a number, with dropout."""

from .figures import Formula, PlanError, derive, divides, one_of, whole

KORTHIKANTI = "Korthikanti et al. 2022, table 2"
SBH = "sequence * micro_batch * hidden"
SCORES = "5 * heads * sequence / hidden"
# By what is recomputed, and whether sequence parallelism splits the rest.
PER_LAYER = {
    ("none", False): f"{SBH} * (10 + 24 / tp + {SCORES} / tp)",
    ("none", True): f"{SBH} * (34 + {SCORES}) / tp",
    ("selective", False): f"{SBH} * (10 + 24 / tp)",
    ("selective", True): f"34 * {SBH} / tp",
    ("full", False): f"2 * {SBH}",
    ("full", True): f"2 * {SBH} / tp",
}
LAYER = {
    case: Formula("bytes_per_layer", text, "B", KORTHIKANTI)
    for case, text in PER_LAYER.items()
}
TOTAL = Formula(
    "total_bytes",
    "layers * bytes_per_layer",
    "B",
    "one micro-batch, all layers; embedding, logits and loss are left out",
)


def activations(given: dict) -> dict:
    """`given` and the figures bytes_per_layer and total_bytes. It has layers,
    hidden, heads, sequence, micro_batch, tp, sequence_parallel, recompute."""
    for name in ("layers", "hidden", "heads", "sequence", "micro_batch", "tp"):
        whole(name, given[name])
    divides("heads", given["heads"], "hidden", given["hidden"])
    divides("tp", given["tp"], "heads", given["heads"])
    one_of("recompute", given["recompute"], ("none", "selective", "full"))
    split = bool(given["sequence_parallel"])
    if split and given["tp"] == 1:
        raise PlanError(
            "--sequence-parallel splits what tensor parallelism leaves whole;"
            " it needs --tp of 2 or more"
        )
    if split:
        divides("tp", given["tp"], "sequence", given["sequence"])
    return derive(given, [LAYER[given["recompute"], split], TOTAL])
