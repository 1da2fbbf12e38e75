"""Say that no first fault was found, and where to look."""

from .case import Case, is_store
from .deaths import is_victim
from .finding import base, finished, nothing, shown, suspect
from .order import first

EARLY = 30.0  # by as much a log ends before the others that ended first

MACHINE = "gpu", "host", "network", "storage"


def unknown(case: Case, hang) -> dict:  # type: ignore[no-untyped-def]
    """Say that nothing, or only echoes, were found."""
    echoes = [e for e in case.scan.events if e.role != "cause" or e.wrapped]
    found = base(case, first(case, echoes)) if echoes else nothing()
    found["known"] = False
    suspect(found, [])
    found["node"] = ""
    why = "no known message is in these logs"
    if echoes:
        why = "every known message here is an echo of an earlier fault"
    peers = {e.fields.get("host", "") for e in echoes if e.layer == "peer"}
    peers.discard("")
    failed = [one for one in case.scan.exits if one.first]
    # What victims lost or waited for says more than who they are.
    if len(peers) == 1 or hang:
        failed = [one for one in failed if not is_victim(case, one)]
    store = [e for e in echoes if is_store(e)]
    if failed and failed[0].rank is not None:
        one = failed[0]
        suspect(found, [one.rank])
        found["node"] = one.node
        found["evidence"] = [shown(case, one)]
        found["text"] = one.text
        why = (
            f"torchrun saw rank {one.rank} fail first (exit code"
            f" {one.code}), but the reason isn't here: read that rank's log"
        )
    elif store and not [r for r in quiet_ranks(case) if r != 0]:
        suspect(found, [0])
        found["node"] = case.nodes.get(0, "")
        why = (
            "the store went away, and its host is rank 0 or the first"
            " node's torchrun: read its log"
        )
    own = [
        e
        for e in echoes
        if e.layer in MACHINE and e.rank is not None and not is_store(e)
    ]
    if own and not found["ranks"] and len({e.rank for e in own}) == 1:
        found = base(case, own[0]) | {"known": False}
        why = (
            "the message of this rank is an echo of something on its own"
            " node that isn't in these logs"
        )
    if len(peers) == 1 and not found["ranks"]:
        [found["node"]] = peers
        why = (
            "every known message here is an echo, and they name the peer"
            f" {found['node']}: read its log"
        )
    early = ended_early(case)
    if early and not found["ranks"] and not found["node"]:
        end, seconds = early
        if end["rank"] is not None:
            suspect(found, [end["rank"]])
        found["node"] = end["node"]
        why = f"{end['file']} ends {seconds:.0f} s before the other logs"
    if hang:
        found["hang"] = hang
        if not found["ranks"] and not found["node"]:
            why = (
                "every rank waited for the same collective: no rank stands"
                " out, so compare stacks (py-spy) and check the network"
            )
    return finished(case, found, "none", why)


def ended_early(case: Case):  # type: ignore[no-untyped-def]
    """Return the log that ends clearly before all others, and by how many
    seconds; or None."""
    ends = [
        (case.seconds(one["time"]), n) for n, one in enumerate(case.scan.ends)
    ]
    if len(ends) < 2:
        return None
    ends.sort()
    gap = ends[1][0] - ends[0][0]
    return (case.scan.ends[ends[0][1]], gap) if gap > EARLY else None


def quiet_ranks(case: Case) -> list:
    """Return the ranks that logged no message at all."""
    loud = {e.rank for e in case.scan.events}
    return sorted(set(case.scan.ranks) - loud)
