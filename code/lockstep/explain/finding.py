"""Build the parts that every verdict has."""

from .case import Case
from .lines import clock
from .signals import SIGNALS, signal_of

QUESTIONS = (
    (
        "Which rank stopped first?",
        "Compare the last line of each rank's log: the rank whose last line is"
        " the oldest, or whose step is the lowest, stopped first.",
    ),
    (
        "With which exit code or signal did each process end?",
        "torchrun prints `exitcode` for each rank; on Slurm run `sacct -j JOB"
        " --format=JobID,NodeList,State,ExitCode,MaxRSS`; on Kubernetes run"
        " `kubectl describe pod POD`.",
    ),
    (
        "What does the kernel of each node say about that minute?",
        "Run `sudo journalctl -k | grep -iE 'xid|oom|nvlink|mlx5|nfs|i/o"
        " error'` on the nodes, and pass the output to this command together"
        " with the logs.",
    ),
    (
        "What changed since the last good run?",
        "Code, image, driver, data, node list, batch size: start with the"
        " change that touched the step at which the run stopped.",
    ),
)


UNLISTED: dict = {  # messages without a page
    "xid": {
        "means": "The driver reported an error of this GPU.",
        "confirm": [
            {
                "do": "https://docs.nvidia.com/deploy/xid-errors/"
                "analyzing-xid-catalog.html",
                "look": "the Xid's number, and the action that NVIDIA names",
            }
        ],
    },
}


def base(case: Case, event) -> dict:  # type: ignore[no-untyped-def]
    """Return the parts of a verdict that come from an event."""
    entry = case.entries.get(event.id) or UNLISTED.get(event.id, {})
    return {
        "known": True,
        "id": event.id,
        "title": event.title,
        "layer": event.layer,
        "rank": event.rank,
        "ranks": [] if event.rank is None else [event.rank],
        "node": event.node,
        "local": where(event),
        "text": event.text,
        "frame": event.frame,
        "means": entry.get("means", ""),
        "check": entry.get("confirm", []),
        "causes": probable(event, entry.get("causes", [])),
        "otherwise": entry.get("otherwise", ""),
        "see": entry.get("see", []),
        "page": page(event.id) if event.id in case.entries else "",
        "evidence": [shown(case, event)],
    }


def probable(event, causes: list) -> list:  # type: ignore[no-untyped-def]
    """Return the causes, last the ones that a pod's reason rules out: memory,
    if it is another one than OOMKilled."""
    reason = event.fields.get("reason", "OOMKilled")
    ruled = [
        one
        for one in causes
        if reason != "OOMKilled" and "OOMKilled" in one.get("tells", "")
    ]
    return [one for one in causes if one not in ruled] + ruled


def where(event) -> str:  # type: ignore[no-untyped-def]
    """Return the local rank or the pod of an event, if its rank isn't known."""
    if event.rank is None and event.local is not None:
        return f"local rank {event.local}"
    return f"pod {event.pod}" if event.pod else ""


def nothing() -> dict:
    """Return a verdict without an event."""
    return {
        "known": False,
        "id": "",
        "title": "",
        "layer": "",
        "rank": None,
        "ranks": [],
        "node": "",
        "text": "",
        "frame": "",
        "means": "",
        "check": [],
        "causes": [],
        "otherwise": "",
        "see": [],
        "page": "",
        "evidence": [],
    }


def suspect(found: dict, ranks: list) -> None:
    """Name the ranks that a verdict points to, if they are not its event's."""
    found["rank"] = ranks[0] if len(ranks) == 1 else None
    found["ranks"] = ranks


def finished(case: Case, found: dict, sure: str, why: str) -> dict:
    """Add what every verdict has."""
    found["confidence"], found["why"] = sure, why
    found.setdefault("hang", None)
    found["headline"] = headline(found)
    found["echoes"] = echoes(case, found)
    found["exits"] = [
        {
            "rank": one.rank,
            "node": one.node,
            "code": one.code,
            "signal": SIGNALS.get(signal_of(one.code), ""),
        }
        for one in case.scan.exits
    ]
    found["questions"] = []
    if not found["known"]:
        found["questions"] = [
            {"ask": ask, "how": how} for ask, how in QUESTIONS
        ]
    found["dumps"] = case.dumps
    found["read"] = {
        "files": len(case.scan.files),
        "bytes": case.scan.bytes,
        "lines": case.scan.lines,
        "ranks": len(case.scan.ranks),
        "not kept": case.scan.dropped,
    }
    return found


def shown(case: Case, event) -> dict:  # type: ignore[no-untyped-def]
    """Return where an event's line stands."""
    return cited(case, event.file, event.line, event.text, event.time)


def cited(case: Case, file, line, text, time=None) -> dict:  # type: ignore[no-untyped-def]
    """Return a line as evidence; `file` is its number in the scan."""
    return {
        "file": case.scan.files[file],
        "line": line,
        "text": text,
        "time": clock(time[1]) if time else "",
    }


def echoes(case: Case, found: dict) -> list:
    """Return the other messages, each once, in the order of time."""
    rows: list = []
    by_id: dict = {}
    for event in case.scan.events:
        if event.text in [one["text"] for one in found["evidence"]]:
            continue
        if event.id == found["id"] != "python-exception":
            continue
        key = (event.id, event.title)
        if key not in by_id:
            row = {
                "id": event.id,
                "title": event.title,
                "role": "echo" if event.wrapped else event.role,
                "count": 0,
                "ranks": [],
                "page": page(event.id) if event.id in case.entries else "",
                "first": shown(case, event),
                "at": (case.at(event) or 1e18, event.order),
            }
            by_id[key] = row
            rows.append(row)
        row = by_id[key]
        row["count"] += event.count
        if event.rank is not None and event.rank not in row["ranks"]:
            row["ranks"] = sorted(row["ranks"] + [event.rank])
    rows.sort(key=lambda row: row["at"])
    for row in rows:
        row.pop("at")
    return rows


def page(id: str) -> str:
    """Return the page of a message, below the site's root."""
    return f"reliability/errors/{id}/"


def headline(found: dict) -> str:
    """Return the verdict in one sentence."""
    where, before = found.get("local", ""), " on "
    if where.find("local rank") >= 0:
        before = " of node "
    if found["ranks"]:
        where, before = listed(found["ranks"]), " on "
    if found["node"]:
        where += (before if where else "node ") + found["node"]
    if not found["known"]:
        if where:
            return f"First fault not found; look at {where} first."
        if found["id"]:
            return "First fault not found: these logs have only echoes."
        return "First fault not found: no known message is in these logs."
    what = found["title"]
    if found["id"] == "python-exception":
        what = found["text"] and found["text"].split("]: ")[-1][:160]
    if found.get("hang"):
        did = found["hang"].get("did", "didn't join a collective")
        return f"First fault: {where} {did}."
    return f"First fault: {where}: {what}" if where else f"First fault: {what}"


def listed(ranks: list) -> str:
    """Return `rank 3`, `ranks 0, 1 and 5`, or `ranks 0 to 7`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 2 and ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"ranks {ranks[0]} to {ranks[-1]}"
    if len(ranks) > 6:
        return f"{len(ranks)} ranks ({ranks[0]}, {ranks[1]}, … {ranks[-1]})"
    names = [str(rank) for rank in ranks]
    return f"ranks {', '.join(names[:-1])} and {names[-1]}"
