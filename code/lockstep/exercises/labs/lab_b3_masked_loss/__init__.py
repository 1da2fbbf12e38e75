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
