"""Name the node that others couldn't reach, or lost."""

from .case import Case
from .finding import base, cited, finished, suspect
from .order import first
from .peers import accused


def parted_agents(case: Case):  # type: ignore[no-untyped-def]
    """Say that torchrun's agents were told to meet at different places, if
    they didn't meet; or None."""
    places = dict(reversed(case.scan.endpoints))
    files = {place[0] for place in places.values()}
    if len(places) < 2 or len(files) < len(places):
        return None
    failed = [
        e
        for e in case.scan.events
        if "endezvous" in e.text or "client socket has" in e.text
    ]
    if not failed or case.scan.works:
        return None
    found = base(case, first(case, failed))
    named = sorted(places)
    found["title"] = f"rdzv_endpoint differs: {' and '.join(named)}"
    suspect(found, [])
    found["node"] = ""
    found["means"] = (
        "Nodes meet at the rendezvous endpoint. Agents that were given"
        " different endpoints wait for each other until the timeout."
    )
    found["check"] = [
        {
            "do": "grep -h rdzv_endpoint logs/* | sort | uniq -c",
            "look": "one address and one port on all nodes",
        }
    ]
    found["causes"] = []
    found["evidence"] = [
        cited(case, *places[one][:3]) for one in named
    ] + found["evidence"]
    why = "the agents print different endpoints, and they never met"
    return finished(case, found, "medium", why)


def unreachable(case: Case):  # type: ignore[no-untyped-def]
    """Name the node whose NCCL chose another interface than the other nodes'
    and couldn't be reached there; or None."""
    interfaces = case.scan.interfaces
    counts: dict = {}
    for node in interfaces:
        counts.setdefault(interfaces[node][0], []).append(node)
    for event in case.scan.events:
        address = event.fields.get("host", "")
        node = case.scan.addresses.get(address)
        if event.id != "nccl-connect-failed" or node not in interfaces:
            continue
        name, shown = interfaces[node]
        usual = max(sorted(counts), key=lambda one: len(counts[one]))
        if name == usual or 2 * len(counts[usual]) <= len(interfaces):
            continue
        found = base(case, event)
        suspect(found, [])
        found["node"] = node
        found["title"] = (
            f"NCCL offers {address} of {name}, which the others can't reach"
        )
        found["check"] = [
            {
                "do": f"NCCL_SOCKET_IFNAME={usual}",
                "look": f"a start on {node} that no longer prints {name}",
            }
        ] + list(found["check"])
        found["evidence"] = found["evidence"] + [cited(case, *shown)]
        why = (
            f"{len(counts[usual])} of {len(interfaces)} nodes use {usual}, and"
            f" connections to {address} failed"
        )
        return finished(case, found, "medium", why)
    return None


def lost_peer(case: Case, event):  # type: ignore[no-untyped-def]
    """Name the peer that several nodes lost, or return None."""
    same = [e for e in case.scan.events if e.id == event.id]
    blamed = accused(same, case.scan.homes)
    if not blamed:
        return None
    host, count = blamed
    found = base(case, event)
    suspect(found, [])
    found["node"] = case.scan.addresses.get(host, host)
    why = f"{count} peers lost {host} at once"
    node = case.scan.pods.get(found["node"])
    if node:
        why += f", which is {found['node']} on {node}"
    why += ": read its log, its kernel's log and its link counters"
    return finished(case, found, "low", why)
