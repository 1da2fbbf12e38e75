"""Lab B4: graph batches.

**A batch of molecules without the node offset trains, and all of it is wrong.**
Graphs are joined into one that has separate parts, so nothing is padded. Every
index then names some atom, of the right molecule or of another.

Write the union of graphs, and what works on it: messages along bonds, a
readout, and a softmax over each graph's own atoms. Renumber a graph's atoms,
write the check that finds a batch which leaks, and a mean over the atoms of all
ranks. A rank may have none.

The grader compares each with one graph at a time: values, and gradients. It
gives your check networks that leak, and others that only round.
"""

STARTER = """Lab B4: graph batches.

What a function makes of a batch is what it would make of each graph alone:
values, and the gradients of whatever they were computed from. Tensors are of
any floating-point dtype. What is passed in stays as it is.
"""

TODO = {
    "union": "a bond moves on with its atoms",
    "messages": "several bonds end at one atom",
    "readout": "the last graph may have no atoms",
    "softmax": "whose maximum do you take off?",
    "permuted": "bonds name atoms by their new numbers",
    "company": "a check that can fail",
    "atom_mean": "every rank has to call",
}
