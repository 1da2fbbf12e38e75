"""Lab 01: collectives from `send` and `recv` alone.

**A ring all-reduce sends twice as many messages as everybody sending everything
to everybody.** Each is a part of the buffer in place of all of it. So its bytes
hardly grow with the number of ranks, and its latencies do.

Write five collectives that send what theory says they have to: a ring's
reduce-scatter, all-gather and all-reduce, a tree's broadcast, and all-to-all.
They take any dtype, a length that the ranks do not divide, and any group.

The grader compares what each rank has afterwards, counts the bytes, and follows
the messages of the tree.
"""

STARTER = """Lab 01: collectives.

Build five collectives from point-to-point messages: `dist.send`, `dist.recv`,
`dist.isend`, `dist.irecv`. Nothing else of torch.distributed moves data here.

`group` is None for all ranks, or a process group. Tensors are on the CPU and
contiguous, if nothing else is said. Ranks call each function together.
"""

TODO = {
    "ring_reduce_scatter": "each partial sum takes n - 1 hops",
    "ring_all_gather": "each part takes n - 1 hops",
    "ring_all_reduce": "2 (n - 1) / n of its bytes, no more",
    "tree_broadcast": "as many rounds as log2 of n, rounded up",
    "all_to_all": "every pair of ranks, and nobody waits",
}
