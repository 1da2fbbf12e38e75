"""Read what `py-spy dump` prints: where each process stands."""

WAITING = (
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "barrier",
    "all_to_all", "recv", "send", "synchronize", "wait", "reduce", "gather",
    "scatter", "backward",
)  # fmt: skip


class Stack:
    """Where one process stands.

    Attributes:
        pid: its number.
        rank: its rank, or None.
        command: its command line.
        frames: frames of the main thread, the innermost first.
    """

    def __init__(self, pid: str, command: str, rank) -> None:  # type: ignore[no-untyped-def]
        self.pid, self.command, self.rank = pid, command, rank
        self.frames: list = []


def is_stacks(start: bytes) -> bool:
    """Whether a file begins as py-spy's output does."""
    return start.lstrip()[:8] == b"Process " and b"\nPython v" in start


def read(text: str, rank=None) -> list:  # type: ignore[no-untyped-def]
    """Return the Stack of each process in py-spy's output."""
    found: list = []
    reading = False
    for line in text.split("\n"):
        if line.startswith("Process "):
            pid, _, command = line[8:].partition(": ")
            found.append(Stack(pid.strip(), command, rank))
            reading = False
        elif line.startswith("Thread ") and found:
            reading = "MainThread" in line or not found[-1].frames
            if reading:
                found[-1].frames = []
        elif reading and line.startswith("    ") and "(" in line:
            found[-1].frames.append(line.strip())
    if len(found) > 1:
        for one in found:
            one.rank = None
    return found


def own(stack: Stack) -> str:
    """Return the innermost frame of the reader's code."""
    for frame in stack.frames:
        place = frame[frame.rfind("(") + 1 :]
        library = ("torch/", "python3", "threading.py", "site-packages")
        if not any(word in place for word in library):
            return frame
    return stack.frames[0] if stack.frames else ""


def waiting(stack: Stack) -> str:
    """Return the collective that a process waits in, or ""."""
    found = ""
    for frame in stack.frames:
        name = frame.split(" (")[0].strip("_")
        if "torch/distributed" in frame and name in WAITING:
            found = name  # the outermost: `all_reduce`, and not its `wait`
    return found


def compared(stacks: list) -> dict:
    """Return which processes stand where the others don't.

    `rows`: rank, pid, waits (the collective) and frame of each; `odd`: the
    rows that stand apart; `why`: in one sentence.
    """
    rows = [
        {
            "rank": one.rank,
            "pid": one.pid,
            "waits": waiting(one),
            "frame": own(one),
        }
        for one in stacks
    ]
    counts: dict = {}
    for row in rows:
        key = row["waits"] or row["frame"]
        counts.setdefault(key, []).append(row)
    found: dict = {"rows": rows, "odd": [], "why": ""}
    if len(counts) > 1:
        order = sorted(counts, key=lambda key: (len(counts[key]), key))
        rare, usual = counts[order[0]], counts[order[-1]]
        if 2 * len(rare) <= len(rows):
            found["odd"] = rare
            found["why"] = (
                f"{len(usual)} of {len(rows)} processes stand in"
                f" {order[-1]}, and {len(rare)} in {order[0]}"
            )
    return found
