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
