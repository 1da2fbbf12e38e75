"""What a search found: all layouts that fit by time and memory, and as a table
those that no other beats in both.
"""

from lockstep.planner.figures import decimal, percent
from lockstep.planner.search import SHORTEST, decides, front

from .drawing import svg
from .scene import Points, Scene
from .svg import escaped

WIDTH = 560
ROWS = 12
LEFT_OUT = (
    "This page leaves out ZeRO-0, ZeRO-2 and ZeRO-3 in a pipeline,"
    f" micro-batches of 4, and ranks with fewer than {SHORTEST:,} tokens of a"
    " sequence. The command tries them too."
)
NEAR = 2  # times the fastest step: what is slower is not drawn


def written(found: dict, link) -> str:  # type: ignore[no-untyped-def]
    """The drawing and the table; `link` makes an address of a choice."""
    fit = found["fit"]
    best = front(fit)
    fastest = best[0][1]
    said = drawn(fit, best, fastest["memory"])
    said += (
        '<div class="planner-layouts"><table><thead><tr><th>layout</th>'
        "<th>step</th><th>memory</th><th>MFU</th><th>slower by</th></tr>"
        "</thead><tbody>"
    )
    for choice, layout in best[:ROWS]:
        said += f'<tr><td><a href="{escaped(link(choice))}">{name(choice)}</a>'
        said += f"</td><td>{decimal(layout['step_seconds'], 's')}</td>"
        said += f"<td>{decimal(layout['total_bytes'], 'B')}</td>"
        said += f"<td>{percent(layout['mfu'], 0)}</td>"
        said += f"<td>{decides(layout, fastest)}</td></tr>"
    return said + f"</tbody></table></div><p>{LEFT_OUT}</p>"


def drawn(fit: list, best: list, limit: float) -> str:
    """All layouts as points, those of the front above the others."""
    end = NEAR * best[0][1]["step_seconds"]
    dots = []
    for kind, some in (("fits", fit), ("front", best)):
        for _, layout in some:
            step = layout["step_seconds"]
            if step <= end:
                dots.append((step, layout["total_bytes"], kind))
    words = decimal(limit, "B")
    panel = Points(
        "What a GPU holds, by the step's time", dots, 1.2 * limit, limit, words
    )
    told = f"{len(fit)} layouts fit, and no other beats {len(best)} of them."
    scene = Scene([panel], end, lambda at: decimal(at, "s"), [], told)
    drawing = svg(scene, WIDTH, "search", "Layouts that fit")
    return f'<figure class="explore">{drawing}</figure>'


def name(choice: dict) -> str:
    """A layout in a few words."""
    parts = [
        f"{axis.upper()} {choice[axis]}"
        for axis in ("tp", "cp", "pp", "ep")
        if choice[axis] > 1
    ]
    parts.append(f"ZeRO-{choice['zero_stage']}")
    if choice["micro_batch"] > 1:
        parts.append(f"micro-batch {choice['micro_batch']}")
    if choice["recompute"] != "none":
        parts.append(f"recompute {choice['recompute']}")
    return ", ".join(parts)
