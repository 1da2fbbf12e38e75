"""Lab 12: what a design must hold, by the planner."""

from math import exp, factorial
from types import ModuleType
from typing import Any

from lockstep.grading.criteria import Criterion
from lockstep.planner.figures import PlanError, decimal
from lockstep.planner.layout import WHITEBOARD
from lockstep.planner.questions import ask

NEAR = 0.1  # that a number may be off
USABLE = 72e9  # bytes of a GPU, of 80e9
SLOWER = 1.15  # than the best layout, at most
TASK = {
    "preset": "llama3-70b",
    "gpus": 64,
    "sequence": 32768,
    "global_batch": 64,
    "hardware": "h100",
}
# What `lockstep plan search` finds for the task.
FASTEST = {
    "tp": 4,
    "cp": 8,
    "pp": 2,
    "zero_stage": 2,
    "sequence_parallel": True,
}
CHOICES = (
    *("tp", "cp", "pp", "dp", "zero_stage", "micro_batch", "recompute"),
    *("sequence_parallel", "context"),
)
# What an axis may save: the planner's figure, and the least that is a reason.
KINDS = {
    "parameters": ("parameters_bytes", 1e9),
    "gradients": ("gradients_bytes", 1e9),
    "optimizer": ("optimizer_bytes", 1e9),
    "activations": ("activations_bytes", 1e9),
    "logits": ("logits_bytes", 1e9),
    "time": ("step_seconds", 0.5),
}
BOTH = "all-gather and reduce-scatter"

GPUS = 4096
JOB = {
    "preset": "llama3-405b",
    "gpus": GPUS,
    "sequence": 8192,
    "global_batch": 2048,
    "tp": 8,
    "cp": 2,
    "pp": 16,
    "zero_stage": 1,
    "sequence_parallel": True,
}
HOUR, DAY = 3600, 86400
MTBF_HOURS = 16384 * 54 * 24 / 419  # of one GPU: Llama 3 2024, 3.3.4
SAVE = 2  # seconds that a checkpoint to host memory stops the job
SAVED = 12  # bytes of a parameter in a checkpoint
PREFLIGHT = 300
LEAST = {"detect": 60, "meet": 150, "warm_up": 90}  # seconds of a restart
RACK, NODE, CARD, NVLINK = 4, 8, 365e9 / 8, 370e9
WAITING = 8  # nodes, at most
PROMISE = 0.98
REQUIREMENTS = "goodput", "spares", "restore", "corruption", "preflight"


def of(row: dict, name: str, where: str) -> Any:
    """What the answer has under that name."""
    assert isinstance(row, dict), f"{where} is no dictionary"
    assert name in row, f"{where} has no {name!r}"
    return row[name]


def near(found: float, right: float, what: str, unit: str = "B") -> None:
    """AssertionError, unless it is the planner's number within 10 %."""
    said = f"{what} is {decimal(found, unit)}"
    close = abs(found - right) <= NEAR * abs(right)
    assert close, f"{said}; the planner has {decimal(right, unit)}"


def same(found: Any, right: Any, what: str) -> None:
    """AssertionError, unless they are equal."""
    assert found == right, f"{what} is {found!r}, not {right!r}"


def planned(given: dict, **changed: Any) -> dict:
    """What the planner says of a layout for the task."""
    return ask("run", {**WHITEBOARD, **TASK, **given, **changed})


def chosen(answer: ModuleType) -> dict:
    """The answer's layout."""
    return legal(answer.layout())


def legal(given: dict) -> dict:
    """A layout that is one, and for the task as it stands."""
    for name in ("tp", "cp", "pp", "dp", "zero_stage"):
        of(given, name, "the layout")
    for name in given:
        assert name in CHOICES, f"{name!r} is not yours to choose"
    ways = given["tp"] * given["cp"] * given["pp"] * given["dp"]
    same(ways, TASK["gpus"], "tp x cp x pp x dp")
    try:
        planned(given)
    except PlanError as error:
        raise AssertionError(f"the planner refuses it: {error}") from None
    return given


def fits(answer: ModuleType) -> None:
    """All GPUs are used, none of them beyond what it has."""
    needs = planned(chosen(answer))["total_bytes"].value
    room = decimal(USABLE, "B")
    assert needs <= USABLE, f"it needs {decimal(needs, 'B')} of {room}"


def facts(given: dict) -> dict[str, dict[str, Any]]:
    """The rows of a layout, but for what an axis saves."""
    found = planned(given)
    tp, cp, pp, dp = (found[name] for name in ("tp", "cp", "pp", "dp"))
    ring, stage = found["context"] == "ring", found["zero_stage"]
    sharing = ("step", "step", "micro-batch", "layer and micro-batch")[stage]
    rows = {
        "tensor": (
            range(tp),
            BOTH if found["sequence_parallel"] else "all-reduce",
            "layer and micro-batch",
            "nothing",
        ),
        "context": (
            range(0, tp * cp, tp),
            "send and receive" if ring else "all-to-all",
            "layer and micro-batch",
            "attention" if ring else "nothing",
        ),
        "data": (
            range(0, tp * cp * dp, tp),
            BOTH if stage else "all-reduce",
            sharing,
            "computing",
        ),
        "pipeline": (
            range(0, 64, 64 // pp),
            "send and receive",
            "micro-batch",
            "nothing",
        ),
    }
    return {
        axis: {
            "ranks": list(ranks),
            "link": "NVLink" if ranks[-1] < NODE else "InfiniBand",
            "collective": collective,
            "each": each,
            "sent": found[f"{axis}_bytes"].value,
            "hides": hides,
        }
        for axis, (ranks, collective, each, hides) in rows.items()
        if len(ranks) > 1
    }


def rows(answer: ModuleType) -> list[tuple[str, dict, dict]]:
    """Each axis that the layout uses, the answer's row and the planner's."""
    said, right = answer.axes(), facts(chosen(answer))
    return [(axis, of(said, axis, "axes"), right[axis]) for axis in right]


def is_placed(answer: ModuleType) -> None:
    """Ranks follow from the mesh, and the link from the ranks."""
    for axis, row, right in rows(answer):
        ranks = list(of(row, "ranks", axis))
        same(ranks, right["ranks"], f"{axis}'s group of rank 0")
        same(of(row, "link", axis), right["link"], f"{axis}'s link")


def sends(answer: ModuleType) -> None:
    """The collective, how often, and the bytes."""
    for axis, row, right in rows(answer):
        for name in ("collective", "each"):
            same(of(row, name, axis), right[name], f"{axis}'s {name!r}")
        near(of(row, "sent", axis), right["sent"], f"what {axis} sends")


def without(given: dict, axis: str) -> dict:
    """The plan in which data parallelism has the axis' ranks."""
    if axis == "data":
        return planned(given, zero_stage=0)
    short = {"tensor": "tp", "context": "cp", "pipeline": "pp"}[axis]
    other = {**given, short: 1}
    if short == "tp":
        other["sequence_parallel"] = False
    dp = TASK["gpus"] // (other["tp"] * other["cp"] * other["pp"])
    most = TASK["global_batch"] // dp
    other["micro_batch"] = min(other.get("micro_batch", 1), most)
    return planned(other, dp=dp)


def has_reasons(answer: ModuleType) -> None:
    """What an axis saves, by a plan without it; what a slow link costs."""
    given = chosen(answer)
    found = planned(given)
    for axis, row, right in rows(answer):
        same(
            of(row, "hides", axis), right["hides"], f"what {axis} hides behind"
        )
        kind = of(row, "saves", axis)
        assert kind in KINDS, f"{axis} saves {kind!r}; say one of {[*KINDS]}"
        key, least = KINDS[kind]
        now, unit = found[key].value, found[key].formula.unit
        before = without(given, axis)[key].value
        assert before - now >= least, (
            f"{axis} does not save {kind}: without it"
            f" {decimal(before, unit)}, with it {decimal(now, unit)}"
        )
        what = f"what {axis} saves of {kind}"
        near(of(row, "saved", axis), before - now, what, unit)
        rate = {"node_bandwidth": NVLINK / 2}
        if right["link"] == "InfiniBand":
            rate = {"network_bandwidth": CARD / 2}
        slower = planned(given, **rate)["step_seconds"].value
        longer = slower - found["step_seconds"].value
        risk = of(row, "risk", axis)
        assert abs(risk - longer) <= max(0.1, NEAR * longer), (
            f"a step takes {decimal(longer, 's')} longer at half the rate of"
            f" {axis}'s link, not {decimal(risk, 's')}"
        )


def is_best(answer: ModuleType) -> None:
    """The design's own numbers, those of others, and the best there is."""
    given, said = chosen(answer), answer.figures()
    found = planned(given)
    accumulated = of(said, "microbatches", "figures")
    same(accumulated, found["microbatches"], "microbatches")
    for name in ("total_bytes", "step_seconds", "mfu"):
        right = found[name]
        near(of(said, name, "figures"), right.value, name, right.formula.unit)
    took = found["step_seconds"].value
    least = planned(FASTEST)["step_seconds"].value
    assert took <= SLOWER * least, (
        f"a step takes {decimal(took, 's')}, and {decimal(least, 's')} in the"
        " best layout"
    )
    others = answer.rejected()
    for other in others:
        because = of(other, "because", "a rejected layout")
        number = of(other, "number", "a rejected layout")
        found = planned(legal(of(other, "layout", "a rejected layout")))
        needs, takes = found["total_bytes"].value, found["step_seconds"].value
        if because == "memory":
            near(number, needs, "what the rejected layout needs")
            assert needs > USABLE, f"{decimal(needs, 'B')} do fit"
        else:
            same(because, "time", "because")
            near(number, takes, "the rejected layout's step", "s")
            assert needs <= USABLE, "the slower one does not fit, either"
            assert takes > took, f"{decimal(takes, 's')} is not slower"
    kinds = {other["because"] for other in others}
    same(kinds, {"memory", "time"}, "the kinds of reasons")


def failing(interval: float = 0, save: float = SAVE, restart: float = 0) -> Any:
    """What the planner says of the job and its failures."""
    given = {
        "gpus": GPUS,
        "gpu_mtbf_hours": MTBF_HOURS,
        "save_seconds": save,
        "restart_seconds": restart,
        "save_every_seconds": interval,
    }
    return ask("goodput", given)


def rate() -> float:
    """Failures of the job in a day."""
    return DAY / failing()["mtbf_seconds"].value


def share() -> float:
    """Bytes of a checkpoint on one GPU."""
    total = ask("params", {"preset": JOB["preset"]})["total"].value
    return total * SAVED / GPUS


def restart_of(said: dict) -> float:
    """Seconds of a restart whose parts are possible."""
    parts = of(said, "restart", "failures")
    least = {**LEAST, "restore": share() / CARD}
    for name, seconds in least.items():
        given = of(parts, name, "restart")
        short = decimal(seconds, "s")
        assert given >= seconds, f"{name} takes {short} at least, not {given}"
    check = of(parts, "preflight", "restart")
    assert check == 0 or check >= PREFLIGHT, (
        f"a pre-flight check takes {PREFLIGHT} s, not {check}"
    )
    return sum(parts.values())


def counts_failures(answer: ModuleType) -> None:
    """How many, what to do about them, and how long it takes."""
    said = answer.failures()
    near(of(said, "a_day", "failures"), rate(), "a_day", "failures")
    best = failing()["interval_seconds"].value
    interval = of(said, "interval_seconds", "failures")
    near(interval, best, "interval_seconds", "s")
    restart_of(said)


def enough() -> int:
    """Spares that in 99 of 100 cases are as many as the nodes in repair, which
    are the failures of one day: Poisson's law."""
    chance, nodes = 0.0, -1
    while chance < 0.99:
        nodes += 1
        chance += exp(-rate()) * rate() ** nodes / factorial(nodes)
    return nodes


def has_spares(answer: ModuleType) -> None:
    """Enough, and not too many; each tested against its link."""
    said = answer.spares()
    nodes = of(said, "nodes", "spares")
    assert enough() <= nodes <= WAITING, (
        f"{nodes} spares; {rate():.3g} failures a day, each a day long, and at"
        f" most {WAITING} idle"
    )
    link = ask(
        "collective",
        {"op": "all_reduce", "bytes": 1e9, "ranks": 8, "bandwidth": NVLINK},
    )
    slowest = of(said, "slowest_seconds", "spares")
    near(slowest, link["seconds"].value / 0.8, "slowest_seconds", "s")


def has_peers(answer: ModuleType) -> None:
    """Somewhere else, whole at every moment, and counted."""
    said = answer.peers()
    names = "copies", "distance", "generations", "bytes_per_node"
    copies, distance, generations, held = (of(said, n, "peers") for n in names)
    assert copies >= 1, "no other node has a copy"
    nodes = GPUS // NODE
    assert RACK <= distance <= nodes - RACK, (
        f"node 0 and node {distance} can be in one rack of {RACK}"
    )
    assert generations >= 2, "a failure amid a save leaves no whole checkpoint"
    right = NODE * share() * (1 + copies) * generations
    near(held, right, "bytes_per_node")


def costs(every: float) -> float:
    """The share of time that one replayed step takes."""
    return ask("run", {**WHITEBOARD, **JOB})["step_seconds"].value / every


def finds_corruption(answer: ModuleType) -> None:
    """Where it still differs, in time, and with a way back."""
    said = answer.corruption()
    names = "compares", "every_seconds", "keep_seconds", "costs"
    compares, every, keep, cost = (of(said, n, "corruption") for n in names)
    same(compares, "gradients before the average", "what is compared")
    assert 0 < every <= DAY, f"a wrong GPU is found after {every} s"
    assert keep >= every, (
        f"checkpoints of the last {keep} s may all be wrong, when the last"
        f" clean check is {every} s old"
    )
    near(cost, costs(every), "costs", "of the time")


def promises(answer: ModuleType) -> None:
    """The loss is near the planner's, and small enough."""
    said = answer.failures()
    interval = of(said, "interval_seconds", "failures")
    kept = failing(interval, SAVE, restart_of(said))["goodput"].value
    every = of(answer.corruption(), "every_seconds", "corruption")
    right = kept * (1 - costs(every))
    assert right >= PROMISE, f"the design keeps {right:.4g} of the time"
    near(1 - answer.goodput(), 1 - right, "1 - goodput()", "of the time")


def refuses(answer: ModuleType) -> None:
    """The requirement that restarts alone rule out."""
    said = answer.premise()
    refused = of(said, "refused", "premise")
    assert refused in REQUIREMENTS, f"{refused!r} is none of {REQUIREMENTS}"
    assert refused == "goodput", f"{refused!r} can be met"
    restart = sum(LEAST.values()) + share() / CARD
    limit = failing(save=1e-6, restart=restart)["goodput"].value
    lost = 1 - of(said, "possible", "premise")
    near(lost, 1 - limit, "1 - possible", "of the time")


PLANNED = {"layout": ""}  # no row can be judged of a layout that cannot be
CRITERIA = [
    Criterion(
        name="layout",
        points=10,
        check=fits,
        world=1,
        hint="tp x cp x pp x dp is 64. Add up state, activations, logits",
    ),
    Criterion(
        name="placement",
        points=10,
        check=is_placed,
        world=1,
        needs=PLANNED,
        hint="An axis' stride is the product of the axes before it; context"
        " ranks hold the same parameters, so they are in the data group",
    ),
    Criterion(
        name="bytes",
        points=15,
        check=sends,
        world=1,
        needs=PLANNED,
        hint="Bytes of one call, times calls a layer, layers, micro-batches",
    ),
    Criterion(
        name="reasons",
        points=10,
        check=has_reasons,
        world=1,
        needs=PLANNED,
        hint="Give the axis' ranks to data parallelism: what grows?",
    ),
    Criterion(
        name="alternatives",
        points=10,
        check=is_best,
        world=1,
        needs=PLANNED,
        hint="`lockstep plan run` has each number, `search` the others",
    ),
    Criterion(
        name="failures",
        points=10,
        check=counts_failures,
        world=1,
        hint="Failures grow with GPUs; the interval is the root of twice the"
        " save times the mean time between failures",
    ),
    Criterion(
        name="spares",
        points=5,
        check=has_spares,
        world=1,
        hint="The mean is not enough in half of all cases; a ring sends twice"
        " seven eighths",
    ),
    Criterion(
        name="peers",
        points=10,
        check=has_peers,
        world=1,
        hint="What fails together must not hold both copies; one is being"
        " overwritten when the failure comes",
    ),
    Criterion(
        name="corruption",
        points=5,
        check=finds_corruption,
        world=1,
        hint="An average makes all ranks equally wrong; go back to before the"
        " last clean check",
    ),
    Criterion(
        name="goodput",
        points=5,
        check=promises,
        world=1,
        needs={"failures": "", "corruption": ""},
        hint="Saves, half an interval a failure, the restart, the replays",
    ),
    Criterion(
        name="premise",
        points=10,
        check=refuses,
        world=1,
        hint="What does every failure cost, however often you save?",
    ),
]
