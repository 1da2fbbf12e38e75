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
