"""SVG and HTML as text, for charts, explorables and forms.

A browser runs this in MicroPython, too. Its dictionaries keep no order, so
attributes come as text.
"""

FONT = 13  # of every text, in the units of a drawing


class Canvas:
    """One drawing; `y` is how far down it is full.

    Args:
        name: sets the ids of its patterns apart from other drawings' ids.
        width: in the units of the drawing.
        family: begins each class of the style sheet: chart, or explore.
        hatches: for each kind, strokes in a tile of 8 by 8 over its fill, so
            that readers who see no color can tell kinds apart.
    """

    def __init__(
        self, name: str, width: int, family: str, hatches: dict
    ) -> None:
        self.name, self.width, self.y = name, width, 0.0
        self.family, self.hatches = family, hatches
        self.parts: list = []
        self.used: list = []  # kinds whose hatch is drawn

    def text(
        self,
        x: float,
        y: float,
        words: str,
        anchor: str = "start",
        strong: bool = False,
        kind: str = "",
    ) -> None:
        """Write words on a line that stands at `y`."""
        more = f' class="{self.family}-{kind}"' if kind else ""
        more += ' font-weight="bold"' if strong else ""
        self.parts.append(
            f'<text x="{place(x)}" y="{place(y)}" text-anchor="{anchor}"{more}>'
            f"{escaped(words)}</text>"
        )

    def path(self, d: str, kind: str, more: str = "") -> None:
        """Draw a path of a class of the style sheet."""
        self.parts.append(f'<path d="{d}" class="{kind}"{more}/>')

    def box(self, x: float, y: float, wide: float, tall: float, kind) -> None:  # type: ignore[no-untyped-def]
        """Draw a rectangle with the fill of a kind."""
        self.parts.append(
            f'<rect x="{place(x)}" y="{place(y)}" width="{place(wide)}"'
            f' height="{place(tall)}" {self.fill(kind)}/>'
        )

    def fill(self, kind, edge: str = "edge") -> str:  # type: ignore[no-untyped-def]
        """Return the attributes that fill a shape as that kind."""
        if kind not in self.hatches:
            return f'class="{self.family}-{edge} {self.family}-{kind}"'
        if kind not in self.used:
            self.used.append(kind)
        pattern = f"url(#{self.name}-{kind})"
        return f'class="{self.family}-{edge}" fill="{pattern}"'

    def flow(self, lengths: list, gap: float, line: float):  # type: ignore[no-untyped-def]
        """Yield where each entry of a legend starts; `y` moves down by a line
        when one is full."""
        x = 2.0
        for wide in lengths:
            if x > 2 and x + wide > self.width:
                x, self.y = 2.0, self.y + line
            yield x
            x += wide + gap

    def svg(
        self, attributes: str, described: str = "", role: str = "img"
    ) -> str:
        """Return the whole drawing.

        Args:
            described: elements that say what it shows.
            role: img, or group for a drawing that has links.
        """
        family = self.family
        patterns = "".join(
            f'<pattern id="{self.name}-{kind}" width="8" height="8"'
            f' patternUnits="userSpaceOnUse"><rect width="8" height="8"'
            f' class="{family}-{kind}"/><path d="{self.hatches[kind]}"'
            f' class="{family}-hatch"/></pattern>'
            for kind in self.used
        )
        return (
            f'<svg viewBox="0 0 {self.width} {place(self.y)}" role="{role}"'
            f' font-size="{FONT}" {attributes}>{described}'
            f"<defs>{patterns}</defs>{''.join(self.parts)}</svg>"
        )


def place(value: float) -> str:
    """A coordinate, with two decimals at most."""
    # A little more: only one of the two Pythons rounds a half up.
    return f"{value + 1e-6:.2f}".rstrip("0").rstrip(".")


def long(words: str) -> float:
    """About how wide a text is; a bit more, rather than less."""
    return 0.58 * FONT * len(words)


def round_step(high: float, count: int, steps: tuple = (1, 2, 5, 10)) -> float:
    """The least round step of which `count` reach from 0 to `high`."""
    power = 1.0
    while power * 10 < high / count:
        power *= 10
    while power > high / count:
        power /= 10
    for times in steps:
        if times * power * count >= high:
            return times * power
    return 10 * power


def escaped(text: object) -> str:
    """Text as HTML shows it, in an attribute as well."""
    said = str(text)
    for mark, name in (("&", "amp"), ("<", "lt"), (">", "gt"), ('"', "quot")):
        said = said.replace(mark, f"&{name};")
    return said
