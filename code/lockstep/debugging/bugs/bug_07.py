"""Bug 07: half the micro-batch was to change nothing, and changed the run."""

COMPLAINT = """
I ran out of memory, so I halved `--micro-batch-size` and left the rest. The
start-up line still says a global batch of 64. The loss follows another curve
from the first steps on, without dropout as well, and not by a rounding error.
"""
LOG = r"""
$ train 1 --run-dir a --micro-batch-size 64 --dropout 0 --max-steps 40 > last
$ grep -o '"loss": [0-9.]\{5\}' a/events/*
"loss": 1.414
"loss": 1.260
"loss": 1.261
"loss": 1.204
"loss": 1.204
$ train 1 --run-dir b --micro-batch-size 32 --dropout 0 --max-steps 40 > last
$ grep -o '"loss": [0-9.]\{5\}' b/events/*
"loss": 1.391
"loss": 1.184
"loss": 1.147
"loss": 1.074
"loss": 1.074
"""
HINTS = [
    "The setting is derived from the run's batch. What reads it?",
    "Count how often the optimizer steps, and of how many samples.",
    "What has to happen once for all micro-batches of a step?",
]
ELSE = """
A mean of means, a loss that is not divided by the global count, or dropout.
The count of updates needs none of these to be right.
"""
OTHER = "08"
PLANTED = {
    "07": [
        (
            """\
        with nullcontext() if last else r.ddp.no_sync():
            # The""",
            """\
        with nullcontext():
            # The""",
        ),
        (
            """\
    with r.log.phase("optimizer"):
        r.scaler.unscale_(r.optimizer)
        norm = nn.utils.clip_grad_norm_(r.ddp.parameters(), r.cfg.clip_norm)
        # The only value the host reads; equal on all ranks, so they agree.
        if not r.scaler.is_enabled() and not math.isfinite(norm.item()):
            raise FloatingPointError(f"gradient norm {norm.item()}")
        r.scaler.step(r.optimizer)  # skips an fp16 overflow
        r.scaler.update()
        r.optimizer.zero_grad()
""",
            """\
        with r.log.phase("optimizer"):
            r.scaler.unscale_(r.optimizer)
            norm = nn.utils.clip_grad_norm_(
                r.ddp.parameters(), r.cfg.clip_norm)
            # The same on all ranks: they agree.
            if not r.scaler.is_enabled() and not math.isfinite(norm.item()):
                raise FloatingPointError(f"gradient norm {norm.item()}")
            r.scaler.step(r.optimizer)  # skips an fp16 overflow
            r.scaler.update()
            r.optimizer.zero_grad()
""",
        ),
    ]
}
