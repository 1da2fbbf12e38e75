"""What a rank holds of the model's state, by ZeRO stage."""

from .figures import (
    Formula,
    above,
    at_least,
    derive,
    divides,
    flag,
    one_of,
    refuse,
    whole,
)

ZERO = "Rajbhandari et al. 2020 (ZeRO), section 5 and figure 1"
BYTES = "bytes_parameter", "bytes_gradient", "bytes_optimizer"
# Of a parameter, of its gradient, and of what the optimizer keeps for it.
OPTIMIZERS = {
    "adam-mixed": (2, 2, 12, ZERO),
    "adam-mixed-fp32-gradients": (
        2,
        4,
        12,
        "Narayanan et al. 2021; Megatron-LM accumulates gradients in fp32",
    ),
    "adam-fp32": (4, 4, 8, "Kingma and Ba 2015: two moments"),
    "sgd-momentum-fp32": (4, 4, 4, "one buffer"),
    "adam-8bit": (
        2,
        2,
        6 + 2 * 4 / 256,
        "Dettmers et al. 2022: two moments in 8 bits, an fp32 scale for each"
        " block of 256 (bitsandbytes 0.50); a master copy in fp32",
    ),
    "muon": (2, 2, 8, "Jordan et al. 2024: one momentum; a master copy"),
}
STATES = [
    Formula(
        "parameters_bytes",
        "params * bytes_parameter / (shard if zero_stage >= 3 else 1)",
        "B",
        ZERO,
    ),
    Formula(
        "gradients_bytes",
        "params * bytes_gradient / (shard if zero_stage >= 2 else 1)",
        "B",
        ZERO,
    ),
    Formula(
        "optimizer_bytes",
        "params * bytes_optimizer / (shard if zero_stage >= 1 else 1)",
        "B",
        ZERO,
    ),
    Formula(
        "total_bytes",
        "parameters_bytes + gradients_bytes + optimizer_bytes",
        "B",
        "sum; activations, buffers and fragmentation are left out",
    ),
]


def memory(given: dict) -> dict:
    """`given` and the figures *_bytes of one rank. It has params, dp, shard,
    zero_stage, bytes_parameter, bytes_gradient and bytes_optimizer."""
    s = dict(given)
    above("params", s["params"])
    whole("dp", s["dp"])
    one_of("zero_stage", s["zero_stage"], (0, 1, 2, 3))
    for name in BYTES:
        at_least(name, s[name])
    s["shard"] = shards(s)
    return derive(s, STATES)


def shards(given: dict) -> int:
    """Ranks of data parallelism that share one copy: all, if not said."""
    shard, dp = given.get("shard") or given["dp"], given["dp"]
    divides("shard", whole("shard", shard), "dp", dp)
    if shard < dp and given["zero_stage"] < 3:
        refuse("shard", shard, f"{flag('dp')} below ZeRO stage 3, {dp}")
    return shard
