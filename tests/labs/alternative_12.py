"""Lab 12 once more, in another style: the planner's fastest layout, which has
a pipeline, and every number asked of it."""

from math import exp

from lockstep.planner.questions import ask

TASK = {
    "preset": "llama3-70b",
    "gpus": 64,
    "sequence": 32768,
    "global_batch": 64,
}
MINE = {"tp": 4, "cp": 8, "pp": 2, "dp": 1, "zero_stage": 3}
MTBF_HOURS = 50677
GPUS = {"gpus": 4096, "gpu_mtbf_hours": MTBF_HOURS}
RESTART = {"detect": 75, "preflight": 0, "meet": 150, "restore": 5}
EVERY = 43200


def layout():
    return MINE | {"sequence_parallel": 1}


def run(**changed):
    return ask("run", TASK | layout() | changed)


def figures():
    names = "total_bytes", "step_seconds", "mfu"
    found = {name: float(run()[name]) for name in names}
    return found | {"microbatches": 64}


def saved(kind, **without):
    name = f"{kind}_bytes"
    return float(run(**without)[name]) - float(run()[name])


def longer(**rates):
    return float(run(**rates)["step_seconds"]) - float(run()["step_seconds"])


def axes():
    network = {"link": "InfiniBand", "risk": longer(network_bandwidth=22.8e9)}
    messages = {"collective": "send and receive"}
    halves = {
        "collective": "all-gather and reduce-scatter",
        "each": "layer and micro-batch",
    }
    rows = {
        "tensor": halves
        | {
            "ranks": [0, 1, 2, 3],
            "link": "NVLink",
            "hides": "nothing",
            "saves": "activations",
            "saved": saved("activations", tp=1, dp=4, sequence_parallel=0),
            "risk": longer(node_bandwidth=185e9),
        },
        "context": network
        | messages
        | {
            "ranks": (0, 4, 8, 12, 16, 20, 24, 28),
            "each": "layer and micro-batch",
            "hides": "attention",
            "saves": "activations",
            "saved": saved("activations", cp=1, dp=8),
        },
        "data": network
        | halves
        | {
            "ranks": list(range(0, 32, 4)),
            "hides": "computing",
            "saves": "parameters",
            "saved": saved("parameters", zero_stage=0),
        },
        "pipeline": network
        | messages
        | {
            "ranks": [0, 32],
            "each": "micro-batch",
            "hides": "nothing",
            "saves": "time",
            "saved": longer(pp=1, dp=2),
        },
    }
    found = run()
    for axis, row in rows.items():
        row["sent"] = float(found[f"{axis}_bytes"])
    return rows


def rejected():
    whole = layout() | {"zero_stage": 0}
    twice = layout() | {"recompute": "full"}
    return [
        {
            "layout": whole,
            "because": "memory",
            "number": float(run(**whole)["total_bytes"]),
        },
        {
            "layout": twice,
            "because": "time",
            "number": float(run(**twice)["step_seconds"]),
        },
    ]


def lost(restart, save=2, every=0):
    return ask(
        "goodput",
        GPUS
        | {
            "save_seconds": save,
            "restart_seconds": restart,
            "save_every_seconds": every,
        },
    )


def failures():
    found = lost(0)
    return {
        "a_day": 86400 / float(found["mtbf_seconds"]),
        "interval_seconds": 20 * step(),  # a whole number of steps
        "restart": RESTART | {"warm_up": 90},
    }


def step():
    job = {"preset": "llama3-405b", "gpus": 4096, "sequence": 8192}
    split = {"tp": 8, "cp": 2, "pp": 16, "zero_stage": 1}
    more = {"global_batch": 2048, "sequence_parallel": 1}
    return float(ask("run", job | split | more)["step_seconds"])


def spares():
    return {"nodes": 8, "slowest_seconds": 0.005}


def peers():
    state = float(ask("params", {"preset": "llama3-405b"})["total"]) * 12
    return {
        "copies": 2,
        "distance": 256,
        "generations": 2,
        "bytes_per_node": state / 512 * 3 * 2,
    }


def corruption():
    return {
        "compares": "gradients before the average",
        "every_seconds": EVERY,
        "keep_seconds": 7 * 86400,
        "costs": step() / EVERY,
    }


def goodput():
    told = failures()
    seconds = sum(told["restart"].values())
    kept = lost(seconds, every=told["interval_seconds"])["goodput"]
    return float(kept) * (1 - step() / EVERY)


def premise():
    mtbf = MTBF_HOURS * 3600 / 4096
    return {"refused": "goodput", "possible": exp(-300 / mtbf)}
