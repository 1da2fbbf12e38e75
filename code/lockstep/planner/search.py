"""All layouts of a cluster, the fastest that fits first."""

from .constants import WIDTHS
from .figures import PlanError, above, decimal, plain, quantity, whole
from .layout import layout
from .models import params


def powers(most: int) -> list:
    """1, 2, 4, … up to `most`."""
    found = [1]
    while found[-1] * 2 <= most:
        found.append(found[-1] * 2)
    return found


MICRO_BATCHES = 1, 2, 4
NARROW = 1, 2
SHORTEST = 2048  # tokens that a rank keeps of a sequence, in a narrow search


def splits(given: dict, narrow: bool) -> list:
    """Return every split by powers of two, with tensor parallelism within a
    node. A narrow search leaves out splits that rarely win: ZeRO 0 where
    ZeRO 1 sends as much and holds less, ZeRO 2 under a pipeline, which sends
    and holds as much as ZeRO 1, ZeRO 3 there, which gathers for every
    micro-batch, and sequences in very short pieces."""
    gpus, node = whole("gpus", given["gpus"]), given.get("gpus_per_node", 8)
    experts = given.get("experts", 0)
    found: list = [{}]
    for name, choices in (
        ("tp", powers(min(gpus, node))),
        ("cp", powers(min(gpus, 16))),
        ("pp", powers(min(gpus, given["layers"]))),
        ("ep", powers(experts) if experts else [1]),
        ("zero_stage", [0, 1, 2, 3]),
    ):
        found = [dict(one, **{name: c}) for one in found for c in choices]
    found = [one for one in found if one["tp"] * one["cp"] * one["pp"] <= gpus]
    return [one for one in found if not narrow or likely(one, given)]


def likely(split: dict, given: dict) -> bool:
    """Return whether a narrow search asks for the split."""
    stage, pp, cp = split["zero_stage"], split["pp"], split["cp"]
    if cp > 1 and given["sequence"] // cp < SHORTEST:
        return False
    if stage == 0:
        return split["tp"] * cp * pp == given["gpus"]
    return stage == 1 or pp == 1


def everything(found: dict) -> dict:
    """Return all figures of a layout, with their inputs."""
    return found


def numbers(found: dict) -> dict:
    """Return the numbers that rank a layout. A browser's Python has little
    memory for a thousand layouts."""
    kept = {key: plain(found[key]) for key in ("total_bytes", "mfu", "memory")}
    for key in ("step_seconds",) + tuple(key for key, _ in PARTS):
        kept[key] = plain(found[key])
    return kept


def search(  # type: ignore[no-untyped-def]
    given: dict, may_fit: bool = False, narrow: bool = False, keep=everything
) -> tuple:
    """(layouts that fit, the fastest first; refusals). A layout is its
    choices and what `keep` leaves of its figures; a refusal its choices and
    why not. `given` is what `layout` takes, without the choices, and memory:
    bytes of one GPU.

    A layout fits if the upper end of its interval of memory does, and with
    `may_fit` if the lower end does. The whiteboard has no interval, and its
    layers recompute nothing or all. If a layout holds too much or can't be,
    neither can those with at least as many sequences in a micro-batch and less
    recomputing, so they aren't computed.
    """
    above("memory", given["memory"])
    board = given.get("whiteboard")
    width = 1 if board else WIDTHS["memory"][0]
    if may_fit:
        width = 1 / width
    shape = params(given)
    fit: list = []
    refused: list = []
    for split in splits(given, narrow):
        overfull, already = float("inf"), ""  # from this micro-batch on
        for recompute in ("full", "none") if board else LEAST_FIRST:
            for micro in NARROW if narrow else MICRO_BATCHES:
                choice = dict(split, recompute=recompute, micro_batch=micro)
                if micro >= overfull:
                    refused.append((choice, already))
                    continue
                asked = dict(shape)
                asked.update(choice)
                # Sequence parallelism costs nothing where tensors are split.
                asked["sequence_parallel"] = int(split["tp"] > 1)
                try:
                    found = layout(asked)
                except PlanError as error:
                    overfull, already = micro, str(error)
                    refused.append((choice, already))
                    continue
                needed = found["total_bytes"].value
                if needed * width <= given["memory"]:
                    fit.append((choice, keep(found)))
                    continue
                why = too_large(needed, width, given["memory"])
                refused.append((choice, why))
                # With one micro-batch, torch holds no gradients at the loss.
                if found["kernels"] == "torch":
                    needed -= plain(found["gradients_bytes"])
                    if needed * width <= given["memory"]:
                        continue
                overfull = micro
                already = f"with {recompute} recompute and micro-batch {micro},"
                already += f" {why}"
    fit.sort(key=rank)
    return fit, refused


LEAST_FIRST = "full", "selective", "none"


def too_large(needed: float, width: float, memory: float) -> str:
    """Say why a layout that needs so many bytes does not fit."""
    said = f"it needs {quantity(needed, 'B')}"
    if width != 1:
        bound = "at least" if width < 1 else "up to"
        said += f", {bound} {decimal(needed * width, 'B')},"
    return f"{said} of {quantity(memory, 'B')}"


def reason(choice: dict, why: str) -> str:
    """Return a refused layout in one line."""
    return f"{' '.join([f'{k}={choice[k]}' for k in choice])}: {why}"


def none_fits(refused: list) -> PlanError:
    """Return the error of a search in which no layout fits."""
    return PlanError(f"no layout fits; the first, {reason(*refused[0])}")


def front(fit: list) -> list:
    """Layouts that none beats in both the step's time and memory, the fastest
    first: the Pareto front."""
    found: list = []
    for one in fit:  # the fastest first, as `search` leaves them
        step, needed = costs(one)
        last = costs(found[-1]) if found else (0, float("inf"))
        if needed < last[1]:
            if step == last[0]:
                found.pop()
            found.append(one)
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
    """Order by the step's time; in a tie, fewer splits come first."""
    choice, found = one
    splits = choice["tp"] * choice["cp"] * choice["pp"] * choice["ep"]
    return plain(found["step_seconds"]), splits, choice["zero_stage"]


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
        said += " mla_up_proj" if found["kv_rank"] else ""
    if found["recompute"] == "full":
        said += " --recompute-granularity=full --recompute-method=uniform"
        said += " --recompute-num-layers=1"
    return said + SHARDING[found["zero_stage"]]
