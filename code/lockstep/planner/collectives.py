"""Bytes on the wire and time, for one collective over equal links.

`bytes` is the size column of nccl-tests: the whole buffer, of which a rank of
all_gather or reduce_scatter has one part.
"""

from .figures import (
    Formula,
    PlanError,
    above,
    at_least,
    derive,
    divides,
    one_of,
    whole,
)

NCCL_TESTS = "nccl-tests, doc/PERFORMANCE.md"
RING = "Patarasuk and Yuan 2009; Thakur et al. 2005"
TREE = "Sanders et al. 2009 (two trees); NCCL 2.4"
BUS = {
    "all_reduce": "2 * (ranks - 1) / ranks",
    "reduce_scatter": "(ranks - 1) / ranks",
    "all_gather": "(ranks - 1) / ranks",
    "all_to_all": "(ranks - 1) / ranks",
    "broadcast": "1",
}
# By algorithm and collective: bytes that a rank sends, and latencies in a row.
SENT = {
    ("ring", "all_reduce"): ("2 * (ranks - 1) / ranks * bytes", RING),
    ("ring", "reduce_scatter"): ("(ranks - 1) / ranks * bytes", RING),
    ("ring", "all_gather"): ("(ranks - 1) / ranks * bytes", RING),
    ("ring", "all_to_all"): ("(ranks - 1) / ranks * bytes", "pairwise"),
    ("ring", "broadcast"): ("bytes", "a chain in small pieces"),
    ("tree", "all_reduce"): ("2 * bytes", TREE),
    ("tree", "broadcast"): ("bytes", TREE),
}
HOPS = {
    ("ring", "all_reduce"): "2 * (ranks - 1)",
    ("ring", "reduce_scatter"): "ranks - 1",
    ("ring", "all_gather"): "ranks - 1",
    ("ring", "all_to_all"): "ranks - 1",
    ("ring", "broadcast"): "ranks - 1",
    ("tree", "all_reduce"): "2 * ceil(log2(ranks))",
    ("tree", "broadcast"): "ceil(log2(ranks))",
}
ALGORITHMS = "ring", "tree", "hierarchical"
ALPHA_BETA = "Hockney 1994, the α–β model"
SECONDS = Formula(
    "seconds",
    "hops * latency + bytes_sent_per_rank / bandwidth",
    "s",
    ALPHA_BETA,
)
# Within the node by one ring, then each rank with its likes in other nodes:
# reduced on the way there, gathered on the way back.
WAYS = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1}
HIERARCHY = "Horovod, pull request 411 (hierarchical all-reduce)"
HIERARCHICAL = [
    Formula(
        "node_bytes",
        "ways * (gpus_per_node - 1) / gpus_per_node * bytes",
        "B",
        HIERARCHY + ", within the node",
    ),
    Formula("nodes", "ranks / gpus_per_node", "", "of equal size"),
    Formula(
        "network_bytes",
        "ways * (nodes - 1) / nodes * bytes / gpus_per_node",
        "B",
        HIERARCHY + ", between nodes",
    ),
    Formula("bytes_sent_per_rank", "node_bytes + network_bytes", "B", "sum"),
]
HIERARCHICAL_SECONDS = Formula(
    "seconds",
    "ways * (gpus_per_node - 1) * node_latency + node_bytes / node_bandwidth"
    " + ways * (nodes - 1) * latency + network_bytes / bandwidth",
    "s",
    ALPHA_BETA + ", one part after the other",
)
# As nccl-tests reports them.
RATES = [
    Formula("algbw", "bytes / seconds", "B/s", NCCL_TESTS),
    Formula("busbw", "algbw * bus_factor", "B/s", NCCL_TESTS),
]


def collective(given: dict) -> dict:
    """`given` and the figures bytes_sent_per_rank, bus_factor and, if there is
    a bandwidth, seconds, algbw and busbw. It has op, bytes, ranks, algorithm,
    bandwidth (bytes per second, one way) and latency (seconds); hierarchical
    has gpus_per_node, node_bandwidth and node_latency besides."""
    op, algorithm = given["op"], given["algorithm"]
    one_of("op", op, tuple(sorted(BUS)))
    one_of("algorithm", algorithm, ALGORITHMS)
    at_least("bytes", given["bytes"])
    for name in ("bandwidth", "latency"):
        at_least(name, given[name])
    whole("ranks", given["ranks"])
    s = derive(given, [Formula("bus_factor", BUS[op], "", NCCL_TESTS)])
    if algorithm == "hierarchical":
        s, last = hierarchical(s), HIERARCHICAL_SECONDS
    else:
        s, last = flat(s), SECONDS
    if not given["bandwidth"]:
        return s
    s = derive(s, [last])
    return derive(s, RATES) if s["seconds"].value else s


def flat(given: dict) -> dict:
    """One ring or tree through all ranks."""
    op, algorithm = given["op"], given["algorithm"]
    if (algorithm, op) not in SENT:
        raise PlanError(
            f"--algorithm tree has no {op}; it must be ring, or the op"
            " all_reduce or broadcast"
        )
    text, source = SENT[algorithm, op]
    if given["ranks"] == 1:
        text, source = "0 * bytes", "nobody to send to"
    return derive(
        given,
        [
            Formula("bytes_sent_per_rank", text, "B", source),
            Formula("hops", HOPS[algorithm, op], "", source),
        ],
    )


def hierarchical(given: dict) -> dict:
    """Rings within the nodes, and rings between them."""
    op, each = given["op"], whole("gpus_per_node", given["gpus_per_node"])
    if op not in WAYS:
        known = ", ".join(sorted(WAYS))
        raise PlanError(
            f"--algorithm hierarchical has no {op}; it must be ring, or the op"
            f" one of {known}"
        )
    divides("gpus_per_node", each, "ranks", given["ranks"])
    if given["bandwidth"]:
        above("node_bandwidth", given["node_bandwidth"])
    at_least("node_latency", given["node_latency"])
    return derive(dict(given, ways=WAYS[op]), HIERARCHICAL)
