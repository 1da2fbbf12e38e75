"""Resolve torchrun's log folders: the global rank and the node of each file.

torchrun writes `RUN/attempt_N/M/stderr.log`, and M counts the processes of one
node only.
"""

from .case import Case
from .progress import UNRANKED


def resolve(case: Case) -> None:
    """Give files, and what they say, the ranks and nodes that other lines of
    the same node know."""
    scan = case.scan
    homes = _homes(scan)
    case.homes = _nodes(scan, homes)
    for one in scan.exits:
        one.node = one.node or case.homes[one.file]
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


def _attempt(name: str) -> str:
    """Return the folder `RUN/attempt_N` of a file's name, or ""."""
    parts = name.split("/")
    for at, part in enumerate(parts):
        if part.startswith("attempt_"):
            return "/".join(parts[: at + 1])
    return ""


def _above(folder: str) -> str:
    return folder.rpartition("/")[0]


def _homes(scan) -> list:  # type: ignore[no-untyped-def]
    """Return for each file the innermost folder around it that has the logs
    of one torchrun, or "". Where several run into one folder, it is the run."""
    runs: dict = {}
    for number, name in enumerate(scan.files):
        if scan.locals[number] is not None:
            run = _above(_attempt(name))
            runs.setdefault(_above(run), set()).add(run)
    found = []
    for name in scan.files:
        run = _above(_attempt(name))
        folder = _above(name)
        while folder and len(runs.get(folder, ())) != 1:
            folder = _above(folder)
        found.append(folder or run)
    return found


def _nodes(scan, homes: list) -> list:  # type: ignore[no-untyped-def]
    """Return the node of each file: by its name, by a folder that is named as
    a node, or as the only node that the lines of its torchrun name."""
    known = set(scan.pods)
    heard: dict = {"": set()}
    named = list(enumerate(scan.heard))
    named += [(one.file, {one.node}) for one in scan.exits if one.node]
    for number, nodes in named:
        known.update(nodes)
        if homes[number]:
            heard.setdefault(homes[number], set()).update(nodes)
    found = []
    # A message about a lost peer names a node, or its address.
    known.update([event.fields.get("host", "") for event in scan.events])
    for number, name in enumerate(scan.files):
        folders = [one for one in name.split("/")[:-1] if one in known]
        alone = heard.get(homes[number], set())
        node = folders[-1] if folders else ""
        if not node and len(alone) == 1:
            [node] = alone
        found.append(scan.homes[number] or node)
    return found


def _ranks(case: Case, homes: list) -> dict:
    """Return the global rank of each file that has a local rank, where it is
    known: a node's ranks follow each other."""
    scan = case.scan
    # What local rank 0 may be: by the reports and tables of a home or a node.
    starts: dict = {}
    for one in scan.exits:
        if one.rank is not None and one.local is not None:
            for place in (("home", homes[one.file]), ("node", one.node)):
                starts.setdefault(place, set()).add(one.rank - one.local)
    for number, ranks in scan.tables:
        starts.setdefault(("home", homes[number]), set()).add(ranks[0])
    found: dict = {}
    attempts: dict = {}
    for number, name in enumerate(scan.files):
        local = scan.locals[number]
        if local is None:
            continue
        zero, files = attempts.setdefault(_attempt(name), (set(), []))
        files.append(number)
        # In a message, a rank may count within a smaller group.
        own = scan.own[number] or scan.called[number]
        if len(own) == 1 and min(own) >= local:
            [found[number]] = own
            zero.add(found[number] - local)
        for place in (("home", homes[number]), ("node", case.homes[number])):
            if place[1]:
                zero.update(starts.get(place, ()))
    for name in attempts:
        zero, files = attempts[name]
        if len(zero) == 1:
            for number in files:
                found.setdefault(number, min(zero) + scan.locals[number])
            for one in scan.exits:
                inside = homes[one.file] and homes[one.file] == homes[files[0]]
                if inside and one.rank is None and one.local is not None:
                    one.rank = min(zero) + one.local
    return found
