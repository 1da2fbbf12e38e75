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

STARTER = """Lab B2: token-budget batches.

Sample i has `lengths[i]` tokens, a NumPy array of integers, the same on every
rank. A batch is a list of samples, padded to its longest: it costs its number
of samples times the greatest length, and no batch costs more than `budget`. A
step is a list of `parts` batches, which are dealt to the ranks.

No function of the first three communicates, and none touches a global random
generator or `lengths`. What they return depends on their arguments alone.
"""

TODO = {
    "plan": "how many batches are too few, or too many",
    "stream": "",
    "share": "",
    "token_loss": "what can a rank know without asking?",
}
