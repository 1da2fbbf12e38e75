"""Lab B4: one solution, which the page quotes."""

from lockstep.labs.lab_b4_graph_batches.sound import (
    Batch,
    Graph,
    atom_mean,
    company,
    messages,
    permuted,
    readout,
    softmax,
    union,
)

__all__ = [
    "Batch",
    "Graph",
    "atom_mean",
    "company",
    "messages",
    "permuted",
    "readout",
    "softmax",
    "union",
]
