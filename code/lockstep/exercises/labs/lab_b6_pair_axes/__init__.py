"""Lab B6: the pair representation over two axes of ranks.

**On tiles of a matrix of pairs, the update that works on columns sends no
transpose.** The transpose of a tile is a tile of the transpose: the two axes of
ranks change names.

Write the two collectives that carry gradients, then both triangle
multiplications and the row-wise attention with a bias of pairs, each on tiles.
Weights are whole on every rank, and each rank has the gradient of its own
pairs: add them up.

The grader compares with one device, forward and backward, on three by two
ranks. It holds the bytes that a rank sends against the planner's, and what it
keeps against the tiles that the sums need.
"""
