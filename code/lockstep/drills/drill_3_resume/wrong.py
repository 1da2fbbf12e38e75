"""Drill 3's wrong answers: the solution with a mistake."""

from lockstep.grading.mutants import Mutant

MUTANTS = (
    Mutant.diff("the optimizer begins anew", {"state"}, """
-        part.load_state_dict(saved[name])
+        if name == "model": part.load_state_dict(saved[name])
"""),
    Mutant.diff("the data begin anew", {"position"}, """
-    mine = sampler(cfg, rank, world, n, step * batch)
+    mine = sampler(cfg, rank, world, n, 0)
"""),
    Mutant.diff("random states are not saved", {"bitwise"}, """
-        torch.set_rng_state(own["rng"][0])
"""),
    Mutant.diff("DDP regroups its buckets", {"bitwise"}, """
-    ddp.eval()(torch.zeros(1, 32, device=device)).sum().backward()
"""),
    Mutant.diff("each rank picks its latest", {"one decision"}, """
-    path = on_rank0(lambda: max(saves, default=None))
+    path = max(saves, default=None)
"""),
    Mutant.diff("ranks write under the final name", {"all have written"}, """
-    torch.save({"state": state, "rng": rng, **parts}, tmp / f"rank-{r.rank}.pt")
-    os.sync()  # the sample record must reach the disk, too
+    torch.save({"state": state, "rng": rng, **parts}, final.mkdir(exist_ok=True) or final / f"rank-{r.rank}.pt")
     dist.barrier()
-    on_rank0(lambda: tmp.rename(final) and os.sync())
"""),
    Mutant.diff("what was saved is never compared", {"another config"}, """
-    for name, was in state["config"].items():
+    for name, was in ():
"""),
    Mutant.diff("the identity has all settings", {"another config"}, """
-        return {k: v for k, v in asdict(self).items() if k not in OF_A_LAUNCH}
+        return {k: v for k, v in asdict(self).items() if k not in ("run_dir", "stop_at_step")}
"""),
    Mutant.diff("a launch is not numbered", {"logs"}, """
-    attempt = on_rank0(lambda: len([*cfg.run_dir.glob("events/*-rank-0.*")]))
+    attempt = on_rank0(lambda: 0)
"""),
    Mutant.diff("every rank must find its own file", {"another world size"}, """
-    if state["world_size"] == r.world:
+    if state["world_size"] != r.world: sys.exit("other world size")
+    if True:
"""),
)
