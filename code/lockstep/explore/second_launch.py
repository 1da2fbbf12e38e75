"""Where a second launch goes on: which steps of two launches count, and which
are trained again, by what the second one loads.

The rule is that of the exam of resume: the second launch goes on from the step
after which the first one had the same weights.
"""

from .scene import Lanes, Scene
from .settings import Choice, Slider

TITLE = "Where a second launch goes on"
STEPS = 18  # of the whole run
EPOCH = 6  # steps
BATCH = 16  # samples a step

SETTINGS = [
    Choice(
        "loads",
        "The second launch loads",
        [
            ("newest", "the newest checkpoint"),
            ("older", "the one before"),
            ("nothing", "nothing, and begins at step 0"),
            ("done", "the newest, and takes no step"),
        ],
    ),
    Choice(
        "counts",
        "It counts its steps",
        [("run", "from the run's beginning"), ("launch", "from its own")],
    ),
    Slider("every", "Saves after every … steps", [2, 3, 4, 6], 4, str),
    Slider("kill", "Killed after step", list(range(3, STEPS)), 10, str),
]
SCENES = [
    ("well", "As it should be", ""),
    ("older", "An older checkpoint", "loads:older"),
    ("anew", "From the beginning", "loads:nothing"),
    ("long", "Too many steps", "counts:launch"),
    ("none", "No step at all", "loads:done"),
]


def saved(values: dict) -> int:
    """The step of the newest checkpoint when the launch is killed, or 0."""
    return values["kill"] // values["every"] * values["every"]


def goes_on(values: dict) -> int:
    """The step that the second launch goes on from."""
    step, loads = saved(values), values["loads"]
    if loads == "nothing":
        return 0
    if loads == "older":
        return max(0, step - values["every"])
    return step


def taken(values: dict) -> int:
    """How many steps the second launch takes."""
    if values["loads"] == "done":
        return 0
    return STEPS if values["counts"] == "launch" else STEPS - goes_on(values)


def counted(values: dict) -> int:
    """How many steps the run has in the end, as the exam counts them."""
    if not taken(values):
        return values["kill"]  # nothing went on, so nothing was dropped
    return goes_on(values) + taken(values)


def verdicts(values: dict) -> list:
    """Of the questions where a run goes on and where it ends, those failed. If
    nothing went on, the second is not asked."""
    if not taken(values):
        return ["resumes-latest"]
    wrong = []
    if goes_on(values) < saved(values):
        wrong.append("resumes-latest")
    if counted(values) != STEPS:
        wrong.append("total-steps")
    return wrong


def _steps(first: int, last: int) -> str:
    """Words for the steps from one to the other."""
    return f"{first} to {last}" if last > first else str(first)


def draw(values: dict) -> Scene:
    """The undisturbed run over the two launches."""
    at, kill, more = goes_on(values), values["kill"], taken(values)
    kept = at if more else kill
    first, second = [], []
    if kept:
        first.append((0, kept, "once", _steps(1, kept)))
    if kept < kill:
        first.append((kept, kill, "dropped", _steps(kept + 1, kill)))
    if more:
        second.append((at, at + more, "once", _steps(at + 1, at + more)))
    undisturbed = [(0, STEPS, "once", _steps(1, STEPS))]
    rows = [
        ("nobody disturbs it", undisturbed),
        ("launch 1, killed", first),
        ("launch 2", second),
    ]
    wrong = verdicts(values)
    numbers = [
        ("goes on from step", str(at) if more else "none"),
        ("steps taken", str(kill + more)),
        ("steps dropped", str(kill - kept)),
        ("steps that count", str(counted(values))),
        ("fails", ", ".join(wrong) or "nothing"),
    ]
    step = saved(values)
    told = (
        f"The first launch takes {kill} steps; its newest checkpoint is of"
        f" step {step}. "
        if step
        else f"The first launch takes {kill} steps and has saved nothing. "
    )
    if more:
        told += (
            f"The second begins with the weights of step {at}, so"
            f" {kill - at} steps of the first, {BATCH * (kill - at)} samples,"
            f" do not count, and {kill + more} steps are paid for. The run has"
            f" {counted(values)} steps in the end, and {STEPS} were asked for."
        )
    else:
        told += (
            "The second takes no step and ends as if all were done, so the run"
            f" stays at {kill} steps of {STEPS}."
        )
    end = max(STEPS, at + more)
    panels = [Lanes("Steps of the run", rows)]
    return Scene(panels, end, lambda x: str(round(x)), numbers, told)
