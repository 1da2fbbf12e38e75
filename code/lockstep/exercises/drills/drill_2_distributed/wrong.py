"""Drill 2's mistakes: in the solution, what is replaced, by what, and the
criteria that this costs."""

MISTAKES = {
    "the device is of the global rank": (
        'int(os.environ["LOCAL_RANK"])',
        'int(os.environ["RANK"])',
        {"device"},
    ),
    "ranks are padded to equal shares of an epoch": (
        """        epochs, index = np.divmod(np.arange(at, at + batch), n)
""",
        """        padded = -(-n // batch) * batch
        epochs, index = np.divmod(np.arange(at, at + batch), padded)
        index %= n
""",
        {"sampler"},
    ),
    "each rank draws its own order": (
        "default_rng([cfg.seed, epoch])",
        "default_rng([cfg.seed, epoch, rank])",
        {"sampler"},
    ),
    "nobody averages": (
        "        with nullcontext() if last else r.ddp.no_sync():",
        "        with r.ddp.no_sync():",
        {"gradients"},
    ),
    "a sum is divided by the world size twice": (
        "(loss * r.world / batch)",
        "(loss / batch)",
        {"gradients"},
    ),
    "the loss is one shard's": (
        "        dist.all_reduce(total)\n        loss = total.item() / batch\n",
        "        loss = total.item() / (batch // world)\n",
        {"metrics"},
    ),
    "the accuracy is a mean of the ranks' means": (
        "    return right.item() / len(y)\n",
        """    dist.all_reduce(mean := (answers == y[mine]).double().mean())
    return mean.item() / r.world
""",
        {"metrics"},
    ),
    "the record has the last micro-batch": (
        "return total, torch.cat(ids)",
        "return total, ids[-1]",
        {"record"},
    ),
    "every rank prints": (
        '    if last["rank"] == 0: print',
        "    print",
        {"quiet ranks"},
    ),
    "the checkpoint has DDP's names": (
        'parts={"model": model,',
        'parts={"model": nn.ModuleDict({"module": model}),',
        {"checkpoint"},
    ),
    "a save begins under its final name": (
        """tmp / f"rank-{r.rank}.pt")
        tmp.rename(final)
""",
        """tmp.rename(final) / f"rank-{r.rank}.pt")
""",
        {"whole or not there"},
    ),
    "every micro-batch reduces": (
        "with nullcontext() if last else r.ddp.no_sync():",
        "with nullcontext():",
        {"accumulation"},
    ),
}
