"""Lab 05: sequence/context parallel: ring attention and Ulysses.

You split one sequence over ranks and compute the attention of the whole, with
its gradients: `ring_attention`, `ulysses_attention`, and the order of tokens
that gives every rank the same work, `zigzag_positions`.

Round a ring, keys and values pass every rank, which keeps a running softmax of
its own queries. With Ulysses, an all-to-all gives each rank the whole sequence
of some heads, and another gives the outputs back.

The grader compares outputs and gradients with one process. It counts scores,
bytes sent and bytes held, and looks at what starts before what: no time is
measured.
"""

STARTER = """Lab 05: sequence and context parallelism.

One sequence is too long for one rank: each has a part of its tokens. Compute
exactly the attention that one process would, and its gradients.

Tensors are (batch, heads, local sequence, head_dim), of one shape and dtype on
all ranks, in q, k and v alike. `positions`, (local sequence,), are integers:
where this rank's tokens stand in the whole sequence. They ascend on each rank,
and any split of the sequence is allowed: contiguous, zig-zag, every n-th token.

Scores are scaled by head_dim ** -0.5. With `causal`, a query sees the keys at
its own position and before. `group` is None for all ranks, or a process group.
Ranks call each function together; gradients reach q, k and v by autograd.
"""

TODO = {
    "zigzag_positions": "an early and a late chunk",
    "ring_attention": "forward by blocks, backward by blocks",
    "ulysses_attention": "whole sequences of some heads, and back",
}
