"""Lab 10's wrong answers: the solution with a mistake."""

from lockstep.grading.mutants import Mutant

SOURCE = "lockstep.parallel.resume"
MUTANTS = (
    # A flipped bit is loaded.
    Mutant.diff("compares_sizes", {"fall-back"}, """
         wrong = together(partial(damage, root / name))
+        wrong = ["" if "as published" in why else why for why in wrong]
"""),
    # A resume repeats the last batch.
    Mutant.diff("counts_after_yield", {"loader"}, """
-                self.position += len(batch)  # now: after `yield` is too late
                 yield batch
+                self.position += len(batch)
"""),
    # A resume skips the batches that were fetched ahead.
    Mutant.diff("counts_what_is_fetched", {"prefetch"}, """
         positions = np.arange(at, min(at + self.batch_size, end))
+        self.fetched = int(positions[-1]) + 1
@@
-        return {"position": self.position, **order}
+        fetched = getattr(self, "fetched", self.position)
+        at = fetched if self.prefetch else self.position
+        return {"position": at, **order}
"""),
    Mutant.diff("each_takes_its_newest", {"agreement"}, """
-    seen = together(lambda: [folder.name for folder in root.glob(NAMES)])
+    seen = [[folder.name for folder in root.glob(NAMES)]]
     for name in sorted(set().union(*seen), reverse=True):
-        wrong = together(partial(damage, root / name))
+        wrong = [damage(root / name)]
"""),
    # The second epoch raises.
    Mutant.diff("ends_with_the_epoch", {"sampler"}, """
-    return GlobalOrder(n, seed)(mine).tolist()
+    return np.random.default_rng(seed).permutation(n)[mine].tolist()
"""),
    Mutant.diff("forgets_the_epoch", {"loader"}, """
-        return {"position": self.position, **order}
+        return {"position": self.position % len(self.dataset), **order}
"""),
    # Damaged checkpoints count, so the last whole one is removed.
    Mutant.diff("keeps_by_name", {"retention"}, """
-    whole = 0
-    for folder in sorted(root.glob(NAMES), reverse=True):
-        if whole == keep:
-            shutil.rmtree(root / "tmp", ignore_errors=True)
-            shutil.rmtree(folder.rename(root / "tmp"))  # never half of a name
-        elif not damage(folder):
-            whole += 1
+    for folder in sorted(root.glob(NAMES), reverse=True)[keep:]:
+        shutil.rmtree(folder)
"""),
    Mutant.diff("makes_room_first", {"killed"}, """
     tmp, final = root / "tmp", root / f"step-{step:08d}"
+    if dist.get_rank() == 0:
+        for folder in root.glob(NAMES):
+            shutil.rmtree(folder)
"""),
    # As DistributedSampler does it: some samples are dealt out twice.
    Mutant.diff("pads", {"sampler"}, """
+    count = -(-count // world) * world
     mine = np.arange(position + rank, position + count, world)
"""),
    # Another rank may not have the checkpoint.
    Mutant.diff("rank_0_decides", {"agreement"}, """
-    seen = together(lambda: [folder.name for folder in root.glob(NAMES)])
+    seen = together(lambda: [folder.name for folder in root.glob(NAMES)])[:1]
     for name in sorted(set().union(*seen), reverse=True):
-        wrong = together(partial(damage, root / name))
+        wrong = together(partial(damage, root / name))[:1]
"""),
    Mutant.diff("renames_first", {"publish"}, """
-    write_bytes(tmp / MANIFEST, json.dumps(manifest).encode())
@@
     tmp.rename(final)
+    write_bytes(final / MANIFEST, json.dumps(manifest).encode())
+    sync(final)
"""),
    Mutant.diff("runs_what_it_loads", {"safe load"}, """
-    return torch.load(folder / f"{name}.pt", "cpu", weights_only=True)
+    return torch.load(folder / f"{name}.pt", "cpu", weights_only=False)
"""),
    # The order depends on the number of ranks.
    Mutant.diff("shuffles_each_share", {"sampler"}, """
-    mine = np.arange(position + rank, position + count, world)
-    return GlobalOrder(n, seed)(mine).tolist()
+    mine = np.arange(rank, n, world)
+    order = mine[GlobalOrder(len(mine), seed)(np.arange(3 * len(mine)))]
+    return order[position // world : (position + count) // world].tolist()
"""),
    Mutant.diff("syncs_before_it_flushes", {"publish"}, """
-        out.flush()  # from Python's buffer to the kernel's
"""),
    # After a power cut, the files may have no names.
    Mutant.diff("syncs_no_names", {"publish"}, '''
     """Wait until the names in a directory are on the disk."""
+    return
'''),
    Mutant.diff("takes_any_state", {"loader"}, """
-        if state != {**self.state_dict(), "position": state["position"]}:
-            raise ValueError(f"{state} is of another order")
"""),
    Mutant.diff("trips_over_leftovers", {"killed"}, """
-    shutil.rmtree(folder, ignore_errors=True)
"""),
    # `latest` names half a checkpoint.
    Mutant.diff("trusts_latest", {"fall-back"}, """
+    if (root / "latest").exists():
+        return root / (root / "latest").read_text()
     seen = together(lambda: [folder.name for folder in root.glob(NAMES)])
"""),
    Mutant.diff("waits_for_the_failed", {"one rank's error"}, """
-    mine: tuple[Any, str]
-    try:
-        mine = act(), ""
-    except Exception as error:
-        mine = None, f"{type(error).__name__}: {error}"
+    mine = act(), ""
""", seconds=10),
)
