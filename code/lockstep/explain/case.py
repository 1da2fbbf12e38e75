"""Keep what a scan found, and compare the times of its lines."""

from .scan import Scan

# Seconds: clocks of two nodes differ by as much, and the kernel's log may be
# that late.
TOGETHER = 5.0
KERNEL = ("NVRM:", "Xid (", "oom-kill", "ut of memory: Killed", "invoked oom")


class Case:
    """The findings that a verdict rests on, and the times of their lines.

    Attributes:
        scan: the finished Scan.
        dumps: what the flight recorder's dumps say, or None.
        entries: the messages by their id.
        nodes: the node of each rank whose node is known.
        homes: for each file the node that wrote it, or "".
        reported: the ranks that torchrun saw fail first.
    """

    def __init__(self, scan: Scan, dumps) -> None:  # type: ignore[no-untyped-def]
        self.scan, self.dumps = scan, dumps
        self.entries = {entry["id"]: entry for entry in scan.index.entries}
        years = [e.time[0] for e in scan.events + scan.exits if e.time]
        self.year = max(years) if years else 0
        self.reported: list = []
        self.nodes: dict = {}
        self.homes = list(scan.homes)

    def at(self, event):  # type: ignore[no-untyped-def]
        """Return an event's time in seconds, or None."""
        return self.seconds(event.time) if event.time else None

    def seconds(self, time: tuple) -> float:
        """Return a time in seconds, with 366 days to each year, which keeps
        the order."""
        year, seconds = time
        return (year or self.year) * 366 * 86400.0 + seconds

    def gap(self, event, one):  # type: ignore[no-untyped-def]
        """Return the seconds between two lines; None if one has no time."""
        if self.at(event) is None or self.at(one) is None:
            return None
        return abs(self.at(event) - self.at(one))


def depth(event) -> int:  # type: ignore[no-untyped-def]
    """0 for what a kernel or a scheduler says, 1 for what a program says."""
    if event.layer == "scheduler":
        return 0
    for word in KERNEL:
        if word in getattr(event, "text", ""):
            return 0
    return 1


def is_machine(event) -> bool:  # type: ignore[no-untyped-def]
    """Whether a machine said it, and no link to another one."""
    return event.layer in ("gpu", "host", "storage")


def is_store(event) -> bool:  # type: ignore[no-untyped-def]
    """Whether a message is about the store that ranks meet through."""
    text = event.text
    return "TCPStore" in text or "C10d store" in text or "recvValue" in text


def equal(a, b) -> bool:  # type: ignore[no-untyped-def]
    """Whether two events are one message, on whatever rank."""
    if a.id != b.id or a.title != b.title or a.role != b.role:
        return False
    return a.fields.get("error") == b.fields.get("error")
