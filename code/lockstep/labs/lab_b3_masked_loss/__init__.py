"""Lab B3: masked loss.

**A rank without labels is the common case, and 0/0 on it is NaN on all.** One
screen in a thousand molecules, one assay in thirty: most cells are empty. DDP
divides by ranks, and what you want is divided by labels.

Write the loss that one process would have on the whole batch, weights by which
assays count alike, and a step of several micro-batches. Each rank may lack
labels, molecules or whole assays, so that it never touches their heads.

The grader compares gradients with those of one process on all molecules. It
watches that every rank makes the same calls, and counts the bytes in them.
"""

STARTER = """Lab B3: masked loss.

A row is a molecule and a column a task, which is an assay. `values` is float
[molecules, tasks], NaN where nothing was measured. All ranks of the default
group call each function together, with rows of their own: equally many or not,
maybe none, maybe none with a label. None of them may wait for the others, and
none may bring a NaN.

A number is "right" where it is what one process makes of all ranks' rows.
"""

TODO = {
    "masked_loss": "a few bytes, the same calls on each rank",
    "task_weights": "one label on one rank is enough",
    "replicated": "",
    "step": "gradients are sent once",
}
