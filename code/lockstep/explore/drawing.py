"""A scene as SVG, of classes that explore.css colors for either scheme."""

from .scene import KINDS, Areas, Points

FONT = 13  # of every text, in the units of the drawing
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
    top, parts = _legend(scene.kinds(), width, name)
    left = 8 + max(
        [_long(row) for panel in scene.panels for row in _labels(panel)]
    )
    right = width - 12
    scale = (right - left) / scene.end
    for panel in scene.panels:
        top += LINE + 6
        parts.append(_text(2, top - 7, panel.title, strong=True))
        if isinstance(panel, Areas):
            drawn, height = _areas(panel, top, left, scale, name)
        elif isinstance(panel, Points):
            drawn, height = _points(panel, top, left, right, scale, name)
        else:
            drawn, height = _lanes(panel, top, left, scale, name)
        parts.append(drawn)
        top += height
    drawn, top = _axis(scene, top, left, right)
    parts.append(drawn)
    patterns = "".join(
        f'<pattern id="{name}-{kind}" width="8" height="8"'
        f' patternUnits="userSpaceOnUse"><rect width="8" height="8"'
        f' class="explore-{kind}"/><path d="{HATCH[kind]}"'
        ' class="explore-hatch"/></pattern>'
        for kind in scene.kinds()
        if kind in HATCH
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}"'
        f' role="img" aria-label="{escaped(label + ". " + scene.told)}"'
        f' font-size="{FONT}"><defs>{patterns}</defs>{"".join(parts)}</svg>'
    )


def _legend(kinds: list, width: int, name: str) -> tuple:
    x: float = 2
    y, parts = LINE, []
    for kind in kinds:
        needs = 22 + _long(KINDS[kind])
        if x > 2 and x + needs > width:
            x, y = 2, y + LINE
        parts.append(_box(x, y - 12, 14, 14, kind, name))
        parts.append(_text(x + 19, y, KINDS[kind]))
        x += needs + 12
    return y, parts


def _labels(panel) -> list:  # type: ignore[no-untyped-def]
    if isinstance(panel, Areas):
        return [panel.say(max(panel.totals()))]
    if isinstance(panel, Points):
        return [panel.words]
    return [label for label, _ in panel.rows]


def _lanes(panel, top, left, scale, name) -> tuple:  # type: ignore[no-untyped-def]
    parts = []
    for index, (label, bars) in enumerate(panel.rows):
        y = top + index * LANE
        parts.append(_text(2, y + 14, label))
        for start, end, kind, words in bars:
            x, wide = left + start * scale, (end - start) * scale
            parts.append(_box(x, y, wide, LANE - 5, kind, name))
            if words and _long(words) + 4 < wide:
                at = x + wide / 2
                parts.append(_text(at, y + 13, words, "middle", "explore-on"))
    return "".join(parts), len(panel.rows) * LANE


def _areas(panel, top, left, scale, name) -> tuple:  # type: ignore[no-untyped-def]
    highest = max(panel.totals())
    bottom = top + AREA
    tall = AREA / highest if highest else 0
    parts = []
    below = [0.0] * (len(panel.moments) - 1)
    for kind, values in panel.layers:
        if max(values) <= 0:
            continue
        over = [a + b for a, b in zip(below, values)]
        path = "M" + "L".join(
            _corners(panel.moments, over, left, scale, bottom, tall)
            + _corners(panel.moments, below, left, scale, bottom, tall)[::-1]
        )
        parts.append(f'<path d="{path}Z" {_fill(kind, name)}/>')
        below = over
    peak = panel.totals().index(highest)
    x = left + (panel.moments[peak] + panel.moments[peak + 1]) / 2 * scale
    parts.append(_text(2, top + 12, panel.say(highest)))
    parts.append(_text(2, bottom, "0"))
    parts.append(
        f'<path class="explore-rule" d="M{left:.1f} {top}H{x:.1f}V{top + 8}"/>'
    )
    return "".join(parts), AREA


def _points(panel, top, left, right, scale, name) -> tuple:  # type: ignore[no-untyped-def]
    bottom = top + AREA
    line = bottom - panel.limit / panel.top * AREA
    parts = [
        _text(2, line + 4, panel.words),
        _text(2, bottom, "0"),
        f'<path class="explore-rule" d="M{left:.1f} {line:.1f}H{right}"/>',
    ]
    for time, value, kind in panel.dots:
        # As in _corners: a little more.
        x = left + time * scale + 1e-6
        y = bottom - min(value / panel.top, 1) * AREA + 1e-6
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" {_fill(kind, name)}/>'
        )
    return "".join(parts), AREA


def _corners(  # type: ignore[no-untyped-def]
    moments, values, left, scale, bottom, tall
) -> list:
    found = []
    for i, value in enumerate(values):
        # A little more: of a half, only one of the two Pythons rounds up.
        y = bottom - value * tall + 1e-6
        for moment in (moments[i], moments[i + 1]):
            x = left + moment * scale + 1e-6
            found.append(f"{x:.1f} {y:.1f}")
    return found


def _axis(scene, top, left, right) -> tuple:  # type: ignore[no-untyped-def]
    step = _step(scene.end, 3 if right - left < 400 else 6)
    parts = [f'<path class="explore-axis" d="M{left:.1f} {top + 4}H{right}"/>']
    place = 0.0
    while place <= scene.end * 1.0001:
        x = left + (right - left) * place / scene.end
        anchor = "end" if x > right - 20 else "middle"
        parts.append(f'<path class="explore-axis" d="M{x:.1f} {top + 4}v5"/>')
        parts.append(_text(x, top + 23, scene.say(place), anchor))
        place += step
    return "".join(parts), top + 30


def _step(end: float, count: int) -> float:
    """A round step of which about `count` make the axis."""
    power = 1.0
    while power * 10 < end / count:
        power *= 10
    while power > end / count:
        power /= 10
    for times in (1, 2, 5, 10):
        if times * power * count >= end:
            return times * power
    return 10 * power


def _box(x, y, wide, tall, kind, name) -> str:  # type: ignore[no-untyped-def]
    return (
        f'<rect x="{x:.1f}" y="{y}" width="{max(wide, 0.5):.1f}"'
        f' height="{tall}" {_fill(kind, name)}/>'
    )


def _fill(kind: str, name: str) -> str:
    if kind in HATCH:
        return f'class="explore-edge" fill="url(#{name}-{kind})"'
    return f'class="explore-edge explore-{kind}"'


def _text(  # type: ignore[no-untyped-def]
    x, y, words: str, anchor: str = "start", kind: str = "", strong=False
) -> str:
    more = f' class="{kind}"' if kind else ""
    more += ' font-weight="bold"' if strong else ""
    return (
        f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}"{more}>'
        f"{escaped(words)}</text>"
    )


def _long(words: str) -> float:
    """About how wide a text is; a bit more, rather than less."""
    return 0.58 * FONT * len(words)


def escaped(text: str) -> str:
    """Text for HTML, in an attribute as well."""
    for sign, name in (("&", "&amp;"), ("<", "&lt;"), ('"', "&quot;")):
        text = text.replace(sign, name)
    return text
