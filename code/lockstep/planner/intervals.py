"""How wrong an answer may be, and whether a run fits.

A prediction's interval is its value divided and multiplied by one factor, which
holds for its kind of run. The factors come from published runs: each source's
rows were predicted by a model that was fitted without them.
"""

from .constants import DOUBT, FAMILIES, HULL, WIDTHS
from .figures import Formula, PlanError, derive, flag, plain, short
from .layout import layout

BOUNDED = (
    "step_seconds",
    "tokens_per_second",
    "tokens_per_second_gpu",
    "flops_gpu",
    "mfu",
    "mfu_causal",
    "hfu",
    "days",
    "gpu_hours",
    "cost",
    "energy",
)
LEAVES_OUT = "stragglers, and how far the given efficiency is from the real one"
HOLDS = "90 % of the published runs of this kind lie within it"


def ends(name: str, width: str) -> list:
    """An interval's two ends."""
    return [
        Formula(f"{name}_low", f"{name} / {width}", "", HOLDS),
        Formula(f"{name}_high", f"{name} * {width}", "", HOLDS),
    ]


ENDS = {name: ends(name, "width") for name in BOUNDED}
MEMORY_ENDS = ends("total_bytes", "memory_width")


def kind(found: dict) -> str:
    """Which published runs a layout resembles."""
    if found["experts"]:
        return "MoE"
    if found["precision"] != "bf16":
        return "FP8"
    family = FAMILIES.get(found["accelerator"], "")
    return {"a100": "dense A100", "h100": "dense H100"}.get(family, "other")


def outside(found: dict) -> str:
    """The inputs that no published run comes near, in a line; or nothing."""
    said = []
    if not FAMILIES.get(found["accelerator"], ""):
        said.append(f"no published run on {found['accelerator']}")
    if found["offload"]:
        said.append("no published run keeps its state on the host")
    for name in HULL:
        least, most = HULL[name]
        if not least <= found[name] <= most:
            said.append(
                f"{flag(name)} {short(found[name])} where published runs have"
                f" {short(least)} to {short(most)}"
            )
    return "; ".join(said)


def doubts(found: dict) -> dict:
    """For each part of the step, how much of the step's time it may be off."""
    s = {name: plain(found[name]) for name in PARTS}
    each = s["compute_seconds"] / s["step_seconds"]
    layer = each / s["layer_compute"]
    step = s["step_seconds"]
    shares = {
        "matrix products": layer * s["matmul_seconds"],
        "attention": layer * s["scores_seconds"],
        "elementwise kernels": layer * s["elementwise_seconds"],
        "gaps between kernels": layer * s["gap_seconds"],
        "communication in the layers": s["layer_seconds"] / step,
        "the pipeline's bubble": s["bubble_seconds"] / step,
        "data-parallel communication": (
            s["exposed_seconds"] - s["layer_seconds"]
        )
        / step,
        "stragglers": s["straggler_seconds"] / step,
    }
    return {name: shares[name] * DOUBT[name] for name in shares}


PARTS = (
    "compute_seconds",
    "step_seconds",
    "layer_compute",
    "matmul_seconds",
    "scores_seconds",
    "elementwise_seconds",
    "gap_seconds",
    "layer_seconds",
    "bubble_seconds",
    "exposed_seconds",
    "straggler_seconds",
)


def bounded(found: dict) -> dict:
    """A layout with its intervals."""
    s = dict(found)
    s["kind"] = kind(s)
    s["width"], s["memory_width"] = WIDTHS[s["kind"]][0], WIDTHS["memory"][0]
    s["outside"] = outside(s)
    formulas = list(MEMORY_ENDS)
    if s["efficiency"]:  # the reader's own: no run says how good it is
        s["leaves_out"] = LEAVES_OUT
    elif "step_seconds" in s:
        for name in BOUNDED:
            if name in s:
                formulas += ENDS[name]
        parts = doubts(s)
        s["dominant"] = max(parts, key=lambda name: parts[name])
    return derive(s, formulas)


def verdict(found: dict) -> str:
    """Whether a layout fits, in a line."""
    least, most = gigabytes(found["total_bytes_low"]), found["total_bytes_high"]
    said = (
        f"{gigabytes(found['total_bytes'])} of {gigabytes(found['memory'])} GB"
        f" ({least} to {gigabytes(most)})"
    )
    return f"{fit(found)}: {said}"


def fit(found: dict) -> str:
    """fits, if the upper end does; may fit, if the lower end does."""
    if plain(found["total_bytes_high"]) <= found["memory"]:
        return "fits"
    if plain(found["total_bytes_low"]) <= found["memory"]:
        return "may fit"
    return "does not fit"


def gigabytes(given) -> str:  # type: ignore[no-untyped-def]
    """Bytes in GB, to two digits or whole."""
    value = plain(given) / 1e9
    return short(round(value, 1)) if value < 10 else str(round(value))


def judged(given: dict) -> dict:
    """A layout with its intervals, a verdict and, where it may not fit, the
    smallest change that lets it. With recompute "auto" it recomputes as little
    as may fit."""
    found = least_recomputing(given)
    if not found["memory"]:
        return found
    found["verdict"] = verdict(found)
    if fit(found) != "fits":
        found["remedy"] = remedy(dict(given, recompute=found["recompute"]))
    return found


def least_recomputing(given: dict) -> dict:
    """The layout, with the least recomputing that may fit."""
    if given["recompute"] != "auto":
        return bounded(layout(given))
    for recompute in ("none", "selective", "full"):
        found = bounded(layout(dict(given, recompute=recompute)))
        if fit(found) != "does not fit":
            return found
    return found


def remedy(given: dict) -> str:
    """The first of a few changes, cheap ones first, that makes it fit."""
    for change in changes(given):
        try:
            found = bounded(layout(dict(given, **change)))
        except PlanError:
            continue
        if fit(found) == "fits":
            said = [
                flag(name)
                + ("" if change[name] is True else f" {change[name]}")
                for name in change
            ]
            return "it fits with " + " ".join(said)
    return "no single change makes it fit; ask plan search"


def changes(given: dict) -> list:
    """What to try, the cheapest first."""
    found: list = []
    tp, zero = given.get("tp", 1), given.get("zero_stage", 0)
    if tp > 1 and not given.get("sequence_parallel"):
        found.append({"sequence_parallel": True})
    found += [{"zero_stage": stage} for stage in range(zero + 1, 4)]
    if given["loss"] != "chunked":
        found.append({"loss": "chunked"})
    micro = given.get("micro_batch", 1)
    if micro > 1:
        found.append({"micro_batch": micro // 2})
    less = {"none": ["selective", "full"], "selective": ["full"]}
    found += [{"recompute": one} for one in less.get(given["recompute"], [])]
    if micro > 1:
        found.append({"micro_batch": 1})
    found += [dict(one, recompute="full") for one in found]
    for way in (2, 4, 8):
        split = {"tp": tp * way, "sequence_parallel": True}
        found.append(dict(split, recompute="full"))
        found.append({"pp": given.get("pp", 1) * way, "recompute": "full"})
        found.append(dict(split, recompute="full", zero_stage=3))
    for way in (2, 4, 8):
        more = {"gpus": given["gpus"] * way}
        found += [more, dict(more, zero_stage=3)]
        found.append(dict(more, zero_stage=3, recompute="full"))
    return found
