"""Drill 3's mistakes: in the solution, what is replaced, by what, and the
criteria that this costs."""

MISTAKES = {
    "the optimizer begins anew": (
        "        part.load_state_dict(saved[name])\n",
        '        if name == "model": part.load_state_dict(saved[name])\n',
        {"state"},
    ),
    "the data begin anew": (
        "sampler(cfg, rank, world, n, step * batch)",
        "sampler(cfg, rank, world, n, 0)",
        {"position"},
    ),
    "random states are not saved": (
        '        torch.set_rng_state(own["rng"][0])\n',
        "",
        {"bitwise"},
    ),
    "DDP regroups its buckets": (
        "    ddp.eval()(torch.zeros(1, 32, device=device)).sum().backward()\n",
        "",
        {"bitwise"},
    ),
    "each rank picks its latest": (
        "path = on_rank0(lambda: max(saves, default=None))",
        "path = max(saves, default=None)",
        {"one decision"},
    ),
    "ranks write under the final name": (
        """tmp / f"rank-{r.rank}.pt")
    os.sync()  # the record of what was trained on reaches the disk as well
    dist.barrier()
    on_rank0(lambda: tmp.rename(final) and os.sync())
""",
        """final.mkdir(exist_ok=True) or final / f"rank-{r.rank}.pt")
    dist.barrier()
""",
        {"all have written"},
    ),
    "what was saved is never compared": (
        '    for name, was in state["config"].items():',
        "    for name, was in ():",
        {"another config"},
    ),
    "the identity has all settings": (
        " if k not in OF_A_LAUNCH}",
        ' if k not in ("run_dir", "stop_at_step")}',
        {"another config"},
    ),
    "a launch is not numbered": (
        'len([*cfg.run_dir.glob("events/*-rank-0.*")])',
        "0",
        {"logs"},
    ),
    "every rank must find its own file": (
        '    if state["world_size"] == r.world:\n',
        '    if state["world_size"] != r.world: sys.exit("other world size")\n'
        "    if True:\n",
        {"another world size"},
    ),
}
