"""Lab 08: topology and communication.

**A hierarchical all-reduce sends as many bytes per rank as a ring does.** It
moves some of them from the network into the node. Whether that is faster, and
when a tree beats both, are sums of two numbers for each kind of link.

Measure these numbers, α and β, between two processes. Predict a ring, a tree
and a hierarchical all-reduce on a described cluster, and choose by size. Write
the hierarchical one, and order the axes of a mesh so that few bytes leave a
node.

A message costs α seconds, and β for each byte. So an algorithm costs α for each
hop in a row, and β for each byte that a rank sends.

The grader brings a clock of its own, times with outliers, and clusters, and
counts what crosses between nodes. Once it measures: a prediction of yours must
come within a factor of four.
"""

STARTER = """Lab 08: topology and communication.

Bytes are those of the whole buffer, as `lockstep plan collective` has them;
times are seconds. `group` is None for all ranks, or a process group. Any
function of torch's may be used.

`predict` counts α for each hop that a part of the buffer makes in a row, and β
for the bytes that a rank sends, as the planner counts both.

- ring: all ranks in a row, node after node. Of its 2 (ranks - 1) hops
  2 (nodes - 1) are between nodes.
- tree: up and down, within the nodes and between them. That is twice log2,
  rounded up, of a node's ranks, and of the nodes. It sends 2 · bytes, in small
  pieces.
- Both leave a node over the links of all its ranks at once, and no rank is
  faster than its inner link: the slower of the two sets the pace. In a cluster
  of one node there is no outer link.
- hierarchical: rings within the nodes, then between ranks of equal number, then
  within the nodes again; one after the other.

`mesh_order` counts the bytes of all ranks in a step. Along each axis every rank
sends to the next rank of its group, and the last one to the first. Ranks fill
one node after the other; degrees need not divide a node. The names are in the
order that `init_device_mesh` takes: along the last axis, ranks of a group are
neighbors.
"""

TODO = {
    "ping_pong": "one rank's clock, and a message that ends",
    "fit": "two numbers that no outlier moves",
    "predict": "hops and bytes, for each kind of link",
    "choose": "as predicted",
    "hierarchical_all_reduce": "a rank sends one part between nodes",
    "mesh_order": "count, for every order there is",
}
