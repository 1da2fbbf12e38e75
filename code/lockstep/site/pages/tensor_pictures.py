"""The pictures of the chapter on tensor parallelism: an MLP split in two ways,
and what one sequence keeps on each GPU."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from lockstep.explore.svg import place
from lockstep.planner.presets import preset
from lockstep.planner.questions import ask
from lockstep.site.pages.charts import (
    LINE,
    NARROW,
    Axis,
    Canvas,
    Chart,
    bars,
    gigabytes,
    ticks,
)

PRESET, GROUP = "llama3-70b", 8
COLLECTIVES = "all-gather", "all-reduce"
HOLDERS = "GPU 0", "GPU 1", "both GPUs, whole"
TOKENS, HIDDEN, INNER = "tokens", "hidden", "ffn"
SIZES = {  # how large a dimension is drawn, on a phone and on a desk
    True: {TOKENS: 30, HIDDEN: 24, INNER: 42, "sign": 12, "arrow": 22},
    False: {TOKENS: 48, HIDDEN: 48, INNER: 84, "sign": 22, "arrow": 44},
}


@dataclass(frozen=True)
class Matrix:
    """A matrix, and how two GPUs hold it: each has some `columns` or `rows`,
    only the GPU of that number has it, or both have the whole."""

    name: str
    rows: str
    columns: str
    split: str = ""


X, Y = Matrix("x", TOKENS, HIDDEN), Matrix("y", TOKENS, HIDDEN)
A = Matrix("A", HIDDEN, INNER, "columns")
U = Matrix("f(xA)", TOKENS, INNER, "columns")
SPLITS: dict[str, tuple[Matrix | str, ...]] = {
    "columns, then columns": (
        *(X, "×", A, "=", U, "all-gather", Matrix("f(xA)", TOKENS, INNER)),
        *("×", Matrix("B", INNER, HIDDEN, "columns"), "="),
        *(Matrix("y", TOKENS, HIDDEN, "columns"), "all-gather", Y),
    ),
    "columns, then rows": (
        *(X, "×", A, "=", U, "×", Matrix("B", INNER, HIDDEN, "rows"), "="),
        *(Matrix("term", TOKENS, HIDDEN, "0"), "+"),
        *(Matrix("term", TOKENS, HIDDEN, "1"), "all-reduce", Y),
    ),
}


def sent(parts: tuple[Matrix | str, ...]) -> dict[tuple[str, str], float]:
    """Return the numbers that a GPU sends per token, by collective and by the
    matrix that it completes."""
    found = {}
    for sign, after in pairwise(parts):
        if sign in COLLECTIVES:
            assert isinstance(sign, str)
            assert isinstance(after, Matrix)
            given = {"op": sign.replace("-", "_"), "ranks": 2}
            given["bytes"] = preset(PRESET)[after.columns]
            bytes_sent = ask("collective", given)["bytes_sent_per_rank"].value
            found[sign, after.name] = bytes_sent
    return found


def split() -> Chart:
    """Draw an MLP on two GPUs: gathered twice, or reduced once."""
    numbers = {title: sent(parts) for title, parts in SPLITS.items()}
    sums = {title: sum(one.values()) for title, one in numbers.items()}

    def holder(canvas: Canvas, box: tuple, kind: int) -> None:
        at, top, wide, high = box
        if kind < 2:
            canvas.box(at, top, wide, high, f"fill-{kind}")
        else:
            d = f"M{place(at)} {place(top)}h{place(wide)}v{place(high)}"
            canvas.path(f"{d}H{place(at)}z", "chart-edge chart-plain")

    def sample(canvas: Canvas, i: int, at: float, middle: float) -> None:
        holder(canvas, (at, middle - 6, 22, 12), i)

    def draw(canvas: Canvas) -> None:
        canvas.legend(HOLDERS, sample)
        size = SIZES[canvas.width == NARROW]
        edge = canvas.width - 2
        for title, parts in SPLITS.items():
            canvas.y += LINE + 4
            canvas.text(2, canvas.y - 4, title, strong=True)
            said = f"sends {sums[title]:,.0f}"
            canvas.text(edge, canvas.y - 4, said, "end")
            at, middle = 2.0, canvas.y + LINE + size[INNER] / 2
            for part in parts:
                if isinstance(part, str):
                    wide = size["arrow" if part in COLLECTIVES else "sign"]
                    sign = "→" if part in COLLECTIVES else part
                    words = at + wide / 2, middle + 5
                    canvas.text(*words, sign, "middle", strong=True)
                    if part in COLLECTIVES:
                        low = middle + size[TOKENS] / 2 + 16
                        half = len(part) * 4
                        near = min(at + wide / 2, edge - half)
                        canvas.text(near, low, part, "middle")
                    at += wide
                    continue
                wide, high = size[part.columns], size[part.rows]
                top = middle - high / 2
                halves: dict[str, list[tuple]] = {
                    "columns": [
                        (at, top, wide / 2, high),
                        (at + wide / 2, top, wide / 2, high),
                    ],
                    "rows": [
                        (at, top, wide, high / 2),
                        (at, top + high / 2, wide, high / 2),
                    ],
                }
                whole = [(at, top, wide, high)]
                for kind, box in enumerate(halves.get(part.split, whole)):
                    own = int(part.split) if part.split.isdigit() else kind
                    holder(canvas, box, own if part.split else 2)
                canvas.text(at + wide / 2, top - 5, part.name, "middle")
                at += wide
            canvas.y = middle + size[INNER] / 2 + 14

    return Chart(
        "An MLP, y = f(xA)B, on two GPUs, and the numbers that each GPU sends"
        " per token at Llama 3 70B's widths",
        "Two rows of matrices, in the colors of the GPUs that hold them. "
        + " ".join(
            f"{title}: each GPU sends {sums[title]:,.0f} numbers per token."
            for title in SPLITS
        )
        + " Above, both matrices are split by columns. An all-gather gives"
        " f(xA), the widest tensor, to both GPUs before B, and a second one"
        " gives them y. Below, A is split by columns and B by rows. f(xA) stays"
        " split, each GPU makes a term of y, and an all-reduce adds the terms.",
        draw,
        [
            ["split", "collective", "makes whole", "each GPU sends, per token"],
            *(
                [title, name, of, f"{count:,.0f} numbers"]
                for title, one in numbers.items()
                for (name, of), count in one.items()
            ),
        ],
    )


def kept() -> dict[str, dict[str, float]]:
    """Return the bytes that one sequence of 8,192 tokens keeps on a GPU."""
    given = {"preset": PRESET, "sequence": 8192, "gpus": 64, "zero_stage": 3}

    def asked(tp: int, split: bool, key: str) -> float:
        layout = {"global_batch": 64 // tp, "whiteboard": True, "tp": tp}
        layout["sequence_parallel"] = split
        return ask("run", given | layout)[key].value

    alone = asked(1, False, "activations_bytes")
    # Both hold the norms' part whole, and only one splits the rest.
    norms = GROUP * asked(GROUP, False, "activations_bytes") - alone
    norms /= GROUP - 1
    inside = alone - norms
    again = asked(GROUP, True, "regathered_bytes")
    return {
        name: {
            "inside attention and MLP": one,
            "inputs and outputs of norms": x,
        }
        for name, one, x in (
            ("FSDP2 alone", inside, norms),
            (f"TP over {GROUP} GPUs", inside / GROUP, norms),
            ("TP with SP, PyTorch", inside / GROUP, norms / GROUP + again),
            ("TP with SP, Megatron-LM", inside / GROUP, norms / GROUP),
        )
    }


def activations() -> Chart:
    """Draw what tensor and sequence parallelism leave on each GPU."""
    rows = kept()
    sums = {name: sum(parts.values()) for name, parts in rows.items()}
    axis = Axis("activations", ticks(max(sums.values())), gigabytes)
    return Chart(
        "Activations that one sequence of 8,192 tokens keeps on each GPU, for"
        " Llama 3 70B without recomputation",
        "Four bars. "
        + " ".join(f"{name}: {gigabytes(one)}." for name, one in sums.items())
        + " Tensor parallelism (TP) divides the part inside attention and MLP."
        " Sequence parallelism (SP) also divides the norms' part.",
        bars(rows, axis, {"an H100 has 80 GB": 80e9}),
        [
            ["split", *next(iter(rows.values())), "sum"],
            *(
                [
                    name,
                    *(f"{x / 1e9:.1f} GB" for x in parts.values()),
                    f"{sums[name] / 1e9:.1f} GB",
                ]
                for name, parts in rows.items()
            ),
        ],
    )
