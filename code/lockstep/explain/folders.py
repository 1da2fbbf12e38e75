"""Resolve torchrun's log folders: the global rank and the node of each file.

torchrun writes `RUN/attempt_N/M/stderr.log`, and M counts the processes of one
node only.
"""

from .case import Case
from .progress import UNRANKED


def resolve(case: Case) -> None:  # type: ignore[no-untyped-def]
    """Give files, and what they say, the ranks and nodes that other lines of
    the same node know."""
    scan = case.scan
    homes = _homes(scan)
    for number, one in enumerate(_nodes(scan, homes)):
        case.homes[number] = one
    _exits(case, homes)
    ranks = _ranks(case, homes)
    for event in scan.events:
        home, local = case.homes[event.file], scan.locals[event.file]
        if home and event.node in ("", event.fields.get("host")):
            event.node = home
        if event.rank is None and local is not None:
            event.rank = ranks.get(event.file)
            event.local = local if event.rank is None else None
    for number in ranks:
        rank, node = ranks[number], case.homes[number]
        scan.ranks[rank] = scan.ranks.get(rank) or node
    for number, one in enumerate(scan.last):
        if UNRANKED in one["ranks"]:
            line = one["ranks"].pop(UNRANKED)
            if number in ranks:
                one["ranks"][ranks[number]] = line
    for one in scan.ends:
        if scan.locals[one["number"]] is not None:
            one["rank"] = ranks.get(one["number"])
        one["node"] = one["node"] or case.homes[one["number"]]


def _run(name: str) -> str:
    """Return the folder `RUN/attempt_N` of a file's name, or ""."""
    parts = name.split("/")
    for at, part in enumerate(parts):
        if part.startswith("attempt_"):
            return "/".join(parts[: at + 1])
    return ""


def _above(folder: str) -> str:
    return folder.rpartition("/")[0]


def _homes(scan) -> dict:  # type: ignore[no-untyped-def]
    """Return each folder that has the logs of one torchrun, with its run."""
    found: dict = {}
    for number, name in enumerate(scan.files):
        if scan.locals[number] is not None:
            run = _above(_run(name))
            found.setdefault(_above(run), set()).add(run)
    return {home: runs for home, runs in found.items() if len(runs) == 1}


def _home(name: str, homes: dict) -> str:
    """Return the innermost of those folders around a file, or ""."""
    folder = _above(name)
    while folder and folder not in homes:
        folder = _above(folder)
    return folder


def _nodes(scan, homes: dict) -> list:  # type: ignore[no-untyped-def]
    """Return the node of each file: by its name, by a folder that is named as
    a node, or as the only node that the lines of its torchrun name."""
    heard: dict = {}
    known = set(scan.pods)
    for number, name in enumerate(scan.files):
        known.update(scan.heard[number])
        home = _home(name, homes)
        if home:
            heard.setdefault(home, set()).update(scan.heard[number])
    for one in scan.exits:
        home = _home(scan.files[one.file], homes)
        known.update([one.node] if one.node else [])
        if one.node and home:
            heard.setdefault(home, set()).add(one.node)
    found = []
    for number, name in enumerate(scan.files):
        node = scan.homes[number]
        for part in name.split("/")[:-1]:
            if part in known and not scan.homes[number]:
                node = part
        alone = heard.get(_home(name, homes), set())
        if not node and len(alone) == 1:
            [node] = alone
        found.append(node)
    return found


def _exits(case: Case, homes: dict) -> None:  # type: ignore[no-untyped-def]
    """Give exits the node of their file."""
    for one in case.scan.exits:
        one.node = one.node or case.homes[one.file]


def _ranks(case: Case, homes: dict) -> dict:  # type: ignore[no-untyped-def]
    """Return the global rank of each file that has a local rank, where it is
    known: a node's ranks follow each other."""
    scan = case.scan
    found: dict = {}
    first: dict = {}  # by run and attempt: what local rank 0's rank may be
    runs: dict = {}
    for number, name in enumerate(scan.files):
        local = scan.locals[number]
        if local is None:
            continue
        run = _run(name)
        runs.setdefault(run, []).append(number)
        # In a message, a rank may count within a smaller group.
        own = scan.own[number] or scan.called[number]
        if len(own) == 1:
            [found[number]] = own
            first.setdefault(run, set()).add(found[number] - local)
    for run in runs:
        zero = first.setdefault(run, set())
        home = _above(_above(run))
        nodes = {case.homes[number] for number in runs[run]} - {""}
        inside = [
            number
            for number, name in enumerate(scan.files)
            if home in homes and _home(name, homes) == home
        ]
        zero.update(
            one.rank - one.local
            for one in scan.exits
            if one.rank is not None
            and one.local is not None
            and (one.file in inside or one.node in nodes)
        )
        zero.update(
            ranks[0] for number, ranks in scan.tables if number in inside
        )
        if len(zero) == 1:
            [start] = zero
            for number in runs[run]:
                found.setdefault(number, start + scan.locals[number])
    return found
