"""All layouts of a cluster, the fastest that fits first."""

from .constants import WIDTHS
from .figures import PlanError, above, decimal, plain, quantity
from .layout import layout


def powers(most: int) -> list:
    """1, 2, 4, … up to `most`."""
    found = [1]
    while found[-1] * 2 <= most:
        found.append(found[-1] * 2)
    return found


def candidates(given: dict) -> list:
    """Every combination worth asking for: splits by powers of two, tensor
    parallelism within a node, and each way to recompute. At the whiteboard a
    layer recomputes nothing or all."""
    recompute = ["none", "selective", "full"]
    if given.get("whiteboard"):
        del recompute[1]
    gpus, node = given["gpus"], given.get("gpus_per_node", 8)
    experts = given.get("experts", 0)
    found: list = [{}]
    for name, choices in (
        ("tp", powers(min(gpus, node))),
        ("cp", powers(min(gpus, 16))),
        ("pp", powers(min(gpus, given["layers"]))),
        ("ep", powers(experts) if experts else [1]),
        ("zero_stage", [0, 1, 2, 3]),
        ("recompute", recompute),
        ("micro_batch", [1, 2, 4]),
    ):
        found = [dict(one, **{name: c}) for one in found for c in choices]
    return [one for one in found if one["tp"] * one["cp"] * one["pp"] <= gpus]


def search(given: dict, may_fit: bool = False) -> tuple:
    """(layouts that fit, the fastest first; refusals). A layout is its
    choices and its figures; a refusal its choices and why not. `given` is
    what `layout` takes, without the choices, and memory: bytes of one GPU.

    A layout fits if the upper end of its interval of memory does, and with
    `may_fit` if the lower end does. The whiteboard has no interval.
    """
    above("memory", given["memory"])
    width = 1 if given.get("whiteboard") else WIDTHS["memory"][0]
    if may_fit:
        width = 1 / width
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
        if needed * width > given["memory"]:
            said = f"it needs {quantity(needed, 'B')}"
            if width != 1:
                bound = "at least" if may_fit else "up to"
                said += f", {bound} {decimal(needed * width, 'B')},"
            limit = quantity(given["memory"], "B")
            refused.append((choice, f"{said} of {limit}"))
        else:
            fit.append((choice, found))
    fit.sort(key=rank)
    return fit, refused


def front(fit: list) -> list:
    """Layouts that none beats in both the step's time and memory, the fastest
    first: the Pareto front."""
    found: list = []
    least = float("inf")
    for one in sorted(fit, key=costs):
        needed = plain(one[1]["total_bytes"])
        if needed < least:
            found.append(one)
            least = needed
    return found


def costs(one: tuple) -> tuple:
    """A layout's time and memory."""
    return tuple(plain(one[1][key]) for key in ("step_seconds", "total_bytes"))


# What a step is made of.
PARTS = (
    ("compute_seconds", "computing"),
    ("bubble_seconds", "bubble"),
    ("exposed_seconds", "communication"),
    ("optimizer_seconds", "the optimizer's pass"),
    ("straggler_seconds", "waiting for stragglers"),
)


def decides(found: dict, best: dict) -> str:
    """The part of the step that adds most to the best layout's, with its
    seconds."""
    more = [(plain(found[key]) - plain(best[key]), said) for key, said in PARTS]
    seconds, said = max(more)
    return f"{decimal(seconds, 's')} of {said}" if seconds > 0 else ""


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
    if found["recompute"] == "selective":
        said += " --recompute-granularity=selective"
        said += " --recompute-modules layernorm"
        said += " moe_act" if found["experts"] else ""
    if found["recompute"] == "full":
        said += " --recompute-granularity=full --recompute-method=uniform"
        said += " --recompute-num-layers=1"
    return said + SHARDING[found["zero_stage"]]
