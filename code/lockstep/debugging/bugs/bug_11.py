"""Bug 11: all of a GPU's time is in the optimizer."""

COMPLAINT = """
On the GPU nodes forward and backward are free, if I believe the phases in the
log, and the optimizer takes all of a step. I have no GPU to spare for you. So I
put a stand-in under the timers, `FakeGpu` of `lockstep.instruments.fake_gpu`.
Its kernels take 2, 4 and 1 s, and the timers book them the same way. Steps are
slower than in another trainer of ours, too.
"""
LOG = r"""
$ python -m lockstep.debugging.bugs.rig trainer.py
kernels: forward 2.0 s, backward 4.0 s, optimizer 1.0 s
 timers: forward 0.0 s, backward 0.0 s, optimizer 7.0 s
"""
HINTS = [
    "When does a call return that starts a kernel?",
    "Which phase is the first to ask the device for a value?",
    "Count the values that the host reads in a step that logs nothing.",
]
ELSE = """
A slow fused optimizer, or clipping. If the phase that waits takes the time
whatever runs before it, it is neither.
"""
OTHER = "15"
PLANTED = {
    "11": [
        (
            """\
    def clock(self):  # a GPU lags behind: wait, but only in a logged step
        if self.gpu and self.timing: torch.cuda.synchronize()
        return time.perf_counter()
""",
            """\
    def clock(self):
        return time.perf_counter()
""",
        ),
        (
            "# The only value the host reads; equal on all ranks",
            "# Equal on all ranks",
        ),
        (
            """\
        log.trained_on(step, step * batch, ids)
""",
            """\
        if not math.isfinite(total.item()):
            raise FloatingPointError(f"loss {total.item()} at step {step}")
        log.trained_on(step, step * batch, ids)
""",
        ),
    ]
}
