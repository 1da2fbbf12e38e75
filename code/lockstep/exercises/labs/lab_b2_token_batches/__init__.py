"""Lab B2: token-budget batches.

**Batches that are full by tokens are not equally many on every rank.** Proteins
have 50 residues or 2,000. Dealt out by number and filled up to a budget, they
make a batch more on one rank, whose all-reduce waits for ranks that have left.

Write a plan of an epoch that every rank computes by itself: each sample once,
no batch over the budget, as many batches for each. Then its stream, which goes
on from one integer on another number of ranks, and its loss.

The grader compares plans of ranks whose random generators differ. It resumes
after every step, deals steps to other numbers of ranks, and checks gradients.
"""
