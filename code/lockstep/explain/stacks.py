"""Read what `py-spy dump` prints: where each process stands."""

WAITING = (
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "barrier",
    "all_to_all", "recv", "send", "synchronize", "wait", "reduce", "gather",
    "scatter", "backward",
)  # fmt: skip
LIBRARIES = (
    "torch/", "python3", "threading.py", "site-packages", "deepspeed/",
    "accelerate/", "transformers/", "lightning/",
)  # fmt: skip


class Stack:
    """Where one process stands.

    Attributes:
        pid: its number.
        rank: its rank, or None.
        command: its command line.
        frames: frames of the main thread, the innermost first.
        numbers: whole numbers among the locals, if py-spy printed them.
    """

    def __init__(self, pid: str, command: str, rank) -> None:  # type: ignore[no-untyped-def]
        self.pid, self.command, self.rank = pid, command, rank
        self.frames: list = []
        self.numbers: dict = {}


def is_stacks(start: bytes) -> bool:
    """Whether a file begins as py-spy's output does, perhaps with the command
    that a shell shows in front."""
    head = start.lstrip()
    begins = head[:8] == b"Process " or head[:13] == b"$ py-spy dump"
    return begins and b'"MainThread"' in start


def read(text: str, rank=None) -> list:  # type: ignore[no-untyped-def]
    """Return the Stack of each process in py-spy's output. A rank is known
    from the file's name, or from a comment behind the command."""
    found: list = []
    reading = False
    for line in text.split("\n"):
        if line.startswith("$ py-spy dump"):
            words = line.replace(",", " ").split()
            found.append(Stack(_behind(words, "--pid"), "", rank))
            of = _behind(words, "rank")
            found[-1].rank = int(of) if of.isdigit() else rank
            reading = False
        elif line.startswith("Process "):
            pid, _, command = line[8:].partition(": ")
            if not found or found[-1].pid != pid.strip() or found[-1].frames:
                found.append(Stack(pid.strip(), "", rank))
            found[-1].command = command
            reading = False
        elif line.startswith("Thread ") and found:
            reading = "MainThread" in line or not found[-1].frames
            if reading:
                found[-1].frames = []
        elif reading and line.startswith("    ") and "(" in line:
            if line[4:5] != " ":
                found[-1].frames.append(line.strip())
        elif reading and line.startswith("        "):
            name, _, value = line.strip().partition(": ")
            if value.isdigit() and "rank" not in name and name[-3:] != "pid":
                found[-1].numbers.setdefault(name, int(value))
    if len(found) > 1 and len({one.rank for one in found}) < len(found):
        for one in found:
            one.rank = None
    return found


def _behind(words: list, name: str) -> str:
    """Return the word behind a word, or ""."""
    if name in words[:-1]:
        return words[words.index(name) + 1]
    return ""


def own(stack: Stack) -> str:
    """Return the innermost frame of the reader's code."""
    for frame in stack.frames:
        place = frame[frame.rfind("(") + 1 :]
        if not any(word in place for word in LIBRARIES):
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
    found: dict = {"rows": rows, "odd": [], "why": "", "differ": ""}
    if len(counts) == 1 and len(rows) > 1:
        found["differ"] = _differ(stacks)
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


def _differ(stacks: list) -> str:
    """Say which local number differs between processes that stand at the same
    place, or return ""."""
    for name in stacks[0].numbers:
        values = [one.numbers.get(name) for one in stacks]
        if None not in values and len(set(values)) > 1:
            shown = ", ".join([str(one) for one in values[:8]])
            return f"{name} differs ({shown})"
    return ""
