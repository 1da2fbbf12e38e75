"""What the trunk of AlphaFold 2 or 3 holds: parameters, and the activations of
pairs and of the MSA, whole or split over ranks.

A block has two triangle multiplications, two triangle attentions and a
transition, without dropout. An Evoformer block has an MSA besides, a Pairformer
block a single representation.
"""

from .figures import (
    Formula,
    PlanError,
    at_least,
    derive,
    divides,
    one_of,
    refuse,
    whole,
)

JUMPER = "Jumper et al. 2021, supplement, algorithms 6 to 15"
ABRAMSON = "Abramson et al. 2024, supplement, algorithms 17 and 24"
KEPT = "a count of saved tensors; without means and deviations of norms"
FASTFOLD = "Cheng et al. 2022 (FastFold), Dynamic Axial Parallelism"
TILES = "rows and columns both split; counted on ranks in tests/bio"
TRUNK: dict = {
    "blocks": 1,
    "channels": 128,  # of a pair
    "heads": 4,  # of a triangle attention
    "head_dim": 32,
    "pair_bias": False,  # of the linear layers on pairs, but for q, k and v
    "gated_transition": False,  # three matrices in place of two
    "sequences": 0,  # rows of the MSA; 0: none
    "msa_channels": 256,
    "msa_heads": 8,
    "outer_channels": 32,  # of the outer product mean
    "single_channels": 0,  # of the single representation; 0: none
    "single_heads": 16,
}
TRUNKS: dict = {
    "alphafold2": (
        {"blocks": 48, "pair_bias": 1, "sequences": 512},
        "Jumper et al. 2021, supplement, 1.6 and table 4, fine-tuning: the"
        " Evoformer alone",
    ),
    "alphafold3": (
        {"blocks": 48, "gated_transition": 1, "single_channels": 384},
        "Abramson et al. 2024, supplement, algorithm 17: the Pairformer alone",
    ),
}
ATTENTION = "scores", "chunks", "fused"
PARAMETERS = [
    Formula(
        "multiplication_parameters",
        "6 * channels * channels + 4 * channels + pair_bias * 6 * channels",
        "parameters",
        JUMPER,
    ),
    Formula(
        "attention_parameters",
        "channels * (5 * heads * head_dim + heads + 2)"
        " + pair_bias * (heads * head_dim + channels)",
        "parameters",
        JUMPER,
    ),
    Formula(
        "transition_parameters",
        "(3 if gated_transition else 2) * 4 * channels * channels"
        " + 2 * channels + pair_bias * 5 * channels",
        "parameters",
        JUMPER + "; gated: " + ABRAMSON,
    ),
    Formula(
        "msa_parameters",
        "18 * msa_channels * msa_channels + 17 * msa_channels"
        " + channels * (msa_heads + 3)"
        " + 2 * outer_channels * (msa_channels + 1)"
        " + outer_channels * outer_channels * channels"
        " if sequences else 0",
        "parameters",
        JUMPER + ": attention by row and by column, transition, outer product",
    ),
    Formula(
        "single_parameters",
        "17 * single_channels * single_channels + 5 * single_channels"
        " + channels * (single_heads + 2) if single_channels else 0",
        "parameters",
        ABRAMSON,
    ),
    Formula(
        "parameters",
        "blocks * (2 * multiplication_parameters + 2 * attention_parameters"
        " + transition_parameters + msa_parameters + single_parameters)",
        "parameters",
        "all blocks; embedders, templates, structure and heads are left out",
    ),
]
# Of one rank: `ranks` is their number, and 1 if nothing is split.
SIZES = [
    Formula(
        "pair_bytes",
        "residues * residues * channels * bytes_activation / ranks",
        "B",
        "one pair representation",
    ),
    Formula(
        "logits_bytes",
        "heads * residues * residues * residues * bytes_activation / ranks",
        "B",
        "scores of one triangle attention; " + JUMPER,
    ),
    Formula(
        "bias_bytes",
        "heads * residues * residues * bytes_activation",
        "B",
        "of one triangle attention, whole on every rank",
    ),
    Formula(
        "msa_bytes",
        "sequences * residues * msa_channels * bytes_activation",
        "B",
        "one MSA representation",
    ),
    Formula(
        "msa_logits_bytes",
        "msa_heads * sequences * residues * residues * bytes_activation",
        "B",
        "scores of the MSA's attention by row; " + JUMPER,
    ),
    Formula(
        "single_bytes",
        "residues * single_channels * bytes_activation",
        "B",
        "one single representation",
    ),
]
# What the scores of attention leave behind: themselves; or the bias alone, if
# they are computed again in chunks; or the bias, and the logarithm of a sum for
# each row.
TRIANGLE = {
    "scores": "logits_bytes",
    "chunks": "bias_bytes",
    "fused": "bias_bytes + 4 * heads * residues * residues / ranks",
}
MSA = {
    "scores": "msa_logits_bytes"
    " + msa_heads * sequences * sequences * residues * bytes_activation",
    "chunks": "msa_heads * residues * residues * bytes_activation",
    "fused": "msa_heads * residues"
    " * (residues * bytes_activation + 8 * sequences)",
}
# Split by rows alone, a rank gathers the one factor of each multiplication;
# by both, 1 / rows or 1 / columns of a factor, of keys and of values.
GATHERED = {
    1: ("2 * pair_bytes * (ranks - 1)", FASTFOLD),
    2: ("3 * pair_bytes * (rows + columns - 2)", TILES),
}
SENT = {
    1: (
        "2 * (ranks - 1) * (pair_bytes * (2 + 4 / ranks)"
        " + 2 * bias_bytes / ranks)",
        FASTFOLD,
    ),
    2: (
        "8 * pair_bytes * (rows + columns - 2)"
        " + 4 * (ranks - 1) / ranks * bias_bytes",
        TILES,
    ),
}


def block(attention: str, axes: int) -> list:
    """What a block keeps and sends."""
    gathered, sent = GATHERED[axes], SENT[axes]
    return [
        Formula("scores_bytes", TRIANGLE[attention], "B", "of one attention"),
        Formula(
            "triangles_bytes",
            "(28 + (18 if gated_transition else 6)) * pair_bytes"
            " + 12 * pair_bytes * heads * head_dim / channels"
            " + 2 * scores_bytes",
            "B",
            KEPT,
        ),
        Formula("gathered_bytes", gathered[0], "B", gathered[1]),
        Formula(
            "msa_kept_bytes",
            "24 * msa_bytes + 2 * pair_bytes + "
            + MSA[attention]
            + " + residues * outer_channels * bytes_activation"
            " * (2 * sequences + residues * outer_channels)"
            " if sequences else 0",
            "B",
            KEPT,
        ),
        Formula(
            "single_kept_bytes",
            "26 * single_bytes + pair_bytes"
            " + single_heads * residues * residues * bytes_activation"
            " if single_channels else 0",
            "B",
            KEPT,
        ),
        Formula(
            "block_bytes",
            "triangles_bytes + gathered_bytes + msa_kept_bytes"
            " + single_kept_bytes",
            "B",
            "what the backward pass keeps of one block",
        ),
        Formula(
            "sent_bytes",
            sent[0],
            "B",
            sent[1] + "; of one block, both passes",
        ),
    ]


TOTAL = {
    "none": Formula(
        "total_bytes", "blocks * block_bytes", "B", "of all blocks, kept"
    ),
    "full": Formula(
        "total_bytes",
        "blocks * (pair_bytes + msa_bytes + single_bytes) + block_bytes",
        "B",
        "each block's input, and the one block that is computed again",
    ),
}


def trunk(name: str) -> dict:
    """The shape of a published model's trunk."""
    one_of("trunk", name, tuple(sorted(TRUNKS)))
    return dict(TRUNKS[name][0])


def pair(given: dict) -> dict:
    """`given`, and the figures of the trunk. It has residues, rows, columns,
    attention, recompute, bytes_activation and what differs from TRUNK."""
    s = dict(TRUNK)
    s.update(given)
    for name in ("blocks", "channels", "heads", "head_dim", "residues"):
        whole(name, s[name])
    for name in ("sequences", "single_channels"):
        whole(name, s[name], 0)
    for name in ("msa_channels", "msa_heads", "outer_channels", "single_heads"):
        whole(name, s[name])
    for name in ("rows", "columns"):
        divides(name, whole(name, s[name]), "residues", s["residues"])
    at_least("bytes_activation", s["bytes_activation"])
    one_of("attention", s["attention"], ATTENTION)
    if s["recompute"] == "selective":
        refuse(
            "recompute",
            s["recompute"],
            "none or full; --attention chunks computes scores again",
        )
    one_of("recompute", s["recompute"], ("none", "full"))
    s["ranks"] = s["rows"] * s["columns"]
    if s["ranks"] > 1 and (s["sequences"] or s["single_channels"]):
        raise PlanError(
            "--rows and --columns split pairs alone; leave out --trunk,"
            " --sequences and --single-channels"
        )
    axes = 2 if s["columns"] > 1 else 1
    found = derive(s, PARAMETERS + SIZES)
    found = derive(found, block(s["attention"], axes))
    return derive(found, [TOTAL[s["recompute"]]])
