"""Bug 02: after a restart, some samples are in no epoch."""

COMPLAINT = """
We stopped a run on two loader workers after 5 steps of 64 and let it go on.
Loss and learning rate continue as they should. Then somebody counted ids: at
the end of the first epoch some samples had never been trained on. Runs that
were not interrupted are fine, and so was my test without workers.
"""
LOG = r"""
$ train 2 --run-dir a --max-steps 63 --num-workers 2 --stop-at-step 5 > last
$ train 2 --run-dir a --max-steps 63 --num-workers 2 > last
$ lockstep audit a | grep -v 'true \|  0 '
a: NOT proven
 claim                found
 exactly once         false
 order kept           false
 duplicates             125
 missing                125
 samples               4032
 epochs                   1
 steps                   63
 restarts                 1
order_kept: step 6: rank 0
exactly_once: epoch 0: 125 duplicates, 125 missing
"""
HINTS = [
    "The checkpoint holds a step and a position. Multiply.",
    "What can be ahead of the training loop when there are workers?",
    "Who moves `position`, and when?",
]
ELSE = """
A data set that has changed between launches, ranks that hold different shares,
or a resume at another epoch's order. A position that is not steps times batch
rules them out: it is wrong before anything has been restored.
"""
OTHER = "09"
REWRITTEN = [
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
        """class Sampler:
    \"\"\"This rank's micro-batches, and how far the run is: `position`.\"\"\"
    def __init__(self, cfg, rank, world, n, position):
        self.cfg, self.rank, self.world, self.n = cfg, rank, world, n
        self.position = position

    def __iter__(self):
        cfg, n, batch = self.cfg, self.n, self.cfg.global_batch_size
        begin, accum = self.position, cfg.grad_accum_steps(self.world)
        for at in range(begin, begin + cfg.max_steps * batch, batch):
            epochs, index = np.divmod(np.arange(at, at + batch), n)
            ids = []
            for epoch in np.unique(epochs):
                order = np.random.default_rng([cfg.seed, epoch]).permutation(n)
                ids.append(order[index[epochs == epoch]])
            mine = np.concatenate(ids)[self.rank::self.world]
            for micro in np.split(mine, accum):
                yield micro

    def done(self, samples):  # a step with so many is done
        self.position += samples
""",
    ),
    (
        "Return step and loss of the newest checkpoint, which rank 0 picks.",
        "Return step, position and loss of the newest checkpoint.",
    ),
    (
        "    if path is None: return 0, 0.0\n",
        "    if path is None: return 0, 0, 0.0\n",
    ),
    (
        """\
    return state["step"], state["loss"]
""",
        """\
    return state["step"], state["position"], state["loss"]
""",
    ),
    (
        """\
    step, loss = restore(r)
    mine = sampler(cfg, rank, world, n, step * batch)
""",
        """\
    step, position, loss = restore(r)
    mine = Sampler(cfg, rank, world, n, position)
""",
    ),
    (
        """\
        log.trained_on(step, step * batch, ids)
""",
        """\
        mine.done(batch)
        log.trained_on(step, step * batch, ids)
""",
    ),
    (
        """"step": step, "position": step * batch, "loss": loss,
""",
        """"step": step, "position": mine.position, "loss": loss,
""",
    ),
    (
        """"run_finished", step=step, position=step * batch, loss=loss,
""",
        """"run_finished", step=step, position=mine.position, loss=loss,
""",
    ),
]
PLANTED = {
    "02": [
        (
            """\
                yield micro

    def done(self, samples):  # a step with so many is done
        self.position += samples
""",
            """\
                self.position += len(micro) * self.world
                yield micro
""",
        ),
        ("        mine.done(batch)\n", ""),
    ]
}
