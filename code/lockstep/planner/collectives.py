"""Bytes on the wire and time, for one collective over equal links.

`bytes` is the size column of nccl-tests: the whole buffer, of which a rank of
all_gather or reduce_scatter has one part.
"""

from .figures import Formula, PlanError, above, derive, one_of, whole

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
SECONDS = Formula(
    "seconds",
    "hops * latency + bytes_sent_per_rank / bandwidth",
    "s",
    "Hockney 1994, the α–β model",
)


def collective(given: dict) -> dict:
    """`given` and the figures bytes_sent_per_rank, bus_factor and, if there is
    a bandwidth, seconds. It has op, bytes, ranks, algorithm, bandwidth (bytes
    per second, one way) and latency (seconds)."""
    op, algorithm = given["op"], given["algorithm"]
    one_of("op", op, tuple(sorted(BUS)))
    one_of("algorithm", algorithm, ("ring", "tree"))
    above("bytes", given["bytes"], -1e-9)
    whole("ranks", given["ranks"])
    if (algorithm, op) not in SENT:
        raise PlanError(
            f"--algorithm tree has no {op}; it must be ring, or the op"
            " all_reduce or broadcast"
        )
    text, source = SENT[algorithm, op]
    if given["ranks"] == 1:
        text, source = "0 * bytes", "nobody to send to"
    formulas = [
        Formula("bus_factor", BUS[op], "", NCCL_TESTS),
        Formula("bytes_sent_per_rank", text, "B", source),
    ]
    if given["bandwidth"]:
        above("bandwidth", given["bandwidth"])
        above("latency", given["latency"], -1e-12)
        formulas.append(Formula("hops", HOPS[algorithm, op], "", source))
        formulas.append(SECONDS)
    return derive(given, formulas)
