"""Bug 01: three epochs were asked for, and the job was done in no time."""

COMPLAINT = """
I asked for 188 steps of 64 samples, which is three epochs of our 4,000 samples.
The job was much faster than I had planned for. It exits with code 0 and its
loss looks like that of any run at that point, so I nearly booked the time as a
speed-up.
"""
LOG = r"""
$ train 2 --run-dir a --max-steps 188 > last; echo exit code $?
exit code 0
$ grep -o '"step".*"loss": [0-9.]\{5\}' last
"step": 62, "position": 3968, "loss": 0.668
$ ls a/checkpoints
step-00000050
"""
HINTS = [
    "How many steps does the run say it has done, and how many ids has it"
    " recorded?",
    "Follow the second epoch's first sample id: who hands it out?",
    "Write down `consumed` at the end of each epoch.",
]
ELSE = """
A wrong `max_steps`, a data set that is shorter than believed, or an iterator
that was used up by a dry run. The recorded ids tell them apart: here all of
epoch 0 is there, and nothing of epoch 1.
"""
OTHER = "16"
REWRITTEN = [
    (
        "from pathlib import Path\n",
        "from itertools import islice\nfrom pathlib import Path\n",
    ),
    (
        """def sampler(cfg, rank, world, n, position):
    \"\"\"Yield this rank's micro-batches. The only state is `position`: samples
    of finished steps. Prefetching can't advance it.\"\"\"
    batch, accum = cfg.global_batch_size, cfg.grad_accum_steps(world)
    for at in range(position, cfg.max_steps * batch, batch):
        epochs, index = np.divmod(np.arange(at, at + batch), n)
        ids = []
        for epoch in np.unique(epochs):  # Cut: an order in O(1) memory.
            order = np.random.default_rng([cfg.seed, epoch]).permutation(n)
            ids.append(order[index[epochs == epoch]])
        mine = np.concatenate(ids)[rank::world]  # nothing padded or dropped
        yield from np.split(mine, accum)
""",
        """def sample_ids(cfg, n, position):
    \"\"\"The run's sample ids from `position` on, epoch after epoch.\"\"\"
    epoch, consumed = divmod(position, n)
    while epoch * n < cfg.max_steps * cfg.global_batch_size:
        order = np.random.default_rng([cfg.seed, epoch]).permutation(n)
        for index in order[consumed:]:
            yield index
            consumed += 1
        epoch, consumed = epoch + 1, 0

def sampler(cfg, rank, world, n, position):
    \"\"\"This rank's micro-batches, as long as a whole batch is left.\"\"\"
    batch, accum = cfg.global_batch_size, cfg.grad_accum_steps(world)
    ids = sample_ids(cfg, n, position)
    while len(whole := [*islice(ids, batch)]) == batch:
        yield from np.split(np.array(whole[rank::world]), accum)
""",
    ),
    (
        """\
    while step < stop:
""",
        """\
    accum = cfg.grad_accum_steps(world)
    while step < stop:
        with log.phase("load"): micros = [*islice(source, accum)]
        if not micros: break  # the data are used up
""",
    ),
    (
        "total, ids = train_step(r, source)",
        "total, ids = train_step(r, iter(micros))",
    ),
]
PLANTED = {
    "01": [
        (
            "        epoch, consumed = epoch + 1, 0\n",
            "        epoch += 1\n",
        ),
    ]
}
