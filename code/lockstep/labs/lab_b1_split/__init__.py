"""Lab B1: leakage-free split.

**Python's `hash` of a text is another number in every process.** Split by it,
each rank holds other molecules back, and together they train on all of them. A
shuffled list of groups does better, until a molecule is added.

Write a split that is a function of a group's name and a seed. Duplicates and
scaffolds lie on one side, wherever their rows are. Then audit it: the nearest
training molecule of each test molecule, over the rows of all ranks.

The grader starts an interpreter with another salt, adds data, deals rows to the
ranks otherwise, and compares the audit with that of one process.
"""

STARTER = """Lab B1: leakage-free split.

Each rank has rows of its own, some of them none. A row has a `key`, the same
for each way to write a molecule, and a `scaffold`, which is a function of the
key; "" is that of a molecule without rings. Parts have names and shares, such
as {"train": 0.8, "valid": 0.1, "test": 0.1}, in an order that counts.

All ranks of the default group call `split`, `nearest` and `audit` together.
"""

TODO = {
    "group_of": "",
    "side": "",
    "split": "",
    "nearest": "",
    "audit": "",
}
