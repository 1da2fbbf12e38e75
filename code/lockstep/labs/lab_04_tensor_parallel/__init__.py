"""Lab 04: tensor-parallel linear.

**Two linear layers that are split over ranks need no word between them.** The
first is split by its outputs, the second by its inputs, so what one makes on a
rank the other takes there. Ranks speak where the pair begins and where it ends.

Write the two layers, an MLP and attention made of them, and a loss over part of
the vocabulary. Each is built from a whole module. Then cut each all-reduce in
two: with sequence parallelism, what lies between blocks is 1/n on every rank.

The grader compares each with the whole module: outputs, gradients, and the
output after a step. It counts the bytes that a rank sends, and those that it
holds.
"""

STARTER = """Lab 04: tensor-parallel linear.

Each class is built, on every rank alike, from a whole module, and keeps this
rank's part of it. What it makes, and the gradients of its input and of its
parameters once `backward` has returned, are those of the whole module: of a
split weight this rank's part, of anything else all of it.

`group` is None for all ranks, or a process group. Rank r of its n ranks has the
r-th of n equal parts. A class that is built where n does not divide what it
splits raises ValueError: one line, with both numbers.

With `sequence_parallel`, a block's input and output are this rank's 1/n of the
sequence, the last dimension but one. Without it they are whole on every rank.
Activations and their gradients take as many bytes on the wire either way.
"""

TODO = {
    "ColumnParallelLinear.__init__": "hold no more than 1/n of the weight",
    "ColumnParallelLinear.forward": "x's gradient is that of all outputs",
    "RowParallelLinear.__init__": "hold no more than 1/n of the weight",
    "RowParallelLinear.forward": "the sum of all ranks' products",
    "ParallelMLP.__init__": "one all-reduce forward, one backward",
    "ParallelMLP.forward": "ranks speak at its two ends alone",
    "ParallelAttention.__init__": "one all-reduce forward, one backward",
    "ParallelAttention.forward": "ranks speak at its two ends alone",
    "vocab_parallel_cross_entropy": "a few numbers a token, never the logits",
}
