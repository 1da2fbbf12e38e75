"""Drill 1's mistakes: in the solution, what is replaced, by what, and the
criteria that this costs."""

MISTAKES = {
    "a setting changes during the run": (
        "@dataclass(frozen=True)",
        "@dataclass",
        {"config"},
    ),
    "labels are random": (
        "y = (x @ torch.randn(32, 4, generator=rng)).argmax(1)",
        "y = torch.randint(4, (n + held_out,), generator=rng)",
        {"toy data"},
    ),
    "held-out samples are trained on": (
        "(x[n:], y[n:])",
        "(x[:held_out], y[:held_out])",
        {"toy data"},
    ),
    "each epoch has one order": (
        "default_rng([cfg.seed, epoch])",
        "default_rng(cfg.seed)",
        {"sampler"},
    ),
    "the seed comes after the layers": (
        "    torch.manual_seed(cfg.seed)\n",
        "",
        {"model"},
    ),
    "the first rate is zero": (
        "(step + 1) / (cfg.warmup_steps + 1)",
        "step / (cfg.warmup_steps + 1)",
        {"learning rate"},
    ),
    "gradients are kept": ("    r.optimizer.zero_grad()\n", "", {"loop"}),
    "the rate is never set": (
        'optimizer.param_groups[0]["lr"] = rate =',
        "rate =",
        {"loop"},
    ),
    "the log waits in a buffer": (
        '.open("a", 1)',
        '.open("a")',
        {"metrics"},
    ),
    "a position counts steps": (
        'log.emit("step", step=step, position=step * batch',
        'log.emit("step", step=step, position=step',
        {"metrics"},
    ),
    "dropout is on in evaluation": (
        "r.model.eval()(x)",
        "r.model(x)",
        {"evaluation"},
    ),
    "an epoch's last batch is short": (
        """    for at in range(0, cfg.max_steps * batch, batch):
        epochs, index = np.divmod(np.arange(at, at + batch), n)
""",
        """    for step in range(cfg.max_steps):
        epoch, at = divmod(step, -(-n // batch))
        index = np.arange(at * batch, min(n, at * batch + batch))
        epochs = np.full_like(index, epoch)
""",
        {"full batches"},
    ),
}
