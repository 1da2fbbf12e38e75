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
