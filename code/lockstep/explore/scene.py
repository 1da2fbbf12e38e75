"""What an explorable shows, before anything is drawn.

A scene has panels over one axis of time: lanes of what happens when, areas of
what is held, and points, each a case with its time and one more quantity. Kinds
mean the same in every explorable; `drawing.py` and explore.css give each its
color and its hatch.
"""

# Kind to the words of the legend.
KINDS = {
    "compute": "computing",
    "backward": "computing, backward",
    "later": "computing, a later part",
    "ingrad": "gradient of the input",
    "wgrad": "gradients of weights",
    "exchange": "all-to-all that nothing hides",
    "gather": "gathering weights",
    "reduce": "reducing gradients",
    "update": "updating weights",
    "launch": "launching kernels",
    "waiting": "waiting",
    "weights": "weights, own part",
    "gathered": "weights, gathered",
    "gradients": "gradients",
    "optimizer": "optimizer state",
    "activations": "activations",
    "kept": "kept for gradients of weights",
    "logits": "logits",
    "system": "CUDA, NCCL and fragments",
    "interval": "the interval that you chose",
    "best": "the best interval",
    "saving": "saving",
    "restarting": "restarting",
    "lost": "work that failures take",
    "own": "a rank's own",
    "partial": "a sum of some",
    "whole": "the sum of all",
    "once": "trained on once",
    "twice": "twice",
    "never": "never",
    "own_step": "a rank's step",
    "job_step": "the job's step",
    "dropped": "dropped",
    "empty": "empty places",
    "sign": "sign",
    "exponent": "exponent",
    "mantissa": "mantissa",
    "block_scale": "scale that the block shares",
    "same": "become one number",
    "yours": "become the same as yours",
    "fine": "too fine to draw",
    "arrived": "in the sum",
    "missing": "missing from the sum",
    "loss_scale": "loss scale",
    "normal": "gradients with all their bits",
    "coarse": "gradients that lose bits",
    "vanished": "gradients that become 0",
    "skipped": "updates skipped",
    "recompute": "computing again",
    "exposed": "communication that nothing hides",
    "fits": "a layout that fits",
    "front": "a layout that no other beats in both",
    "overfull": "a layout too large",
    "moving": "a hop at work",
    "slowest": "the hop that limits",
}


class Lanes:
    """Rows of bars over time.

    Args:
        title: what the rows have in common.
        rows: each a label, and bars: start, end, kind, label.
    """

    def __init__(self, title: str, rows: list) -> None:
        self.title, self.rows = title, rows

    def kinds(self) -> list:
        """The kinds of its bars, each once, in order."""
        return _once(kind for _, bars in self.rows for _, _, kind, _ in bars)


class Areas:
    """Quantities stacked over time, each constant between two moments; `say`
    writes one with its unit.

    Args:
        title: what is stacked, with its unit.
        moments: ascending; the last is the end.
        layers: each a kind, and a value for the time from each moment.
    """

    def __init__(  # type: ignore[no-untyped-def]
        self, title: str, moments: list, layers: list, say
    ) -> None:
        self.title, self.moments = title, moments
        self.layers, self.say = layers, say

    def kinds(self) -> list:
        """The kinds of its layers that hold anything, from the bottom."""
        return [kind for kind, values in self.layers if max(values) > 0]

    def totals(self) -> list:
        """The sum of all layers from each moment."""
        return [
            sum(values[i] for _, values in self.layers)
            for i in range(len(self.moments) - 1)
        ]


class Points:
    """Cases by time and one more quantity, with a line that it should not
    cross. What is above `top` is drawn at the upper edge.

    Args:
        title: what the points are, with the quantity.
        dots: time, quantity and kind of each.
        top: where the quantity's axis ends.
        limit: where the line is.
        words: what stands beside the line.
    """

    def __init__(
        self, title: str, dots: list, top: float, limit: float, words: str
    ) -> None:
        self.title, self.dots, self.top = title, dots, top
        self.limit, self.words = limit, words

    def kinds(self) -> list:
        """The kinds of its points, each once, in order."""
        return _once(kind for _, _, kind in self.dots)


class Scene:
    """Panels, the end of their common axis, numbers, and all of it in words;
    `say` writes a place on the axis with its unit.

    Args:
        end: where the axis ends.
        numbers: label and text of each result.
        told: the picture for whoever does not see it, and its conclusion.
    """

    def __init__(  # type: ignore[no-untyped-def]
        self, panels: list, end: float, say, numbers: list, told: str
    ) -> None:
        self.panels, self.end, self.say = panels, end, say
        self.numbers, self.told = numbers, told

    def kinds(self) -> list:
        """Every kind that is shown, in order."""
        return _once(kind for panel in self.panels for kind in panel.kinds())


def _once(kinds) -> list:  # type: ignore[no-untyped-def]
    found = []
    for kind in kinds:
        if kind not in found:
            found.append(kind)
    return found
