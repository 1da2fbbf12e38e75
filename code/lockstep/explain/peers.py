"""Join what logs of several nodes say: addresses, GPUs, and accused peers."""


def bootstrap(line: str) -> tuple:
    """Return the interface and the address in NCCL's `Bootstrap : Using
    eth0:10.0.0.1<0>`, or two empty texts."""
    at = line.find("Using ", line.find("Bootstrap"))
    if at < 0:
        return "", ""
    word = line[at + 6 :].split("<")[0]
    name, _, address = word.partition(":")
    return name.split("]")[-1], address.strip("[] ")


def pods(lines: list) -> list:
    """Return (pod, address, node) of the rows below the header of `kubectl get
    pods -o wide`."""
    rows = []
    for line in lines:
        words = line.split()
        if len(words) < 3:
            break
        for at, word in enumerate(words[:-1]):
            if is_address(word):
                rows.append((words[0], word, words[at + 1]))
                break
    return rows


def assigned(line: str, nodes: dict) -> None:
    """Note the node of a pod from `Successfully assigned ml/w-0 to node-7`."""
    words = line[line.find("Successfully assigned") :].split()
    if len(words) > 4 and words[3] == "to":
        nodes.setdefault(words[2].split("/")[-1], words[4])


def numbers(text: str) -> list:
    """Return the whole numbers of a list such as `8, 9, 10]`."""
    words = text.split("]")[0].replace(",", " ").split()
    return [int(one) for one in words if one.isdigit()]


def device(line: str):  # type: ignore[no-untyped-def]
    """Return a GPU's place on the bus, the size of the group and the rank in
    NCCL's `comm … rank 13 nranks 16 … busId ab000 …`, or None."""
    words = line.split()
    values = []
    for name in ("busId", "nranks", "rank"):
        if name not in words[:-1]:
            return None
        values.append(words[words.index(name) + 1])
    place, size, rank = values
    if not (size.isdigit() and rank.isdigit()):
        return None
    try:
        return int(place, 16), int(size), int(rank)
    except ValueError:
        return None


def bus(address: str) -> int:
    """Return `0000:ab:00` or `0000:ab:00.0` as the number that NCCL prints as
    `busId ab000`; -1 for anything else."""
    parts = address.split(".")[0].split(":")
    if len(parts) != 3:
        return -1
    try:
        domain, on, at = [int(one, 16) for one in parts]
    except ValueError:
        return -1
    return domain << 20 | on << 12 | at << 4


def is_address(word: str) -> bool:
    """Whether a word is an IPv4 address."""
    parts = word.split(".")
    return len(parts) == 4 and all(one.isdigit() for one in parts)


def accused(events: list, homes: list):  # type: ignore[no-untyped-def]
    """Return the host that several peers name in equal messages and how many
    they are; None if fewer than two agree, or no host has the most.

    A connection has two ends, so a single message doesn't say which end
    failed. The end that several peers lost at once is the end that failed.

    Args:
        events: the messages.
        homes: for each file the node in its name, or "".
    """
    files: dict = {}
    nodes: dict = {}
    for event in events:
        host = event.fields.get("host", "")
        if host:
            files.setdefault(host, set()).add(event.file)
            nodes.setdefault(host, set())
            # A line that names no node has the node of its file, or its peer.
            if event.node not in ("", host, homes[event.file]):
                nodes[host].add(event.node)
    together = len({e.file for e in events}) == 1
    votes = {}
    for host in files:
        tellers = len(nodes[host])
        if not together:  # a node may have several files
            tellers = min(len(files[host]), tellers or len(files[host]))
        votes[host] = tellers
    order = sorted(votes, key=lambda host: (-votes[host], host))
    if not order or votes[order[0]] < 2:
        return None
    if len(order) > 1 and votes[order[1]] == votes[order[0]]:
        return None
    return order[0], votes[order[0]]


def awaited(text: str):  # type: ignore[no-untyped-def]
    """Return the rank whose key in the store a message waited for in vain, or
    None."""
    at = text.find("retrieving ncclUniqueId from [")
    if at < 0 or "timeout" not in text[at:]:
        return None
    word = text[at + 30 :].split("]")[0]
    return int(word) if word.isdigit() else None
