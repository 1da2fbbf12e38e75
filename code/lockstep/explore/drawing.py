"""A scene as SVG, of classes that explore.css colors for either scheme."""

from .scene import KINDS, Areas, Points
from .svg import Canvas, escaped, long, place, round_step

LINE = 20
LANE = 22
AREA = 150  # height of a panel of areas
# Strokes in a tile of 8 by 8, so that kinds of one color are told apart, and
# all kinds where no color is seen.
HATCH = {
    "backward": "M-2 6L6 -2M2 10L10 2",
    "later": "M1 2h2M5 6h2",
    "ingrad": "M-2 2L6 10M2 -2L10 6",
    "kept": "M0 4h8",
    "reduce": "M-2 6L6 -2M2 10L10 2",
    "gathered": "M1 2h3M5 6h3",
    "update": "M2 0v8M6 0v8",
    "optimizer": "M4 0v8",
    "activations": "M0 0L8 8M0 8L8 0",
    "logits": "M0 4h8",
    "waiting": "M1 4h6",
    "twice": "M0 4h8",
    "best": "M0 4h8",
    "lost": "M0 0L8 8M0 8L8 0",
    "never": "M1 1L7 7M1 7L7 1",
    "dropped": "M0 0L8 8M0 8L8 0",
    "empty": "M2 1v6M6 1v6",
    "fine": "M4 0v8",
    "missing": "M1 1L7 7M1 7L7 1",
    "vanished": "M1 1L7 7M1 7L7 1",
    "coarse": "M-2 6L6 -2M2 10L10 2",
    "skipped": "M0 4h8",
    "recompute": "M-2 6L6 -2M2 10L10 2",
    "exposed": "M0 4h8",
    "overfull": "M0 0L8 8M0 8L8 0",
    "moving": "M1 2h3M5 6h3",
    "slowest": "M0 0L8 8M0 8L8 0",
}


def svg(scene, width: int, name: str, label: str) -> str:  # type: ignore[no-untyped-def]
    """The drawing, `width` units wide; its height is what it takes.

    Args:
        name: sets the ids of its patterns apart from those of other drawings.
        label: what a screen reader calls it, before its description.
    """
    canvas = Canvas(name, width, "explore", HATCH)
    _legend(canvas, scene.kinds())
    left = 8 + max(
        [long(row) for panel in scene.panels for row in _labels(panel)]
    )
    right = width - 12
    scale = (right - left) / scene.end
    for panel in scene.panels:
        canvas.y += LINE + 6
        canvas.text(2, canvas.y - 7, panel.title, strong=True)
        if isinstance(panel, Areas):
            _areas(canvas, panel, left, scale)
        elif isinstance(panel, Points):
            _points(canvas, panel, left, right, scale)
        else:
            _lanes(canvas, panel, left, scale)
    _axis(canvas, scene, left, right)
    said = escaped(label + ". " + scene.told)
    return canvas.svg(f'xmlns="http://www.w3.org/2000/svg" aria-label="{said}"')


def _legend(canvas: Canvas, kinds: list) -> None:
    canvas.y = LINE
    lengths = [22 + long(KINDS[kind]) for kind in kinds]
    for kind, x in zip(kinds, canvas.flow(lengths, 12, LINE)):
        canvas.box(x, canvas.y - 12, 14, 14, kind)
        canvas.text(x + 19, canvas.y, KINDS[kind])


def _labels(panel) -> list:  # type: ignore[no-untyped-def]
    if isinstance(panel, Areas):
        return [panel.say(max(panel.totals()))]
    if isinstance(panel, Points):
        return [panel.words]
    return [label for label, _ in panel.rows]


def _lanes(canvas: Canvas, panel, left: float, scale: float) -> None:  # type: ignore[no-untyped-def]
    for label, bars in panel.rows:
        canvas.text(2, canvas.y + 14, label)
        for start, end, kind, words in bars:
            x, wide = left + start * scale, (end - start) * scale
            canvas.box(x, canvas.y, max(wide, 0.5), LANE - 5, kind)
            if words and long(words) + 4 < wide:
                at = x + wide / 2
                canvas.text(at, canvas.y + 13, words, "middle", kind="on")
        canvas.y += LANE


def _areas(canvas: Canvas, panel, left: float, scale: float) -> None:  # type: ignore[no-untyped-def]
    highest = max(panel.totals())
    top = canvas.y
    canvas.y += AREA
    tall = AREA / highest if highest else 0
    below = [0.0] * (len(panel.moments) - 1)

    def corners(values: list) -> list:
        return [
            f"{place(left + moment * scale)} {place(canvas.y - value * tall)}"
            for i, value in enumerate(values)
            for moment in panel.moments[i : i + 2]
        ]

    for kind, values in panel.layers:
        if max(values) <= 0:
            continue
        over = [a + b for a, b in zip(below, values)]
        path = "L".join(corners(over) + corners(below)[::-1])
        canvas.parts.append(f'<path d="M{path}Z" {canvas.fill(kind)}/>')
        below = over
    peak = panel.totals().index(highest)
    x = left + (panel.moments[peak] + panel.moments[peak + 1]) / 2 * scale
    canvas.text(2, top + 12, panel.say(highest))
    canvas.text(2, canvas.y, "0")
    rule = f"M{place(left)} {place(top)}H{place(x)}V{place(top + 8)}"
    canvas.path(rule, "explore-rule")


def _points(  # type: ignore[no-untyped-def]
    canvas: Canvas, panel, left: float, right: float, scale: float
) -> None:
    canvas.y += AREA
    line = canvas.y - panel.limit / panel.top * AREA
    canvas.text(2, line + 4, panel.words)
    canvas.text(2, canvas.y, "0")
    canvas.path(f"M{place(left)} {place(line)}H{place(right)}", "explore-rule")
    for time, value, kind in panel.dots:
        y = canvas.y - min(value / panel.top, 1) * AREA
        canvas.parts.append(
            f'<circle cx="{place(left + time * scale)}" cy="{place(y)}" r="4"'
            f" {canvas.fill(kind)}/>"
        )


def _axis(canvas: Canvas, scene, left: float, right: float) -> None:  # type: ignore[no-untyped-def]
    step = round_step(scene.end, 3 if right - left < 400 else 6)
    top = place(canvas.y + 4)
    canvas.path(f"M{place(left)} {top}H{place(right)}", "explore-axis")
    at = 0.0
    while at <= scene.end * 1.0001:
        x = left + (right - left) * at / scene.end
        anchor = "end" if x > right - 20 else "middle"
        canvas.path(f"M{place(x)} {top}v5", "explore-axis")
        canvas.text(x, canvas.y + 23, scene.say(at), anchor)
        at += step
    canvas.y += 30
