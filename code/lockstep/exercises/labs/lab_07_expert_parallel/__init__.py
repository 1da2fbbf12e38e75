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
