"""All layouts of a cluster, the fastest that fits first."""

from .figures import PlanError, above, quantity
from .layout import layout


def powers(most: int) -> list:
    """1, 2, 4, … up to `most`."""
    found = [1]
    while found[-1] * 2 <= most:
        found.append(found[-1] * 2)
    return found


def candidates(given: dict) -> list:
    """Every combination worth asking for: splits by powers of two, tensor
    parallelism within a node, recomputing nothing or all."""
    gpus, node = given["gpus"], given.get("gpus_per_node", 8)
    experts = given.get("experts", 0)
    found: list = [{}]
    for name, choices in (
        ("tp", powers(min(gpus, node))),
        ("cp", powers(min(gpus, 16))),
        ("pp", powers(min(gpus, given["layers"]))),
        ("ep", powers(experts) if experts else [1]),
        ("zero_stage", [0, 1, 2, 3]),
        ("recompute", ["none", "full"]),
        ("micro_batch", [1, 2, 4]),
    ):
        found = [dict(one, **{name: c}) for one in found for c in choices]
    return [one for one in found if one["tp"] * one["cp"] * one["pp"] <= gpus]


def search(given: dict) -> tuple:
    """(layouts that fit, the fastest first; refusals). A layout is its
    choices and its figures; a refusal its choices and why not. `given` is
    what `layout` takes, without the choices, and memory: bytes of one GPU."""
    above("memory", given["memory"])
    fit: list = []
    refused: list = []
    for choice in candidates(given):
        asked = dict(given)
        asked.update(choice)
        # Sequence parallelism costs nothing where tensors are split.
        asked["sequence_parallel"] = int(choice["tp"] > 1)
        try:
            found = layout(asked)
        except PlanError as error:
            refused.append((choice, str(error)))
            continue
        needed = found["total_bytes"].value
        if needed > given["memory"]:
            asked_for = quantity(needed, "B")
            limit = quantity(given["memory"], "B")
            refused.append((choice, f"it needs {asked_for} of {limit}"))
        else:
            fit.append((choice, found))
    fit.sort(key=rank)
    return fit, refused


def rank(one: tuple) -> tuple:
    """By the step's time; of two alike, the one with fewer splits."""
    choice, found = one
    splits = choice["tp"] * choice["cp"] * choice["pp"] * choice["ep"]
    return found["step_seconds"].value, splits, choice["zero_stage"]


# Flags of Megatron-LM's pretrain_gpt.py, which has all of these splits.
SIZES = (
    ("tensor-model-parallel-size", "tp"),
    ("context-parallel-size", "cp"),
    ("pipeline-model-parallel-size", "pp"),
    ("expert-model-parallel-size", "ep"),
    ("micro-batch-size", "micro_batch"),
    ("global-batch-size", "global_batch"),
    ("seq-length", "sequence"),
)
FSDP = " --use-megatron-fsdp --ckpt-format=fsdp_dtensor"
FSDP += " --data-parallel-sharding-strategy="
SHARDING = (
    "",
    " --use-distributed-optimizer",
    FSDP + "optim_grads",
    FSDP + "optim_grads_params",
)


def command(found: dict) -> str:
    """How a layout is launched in Megatron-LM: what it decides, no more."""
    nodes = max(1, found["gpus"] // found["gpus_per_node"])
    each = found["gpus"] // nodes
    said = f"torchrun --nnodes={nodes} --nproc-per-node={each} pretrain_gpt.py"
    for name, key in SIZES:
        said += f" --{name}={found[key]}"
    if found["sequence_parallel"]:
        said += " --sequence-parallel"
    if found["recompute"] == "full":
        said += " --recompute-granularity=full --recompute-method=uniform"
        said += " --recompute-num-layers=1"
    return said + SHARDING[found["zero_stage"]]
