"""Drill 2's wrong answers: the solution with a mistake."""

from lockstep.grading.mutants import Mutant

MUTANTS = (
    Mutant.diff("the device is of the global rank", {"device"}, """
-    local = int(os.environ["LOCAL_RANK"])  # on this node; the rank is global
+    local = int(os.environ["RANK"])  # on this node; the rank is global
"""),
    Mutant.diff("ranks are padded to equal shares of an epoch", {"sampler"}, """
-        epochs, index = np.divmod(np.arange(at, at + batch), n)
+        padded = -(-n // batch) * batch
+        epochs, index = np.divmod(np.arange(at, at + batch), padded)
+        index %= n
"""),
    Mutant.diff("each rank draws its own order", {"sampler"}, """
-            order = np.random.default_rng([cfg.seed, epoch]).permutation(n)
+            order = np.random.default_rng([cfg.seed, epoch, rank]).permutation(n)
"""),
    Mutant.diff("nobody averages", {"gradients"}, """
-        with nullcontext() if last else r.ddp.no_sync():
+        with r.ddp.no_sync():
"""),
    Mutant.diff("a sum is divided by the world size twice", {"gradients"}, """
-            (loss * r.world / batch).backward()
+            (loss / batch).backward()
"""),
    Mutant.diff("the loss is one shard's", {"metrics"}, """
-        dist.all_reduce(total)
-        loss = total.item() / batch
+        loss = total.item() / (batch // world)
"""),
    Mutant.diff("the accuracy is a mean of the ranks' means", {"metrics"}, """
-    return right.item() / len(y)
+    dist.all_reduce(mean := (answers == y[mine]).double().mean())
+    return mean.item() / r.world
"""),
    Mutant.diff("the record has the last micro-batch", {"record"}, """
-    return total, torch.cat(ids)
+    return total, ids[-1]
"""),
    Mutant.diff("every rank prints", {"quiet ranks"}, """
-    if last["rank"] == 0: print(json.dumps(last), flush=True)
+    print(json.dumps(last), flush=True)
"""),
    Mutant.diff("the checkpoint has DDP's names", {"checkpoint"}, """
-        parts={"model": model, "optimizer": optimizer})
+        parts={"model": nn.ModuleDict({"module": model}), "optimizer": optimizer})
"""),
    Mutant.diff(
        "a save begins under its final name", {"whole or not there"}, """
-        torch.save({"state": state, **parts}, tmp / f"rank-{r.rank}.pt")
-        tmp.rename(final)
+        torch.save({"state": state, **parts}, tmp.rename(final) / f"rank-{r.rank}.pt")
"""),
    Mutant.diff("every micro-batch reduces", {"accumulation"}, """
-        with nullcontext() if last else r.ddp.no_sync():
+        with nullcontext():
"""),
)
