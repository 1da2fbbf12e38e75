"""The picture of the chapter on checkpointing: one save in the background, and
the checkpoint that a crash at each moment leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lockstep.explore.svg import long
from lockstep.site.pages.charts import LINE, Canvas, Chart

# Llama 3 70B on 512 GPUs. A checkpoint has 12 bytes per parameter, and the
# storage takes 20 GB/s from the job.
BYTES, STORAGE = 12 * 70.6e9, 20e9
STEP, STALL, RENAME = 10.0, 2.0, 1.5  # seconds of a step, a copy, a publish
OLD, NEW, LAST = 120, 240, 246  # the two checkpoints' steps; the last drawn
KINDS = {
    "training step": "plain-4",
    "snapshot: training waits": "fill-2",
    "write": "plain-1",
    "publish": "fill-3",
}
CRASHES = {  # seconds from the snapshot's begin, or from the publish
    "1": -8.5,
    "2": 1.0,
    "3": 30.0,
    "4": 6.0,
}


class Crash(NamedTuple):
    """A crash, the step that a restart loads, and how many steps are lost."""

    number: str
    at: float
    loads: int
    lost: int


@dataclass(frozen=True)
class Saving:
    """The times of one save, in seconds from the first step that is drawn."""

    steps: list[tuple[float, float, int]]
    snapshot: float
    publish: float
    published: float
    end: float

    def crash(self, number: str) -> Crash:
        """Return one crash of the picture."""
        seconds = CRASHES[number]
        at = (self.publish if number == "4" else self.snapshot) + seconds
        loads = NEW if at >= self.published else OLD
        done = max((n for _, end, n in self.steps if end <= at), default=OLD)
        return Crash(number, at, loads, done - loads)


def saving() -> Saving:
    """Return the save that the picture shows."""
    steps, at = [], 0.0
    for step in range(NEW - 1, LAST + 1):
        steps.append((at, at + STEP, step))
        at += STEP + (STALL if step == NEW else 0.0)
    snapshot = next(end for _, end, step in steps if step == NEW)
    publish = snapshot + STALL + BYTES / STORAGE
    return Saving(steps, snapshot, publish, publish + RENAME, at)


def timeline() -> Chart:
    """Draw one save, and four crashes."""
    one = saving()
    crashes = [one.crash(number) for number in CRASHES]
    write = f"{BYTES / STORAGE:.0f} s"
    return Chart(
        f"One save of a 70B model on 512 GPUs: {BYTES / 1e9:.0f} GB at"
        f" {STORAGE / 1e9:.0f} GB/s, next to steps of {STEP:.0f} s. The last"
        " row is the checkpoint that a restart would load.",
        f"A timeline with three rows. Training: steps {NEW - 1} and {NEW}, a"
        f" snapshot of {STALL:.0f} s during which training waits, then steps"
        f" {NEW + 1} to {LAST}. Storage: the write, which takes {write} and"
        " overlaps the steps, then the publish. Restart loads: step"
        f" {OLD} until the publish ends, and step {NEW} from then on. "
        + " ".join(
            f"A crash at {one.number} loads step {one.loads} and loses"
            f" {one.lost} steps."
            for one in crashes
        ),
        lambda canvas: draw(canvas, one, crashes),
        [
            ["crash", "seconds", "a restart loads", "steps lost"],
            *(
                [c.number, f"{c.at:.0f}", f"step {c.loads}", f"{c.lost}"]
                for c in crashes
            ),
        ],
    )


def sample(canvas: Canvas, i: int, at: float, middle: float) -> None:
    """Draw a kind's sample for the legend."""
    canvas.shape(at, middle - 6, 22, 12, [*KINDS.values()][i])


def draw(canvas: Canvas, one: Saving, crashes: list[Crash]) -> None:
    """Draw the three rows, the crashes across them, and what each leaves."""
    canvas.legend([*KINDS], sample)
    left, right = 8 + long("restart"), canvas.width - 4

    def x(seconds: float) -> float:
        return left + (right - left) * seconds / one.end

    def bar(start: float, end: float, kind: str, *words: str) -> None:
        canvas.shape(x(start), canvas.y, x(end) - x(start), 20, kind)
        label(start, end, *words)

    def label(start: float, end: float, *words: str) -> None:
        """Write the first words that fit."""
        fits = (w for w in words if long(w) + 4 < x(end) - x(start))
        if chosen := next(fits, ""):
            middle = (x(start) + x(end)) / 2
            canvas.text(middle, canvas.y + 14.5, chosen, "middle", kind="halo")

    canvas.y += LINE + 4
    for crash in crashes:  # behind the bars, so that they cross no words
        at = x(crash.at)
        canvas.upright(at, canvas.y - 4, canvas.y + 82, "chart-rule")
        canvas.text(at, canvas.y - 8, crash.number, "middle", strong=True)
    canvas.text(2, canvas.y + 14.5, "training")
    for start, end, step in one.steps:
        bar(start, end, "plain-4", str(step))
    bar(one.snapshot, one.snapshot + STALL, "fill-2")
    canvas.y += 28
    canvas.text(2, canvas.y + 14.5, "storage")
    took = f"{BYTES / STORAGE:.0f} s"
    wrote = f"write {BYTES / 1e9:.0f} GB: {took}", f"write: {took}"
    bar(one.snapshot + STALL, one.publish, "plain-1", *wrote)
    bar(one.publish, one.published, "fill-3")
    canvas.y += 28
    canvas.text(2, canvas.y + 14.5, "restart")
    at = x(one.published)
    canvas.blocks(None, [(x(0), at)], canvas.y, 20)
    label(0, one.published, f"loads step {OLD}")
    canvas.plain(at, canvas.y, x(one.end) - at, 20, 3)
    label(one.published, one.end, f"loads step {NEW}", f"{NEW}")
    canvas.y += 24
    for crash in crashes:
        canvas.y += LINE
        words = f"loads step {crash.loads}, loses {crash.lost} steps"
        canvas.text(2, canvas.y, f"Crash {crash.number}", strong=True)
        canvas.text(2 + long("Crash 0") + 10, canvas.y, words)
    canvas.y += 8
