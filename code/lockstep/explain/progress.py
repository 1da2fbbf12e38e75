"""Read the ends of logs: what each rank logged last, and when.

A job that hangs logs nothing, so its last lines are all there is: the time of
the last line says since when nothing moved, and the rank whose last line
differs from the others' went a different way.
"""

from .lines import DAYS, front, ranked, single, when

UNRANKED = -1  # stands for the rank of a file whose rank isn't known yet
TRAILING = 5  # lines without a time that may follow a log's last time
FEWEST = 4  # ranks that are compared
# Lines that launchers and schedulers write when they end a job.
ENDS = "slurmstepd:", "srun:", "CANCELLED AT"
LAUNCHER = "torch/distributed/elastic", "torch.distributed.elastic"


def last(lines: list, rank=None, node: str = "") -> dict:  # type: ignore[no-untyped-def]
    """Return what the end of a log says about progress.

    Args:
        lines: (number, text) of its last lines, in order.
        rank: rank of the whole file, `UNRANKED`, or None.
        node: node of the whole file, or "".

    Returns:
        `ranks`: for each rank its last line, as `line`, `text`, `time`,
        `node` and `shape`; `time`: (year or 0, seconds) of the last progress,
        or None if the lines don't say.
    """
    found: dict = {"ranks": {}, "time": None}
    untimed = 0
    for number, raw in lines:
        if any(word in raw for word in ENDS):
            break
        if not raw.strip() or any(word in raw for word in LAUNCHER):
            continue
        dmesg = raw[:1] == "[" and raw[1:4] in DAYS
        if dmesg or " kernel: " in raw:
            continue  # a kernel's log says nothing of the job's progress
        time, passed = when(raw), elapsed(raw)
        if time:
            found["time"], untimed, bar = time, 0, 0
        elif passed and found["time"]:
            year, seconds = found["time"]
            found["time"], bar = (year, seconds + passed - bar), passed
            untimed = 0
        else:
            untimed += 1
        head = front(raw)
        of = head.rank if head.rank is not None else ranked(raw, True)
        of = rank if of is None else of
        if of is not None:
            found["ranks"][of] = {
                "line": number,
                "text": single(raw)[:300],
                "time": time,
                "node": head.node or node or _bracketed(raw),
                "shape": shape(head.text),
            }
    if untimed > TRAILING:
        found["time"] = None
    return found


def elapsed(line: str) -> int:
    """Return the seconds that a progress bar such as `[12:02<24:46:41` counts,
    or 0."""
    at = line.find("<")
    start = line.rfind("[", 0, at) if at > 0 else -1
    if start < 0:
        return 0
    parts = line[start + 1 : at].split(":")
    if len(parts) < 2 or not all(one.isdigit() for one in parts):
        return 0
    seconds = 0
    for one in parts:
        seconds = 60 * seconds + int(one)
    return seconds


def shape(text: str) -> str:
    """Return the words of a line that are equal on all ranks and steps: those
    without a digit, and outside of brackets."""
    words = []
    for word in text.split():
        if word[:1] in "[(<" or any(char.isdigit() for char in word):
            continue
        words.append(word)
    return " ".join(words)[:80]


def apart(ranks: dict):  # type: ignore[no-untyped-def]
    """Return the ranks whose last line differs from most ranks' last line,
    and the other ranks; or None."""
    if len(ranks) < FEWEST:
        return None
    by_shape: dict = {}
    for rank in sorted(ranks):
        by_shape.setdefault(ranks[rank]["shape"], []).append(rank)
    order = sorted(by_shape, key=lambda one: (len(by_shape[one]), one))
    usual = by_shape[order[-1]]
    others = [rank for rank in sorted(ranks) if rank not in usual]
    if not others or 2 * len(others) >= len(ranks):
        return None
    return others, usual


def _bracketed(line: str) -> str:
    """Return the node of `[node-3] r6 …`, or ""."""
    for word in line.split()[:4]:
        name = word[1:-1]
        numbered = any(char.isdigit() for char in name)
        if word[:1] + word[-1:] == "[]" and name[:1].isalpha() and numbered:
            return name
    return ""
