"""Give events and exits the rank and the node that other lines know."""

from .case import Case, depth
from .folders import resolve
from .peers import bus
from .signals import signal_of

KERNEL_BEFORE, KERNEL_AFTER = 900.0, 120.0


def settle(case: Case) -> None:
    """Give the events and exits of a case their ranks, nodes and roles."""
    rank_tasks(case)
    resolve(case)
    rank_exits(case)
    scan = case.scan
    case.nodes = {r: scan.ranks[r] for r in scan.ranks if scan.ranks[r]}
    for one in scan.exits:
        if one.rank is not None and one.node:
            case.nodes[one.rank] = one.node
    case.reported = [one.rank for one in scan.exits if one.first]
    for event in case.scan.events:
        place(case, event)
        if "Root Cause (first observed" in event.text:
            event.role = "echo"  # torchrun's report, and no message
    for event in case.scan.events:
        if "NCCL error in" in event.text and follows(case, event):
            event.role = "echo"  # its own last line says more


def rank_tasks(case: Case) -> None:
    """Give srun's tasks their ranks, or drop them where torchrun's report on
    the same node says more: there, each task is an agent."""
    scan = case.scan
    reports = [one for one in scan.exits if one.local is not None]
    reported = {(one.node, one.code) for one in reports}
    agents = reports or [one for one in scan.locals if one is not None]
    kept = []
    for one in scan.exits:
        if one.task is not None and not agents:
            one.rank = one.task
            scan.ranks[one.rank] = one.node or scan.ranks.get(one.rank, "")
        if one.task is None or (one.node, one.code) not in reported:
            kept.append(one)
    scan.exits = kept


def rank_exits(case: Case) -> None:
    """Give exits that have only a local rank their rank and node, from
    another report on the same node: a node's ranks follow each other."""
    for one in case.scan.exits:
        if one.rank is not None or one.local is None:
            continue
        same = [
            other
            for other in case.scan.exits
            if other.local is not None
            and other.rank is not None
            and other.file == one.file
            and one.node in ("", other.node)
        ]
        starts = {other.rank - other.local for other in same}
        if len(starts) == 1:
            one.rank = min(starts) + one.local
            one.node = one.node or same[0].node


def place(case: Case, event) -> None:  # type: ignore[no-untyped-def]
    """Give an event the rank and node that other lines know."""
    if event.rank is None:
        for one in case.scan.exits:
            if one.rank is not None and about(case, event, one):
                event.rank = one.rank
                event.exact = bool(one.pid and has_number(event.text, one.pid))
                event.doubt = doubt(case, event, one)
                event.node = event.node or one.node
    if event.rank is None and event.node:
        gpu = bus(event.fields.get("gpu", ""))
        event.rank = case.scan.gpus.get((event.node, gpu), (0, None))[1]
    if not event.node:
        event.node = case.scan.pods.get(event.pod, "")
    if not event.node and event.rank in case.nodes:
        event.node = case.nodes[event.rank]


def follows(case: Case, event) -> bool:  # type: ignore[no-untyped-def]
    """Whether a message stands in the lines that belong to an NCCL error:
    `Last error:` and what NCCL said."""
    for other in case.scan.events:
        below = 0 < other.line - event.line <= 4
        same = other.file == event.file and other.rank == event.rank
        if below and same and other.role != "echo":
            return True
    return False


def about(case: Case, event, one) -> bool:  # type: ignore[no-untyped-def]
    """Whether an event tells of the process that a report tells of: in the
    same line, by its number, or as the only one out of memory."""
    if one.file == event.file and one.line == event.line:
        return True
    apart = case.gap(event, one)
    if apart is not None and apart > KERNEL_BEFORE and not depth(event):
        return False
    elsewhere = event.node and one.node and event.node != one.node
    # torchrun's processes have the same numbers in every container.
    foreign = depth(event) and one.file != event.file
    foreign = foreign and (elsewhere or not event.node or not one.node)
    if one.pid and one.pid > 99 and has_number(event.text, one.pid):
        return not foreign
    low = event.text.lower()
    oom = "oom" in low or "out of memory: killed" in low
    return oom and not elsewhere and killed_alone(case) is one


def doubt(case: Case, event, one) -> str:  # type: ignore[no-untyped-def]
    """Say why a kernel's line may be about another process than the report
    that lent it a rank, or nothing.

    The kernel prints the host's process ids, and torchrun in a container
    prints the container's. Equal numbers are proof only if the node and
    the minute agree, too.
    """
    if depth(event) or (one.file, one.line) == (event.file, event.line):
        return ""
    if not event.exact:
        return "only one process was killed, but no pid confirms it"
    apart = case.gap(event, one)
    if event.node and event.node == one.node and apart is not None:
        return ""
    return "the pids agree, but a container has its own pids"


def killed_alone(case: Case):  # type: ignore[no-untyped-def]
    """Return the only exit by signal 9, or None."""
    found = [one for one in case.scan.exits if signal_of(one.code) == 9]
    return found[0] if len(found) == 1 else None


def has_number(text: str, pid: int) -> bool:
    """Whether a text names a process by its number."""
    at = text.find(str(pid))
    if at < 0:
        return False
    before, after = text[at - 1 : at], text[at + len(str(pid)) :][:1]
    return not before.isdigit() and not after.isdigit()
