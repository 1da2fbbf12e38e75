"""Drill 1's wrong answers: the solution with a mistake."""

from lockstep.grading.mutants import Mutant

MUTANTS = (
    Mutant.diff("a setting changes during the run", {"config"}, """
-@dataclass(frozen=True)
+@dataclass
"""),
    Mutant.diff("labels are random", {"toy data"}, """
-    y = (x @ torch.randn(32, 4, generator=rng)).argmax(1)
+    y = torch.randint(4, (n + held_out,), generator=rng)
"""),
    Mutant.diff("held-out samples are trained on", {"toy data"}, """
-    return TensorDataset(torch.arange(n), x[:n], y[:n]), (x[n:], y[n:])
+    return TensorDataset(torch.arange(n), x[:n], y[:n]), (x[:held_out], y[:held_out])
"""),
    Mutant.diff("each epoch has one order", {"sampler"}, """
-            order = np.random.default_rng([cfg.seed, epoch]).permutation(n)
+            order = np.random.default_rng(cfg.seed).permutation(n)
"""),
    Mutant.diff("the seed comes after the layers", {"model"}, """
-    torch.manual_seed(cfg.seed)
"""),
    Mutant.diff("the first rate is zero", {"learning rate"}, """
-    warm = min(1.0, (step + 1) / (cfg.warmup_steps + 1))
+    warm = min(1.0, step / (cfg.warmup_steps + 1))
"""),
    Mutant.diff("gradients are kept", {"loop"}, """
-    r.optimizer.zero_grad()
"""),
    Mutant.diff("the rate is never set", {"loop"}, """
-        optimizer.param_groups[0]["lr"] = rate = learning_rate(cfg, step)
+        rate = learning_rate(cfg, step)
"""),
    Mutant.diff("the log waits in a buffer", {"metrics"}, """
-        self.events = (run_dir / "events" / "log.jsonl").open("a", 1)
+        self.events = (run_dir / "events" / "log.jsonl").open("a")
"""),
    Mutant.diff("a position counts steps", {"metrics"}, """
-        log.emit("step", step=step, position=step * batch, loss=loss,
+        log.emit("step", step=step, position=step, loss=loss,
"""),
    Mutant.diff("dropout is on in evaluation", {"evaluation"}, """
-        answers = r.model.eval()(x).argmax(1)
+        answers = r.model(x).argmax(1)
"""),
    Mutant.diff("an epoch's last batch is short", {"full batches"}, """
-    for at in range(0, cfg.max_steps * batch, batch):
-        epochs, index = np.divmod(np.arange(at, at + batch), n)
+    for step in range(cfg.max_steps):
+        epoch, at = divmod(step, -(-n // batch))
+        index = np.arange(at * batch, min(n, at * batch + batch))
+        epochs = np.full_like(index, epoch)
"""),
)
