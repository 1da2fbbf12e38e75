"""A step that waits for its data: an example of how to write an explorable."""

# --8<-- [start:all]
from .scene import Lanes, Scene
from .settings import Slider

TITLE = "A step that waits for its data"
STEPS, COMPUTE = 6, 100.0  # steps that are drawn; milliseconds of each


def milliseconds(value: float) -> str:
    """A time, as a reader sees it."""
    return f"{value:.0f} ms"


SETTINGS = [
    Slider("workers", "Loader workers", [1, 2, 4, 8], 2, str),
    Slider("load", "To load a batch", [50, 100, 200, 400], 400, milliseconds),
]
SCENES = [("starved", "Too few", ""), ("fed", "Enough", "workers:4")]


def draw(values: dict) -> Scene:
    """Each of the workers loads every n-th batch; a step takes the next."""
    workers, load = values["workers"], values["load"]
    bars, now = [], 0.0
    for step in range(STEPS):
        ready = (step // workers + 1) * load
        if ready > now:
            bars.append((now, ready, "waiting", ""))
        now = max(ready, now) + COMPUTE
        bars.append((now - COMPUTE, now, "compute", str(step + 1)))
    share = 1 - STEPS * COMPUTE / now
    told = f"The GPU waits for {share:.0%} of {STEPS} steps."
    panels = [Lanes("What the GPU does", [("GPU", bars)])]
    return Scene(panels, now, milliseconds, [("waits", f"{share:.0%}")], told)


# --8<-- [end:all]
