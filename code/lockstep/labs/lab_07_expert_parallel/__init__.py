"""Lab 07: expert parallel: tokens travel to the ranks that own their experts.

You build a mixture of experts whose experts live on different ranks: a top-k
router with capacity, the loss that evens its load, the two all-to-alls that
bring tokens to their experts and back, and the layer around them.

A router picks k experts for each token. One all-to-all takes the token's row to
the ranks that own them, and a second one brings back what they made of it. An
expert that is full turns choices away, and these must be counted.

The grader compares every rank's output, losses and gradients with one process
that has all experts and all tokens. It overloads one expert, leaves others and
a whole rank without tokens, and counts the bytes that go over the wire.
"""

STARTER = """Lab 07: expert parallel.

Experts are divided over the ranks of a group: of n experts on r ranks, rank 0
owns the first n / r, rank 1 the next, and so on. Every rank has tokens of its
own, perhaps none, and calls each function together with the others.

`group` is None for all ranks, or a process group. Any collective of torch's may
be used. Rows that are added to fill a buffer must not change a result.
"""

TODO = {
    "route": "who chose what, and who came first",
    "load_balancing_loss": "of everybody's tokens, not of ours alone",
    "Trip": "whatever yours has to know",
    "dispatch": "rows travel, and gradients find back",
    "combine": "the way back",
    "ExpertParallel.__init__": "no parameter that another rank owns",
    "ExpertParallel.forward": "the parts above, on every rank",
}
