"""Drill 4's wrong answers: the solution with a mistake."""

from lockstep.grading.mutants import Mutant

MUTANTS = (
    Mutant.diff("the loader is not timed", {"loader wait"}, """
-        with r.log.phase("load"): own, x, y = next(source)
+        own, x, y = next(source)
"""),
    Mutant.diff("forward has backward in it", {"forward and backward"}, """
-            with r.log.phase("sync" if last else "backward"):
+            with r.log.phase("forward"):
"""),
    Mutant.diff("the update is not timed", {"optimizer"}, """
-    with r.log.phase("optimizer"):
+    with nullcontext():
"""),
    Mutant.diff("a save is not timed", {"checkpoint"}, """
-            with log.phase("checkpoint"): save(r, {**state, **about})
+            with nullcontext(): save(r, {**state, **about})
"""),
    Mutant.diff("seconds are never cleared", {"windows"}, """
-            log.seconds.clear()
"""),
    Mutant.diff("rank 0's phases stand for all", {"every rank"}, """
-            log.emit("step", **state, phases=dict(log.seconds))
+            log.emit("step", **state, phases=on_rank0(lambda: dict(log.seconds)))
"""),
    Mutant.diff("a GPU is never waited for", {"device"}, """
-        if self.gpu and self.timing: torch.cuda.synchronize()
"""),
    Mutant.diff("a GPU is waited for in every step", {"device"}, """
-        if self.gpu and self.timing: torch.cuda.synchronize()
+        if self.gpu: torch.cuda.synchronize()
"""),
    Mutant.diff(
        "the loader draws from the model's generator", {"still bitwise"}, """
-        data, batch_size=None, sampler=mine, num_workers=cfg.num_workers,
-        generator=torch.Generator()))
+        data, batch_size=None, sampler=mine, num_workers=cfg.num_workers))
"""),
    Mutant.diff("a scaler that is there switches autocast", {"precision"}, """
-            amp = torch.autocast(r.device.type, dtype, dtype is not None)
+            amp = torch.autocast(r.device.type, torch.bfloat16, r.scaler is not None)
"""),
)
