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

STARTER = """Lab B6: the pair representation over two axes of ranks.

z is (rows, columns, …): residue i is a row, j a column. Rank (r, c) of a mesh
has the r-th part of the rows and the c-th of the columns: its tile. Each
function takes tiles and returns this rank's tile of what one device would
return. Gradients of its inputs are this rank's tiles as well, where each rank
calls `backward` on its own tile of the result.

All ranks of a mesh call a function together. A mesh is not all ranks: others
may have another sample.
"""

TODO = {
    "part": "rows by `down`, columns by `across`",
    "gather": "the gradient is a reduce-scatter",
    "scatter": "the gradient is an all-gather",
    "outgoing": "which k does this rank have of b?",
    "incoming": "the other one, on transposed tiles",
    "attention": "bias is needed at our columns j",
    "sum_gradients": "a sum over both axes",
}
