"""Bug 06: the same weights score differently on three processes."""

COMPLAINT = """
A model that is finished is evaluated again on another number of processes, and
the accuracy moves in the fourth digit. It is no noise: it moves the same way
each time. And the person who audits our data says that an epoch of 4,000
samples has 4,032 ids in it.
"""
LOG = r"""
$ train 2 --run-dir a --global-batch-size 96 --max-steps 42 > two
$ train 3 --run-dir a --global-batch-size 96 --max-steps 42 > three
$ grep -o '"accuracy": [0-9.]\{5,6\}' two three
two:"accuracy": 0.635
three:"accuracy": 0.6347
$ lockstep audit a | grep -v 'true \|  0 '
a: NOT proven
 claim                found
 order kept           false
 samples               4032
 epochs                   1
 steps                   42
 restarts                 1
order_kept: step 42: rank 0
"""
HINTS = [
    "1,000 held-out samples on three ranks: how many does each evaluate?",
    "4,032 is a multiple of what?",
    "There are two places. A mended one does not mend the other.",
]
ELSE = """
Dropout that is on in evaluation, reduced precision, or another order of
additions. Counting ids needs none of the model, so it rules them out.
"""
OTHER = "16"
PLANTED = {
    "06": [
        (
            """\
    batch, accum = cfg.global_batch_size, cfg.grad_accum_steps(world)
    for at in""",
            """\
    batch, accum = cfg.global_batch_size, cfg.grad_accum_steps(world)
    even = -(-n // batch) * batch  # whole batches in every epoch
    for at in""",
        ),
        (
            "np.divmod(np.arange(at, at + batch), n)",
            "np.divmod(np.arange(at, at + batch), even)",
        ),
        (
            "ids.append(order[index[epochs == epoch]])",
            "ids.append(np.resize(order, even)[index[epochs == epoch]])",
        ),
        ("[rank::world]  # nothing padded or dropped", "[rank::world]"),
        (
            """\
def evaluate(r, x, y):  # each sample on one rank, without padding
    mine = slice(r.rank, None, r.world)
""",
            """\
def evaluate(r, x, y):  # an equal share on every rank
    each = -(-len(y) // r.world)
    mine = torch.arange(r.rank, each * r.world, r.world) % len(y)
""",
        ),
        (
            "    return right.item() / len(y)\n",
            "    return right.item() / (each * r.world)\n",
        ),
    ]
}
