"""Drill 4's mistakes: in the solution, what is replaced, by what, and the
criteria that this costs."""

MISTAKES = {
    "the loader is not timed": (
        'with r.log.phase("load"): own, x, y = next(source)',
        "own, x, y = next(source)",
        {"loader wait"},
    ),
    "forward has backward in it": (
        '            with r.log.phase("sync" if last else "backward"):\n',
        '            with r.log.phase("forward"):\n',
        {"forward and backward"},
    ),
    "the update is not timed": (
        '    with r.log.phase("optimizer"):\n',
        "    with nullcontext():\n",
        {"optimizer"},
    ),
    "a save is not timed": (
        'with log.phase("checkpoint"): save',
        "with nullcontext(): save",
        {"checkpoint"},
    ),
    "seconds are never cleared": (
        "            log.seconds.clear()\n",
        "",
        {"windows"},
    ),
    "rank 0's phases stand for all": (
        "phases=dict(log.seconds))",
        "phases=on_rank0(lambda: dict(log.seconds)))",
        {"every rank"},
    ),
    "a GPU is never waited for": (
        "        if self.gpu and self.timing: torch.cuda.synchronize()\n",
        "",
        {"device"},
    ),
    "a GPU is waited for in every step": (
        "if self.gpu and self.timing: torch",
        "if self.gpu: torch",
        {"device"},
    ),
    "the loader draws from the model's generator": (
        "num_workers=cfg.num_workers,\n        generator=torch.Generator()))",
        "num_workers=cfg.num_workers))",
        {"still bitwise"},
    ),
    "a scaler that is there switches autocast": (
        "dtype, dtype is not None)",
        "torch.bfloat16, r.scaler is not None)",
        {"precision"},
    ),
}
