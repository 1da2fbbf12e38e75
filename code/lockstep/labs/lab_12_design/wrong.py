"""Lab 12's wrong answers: the solution with a mistake."""

from lockstep.grading.mutants import Mutant

SOURCE = "lockstep.labs.lab_12_design.solution"
MUTANTS = (
    # Changes the task.
    Mutant.diff("a_better_gpu", {"layout"}, """
         "context": "ring",
+        "efficiency": 1.0,
"""),
    # The next node shares its power supply.
    Mutant.diff("a_peer_in_the_rack", {"peers"}, """
-        "distance": 4,
+        "distance": 1,
"""),
    # Matmuls reach this MFU, and a step does not.
    Mutant.diff("all_of_the_peak", {"alternatives"}, """
-        "mfu": work() / (64 * 989e12) / seconds(),
+        "mfu": 0.6,
"""),
    Mutant.diff("as_many_spares_as_failures", {"spares"}, """
-        "nodes": 6,
+        "nodes": 2,
"""),
    # After the average, all replicas have the same wrong weights.
    Mutant.diff("compares_weights", {"corruption"}, """
-        "compares": "gradients before the average",
+        "compares": "weights after the step",
"""),
    # Context ranks sum gradients too.
    Mutant.diff("data_without_context", {"placement"}, """
-            "ranks": range(0, 64, 8),  # context's ranks among them
+            "ranks": [0, 32],
"""),
    Mutant.diff("dies", {"spares"}, '''
     """Two are in repair on average; six are enough in 99 of 100 cases."""
+    import os
+
+    os.abort()
'''),
    # These are the failures of the larger job.
    Mutant.diff("failures_of_one_gpu", {"failures"}, """
-        "a_day": 86400 / MTBF,
+        "a_day": 419 / 54,
"""),
    # Enough at 8,192 tokens.
    Mutant.diff("fsdp_alone", {"layout"}, """
-        "tp": TP,
-        "cp": CP,
+        "tp": 1,
+        "cp": 1,
         "pp": 1,
-        "dp": DP,
-        "zero_stage": 2,
+        "dp": 64,
+        "zero_stage": 3,
         "micro_batch": 1,
-        "recompute": "none",
-        "sequence_parallel": True,
+        "recompute": "full",
+        "sequence_parallel": False,
"""),
    # ZeRO-2 that sums micro-batches first holds all gradients.
    Mutant.diff("gradients_once_a_step", {"bytes"}, """
-            "each": "micro-batch",
-            "sent": data_bytes(),
+            "each": "step",
+            "sent": PARAMS / TP * 7 / 8 * 4,
"""),
    Mutant.diff("half_an_all_reduce", {"bytes"}, """
-            "sent": tensor_bytes(),
+            "sent": tensor_bytes() / 2,
"""),
    # All checkpoints are newer than the last clean check.
    Mutant.diff("nothing_to_go_back_to", {"corruption"}, """
-        "keep_seconds": 2 * EVERY,
+        "keep_seconds": 3600,
"""),
    # A save overwrites the only copy.
    Mutant.diff("one_generation", {"peers"}, """
-        "generations": 2,
-        "bytes_per_node": 8 * SHARE * 2 * 2,
+        "generations": 1,
+        "bytes_per_node": 8 * SHARE * 2,
"""),
    Mutant.diff("preflight_at_each_restart", {"goodput"}, """
-            "preflight": 0,  # a spare was checked when it came
+            "preflight": 300,
"""),
    # Recomputing makes room, and the steps get slower.
    Mutant.diff("recomputes_everything", {"alternatives"}, """
-        "recompute": "none",
+        "recompute": "full",
@@
-        "total_bytes": memory(),
-        "step_seconds": seconds(),
-        "mfu": work() / (64 * 989e12) / seconds(),
+        "total_bytes": planned("total_bytes"),
+        "step_seconds": planned("step_seconds"),
+        "mfu": planned("mfu"),
@@
-            "saved": kept(1, CP) - kept(TP, CP),
+            "saved": saved(tp=1, dp=16, sequence_parallel=0),
@@
-            "saved": kept(TP, 1) - kept(TP, CP),
+            "saved": saved(cp=1, dp=8),
@@
+from lockstep.planner.questions import ask
+
+TASK = {"preset": "llama3-70b", "gpus": 64}
+TASK |= {"sequence": TOKENS, "global_batch": SEQUENCES}
+
+
+def planned(what: str, **changed: int) -> float:
+    return float(ask("run", TASK | layout() | changed)[what])
+
+
+def saved(**changed: int) -> float:
+    what = "activations_bytes"
+    return planned(what, **changed) - planned(what)
"""),
    # A search of 4,096 GPUs in a day is possible.
    Mutant.diff("refuses_what_can_be_met", {"premise"}, """
-    return {"refused": "goodput", "possible": exp(-(60 + 150 + 90) / MTBF)}
+    return {"refused": "corruption", "possible": exp(-(60 + 150 + 90) / MTBF)}
"""),
    # The limit is not a number of its own: it is what the task asks for.
    Mutant.diff("refuses_without_a_number", {"premise"}, """
-    return {"refused": "goodput", "possible": exp(-(60 + 150 + 90) / MTBF)}
+    return {"refused": "goodput", "possible": 0.995}
"""),
    # FSDP runs out of memory: it isn't too slow.
    Mutant.diff("rejected_by_name", {"alternatives"}, """
-        {"layout": alone, "because": "memory", "number": overflow},
+        {"layout": alone, "because": "time", "number": 60},
"""),
    # Leaves out saves and replayed work.
    Mutant.diff("restarts_alone", {"goodput"}, """
-    return 1 - saves - replayed - restart / MTBF - STEP / EVERY
+    return 1 - restart / MTBF - STEP / EVERY
"""),
    Mutant.diff("saved_each_hour", {"failures"}, """
-        "interval_seconds": sqrt(2 * 2 * MTBF),
+        "interval_seconds": 3600,
"""),
    Mutant.diff("searches_for_ever", {"premise"}, '''
     """Restarts alone take more than half a percent."""
+    while True:
+        pass
''', seconds=10),
    Mutant.diff("tensor_hides", {"reasons"}, """
-            "hides": "nothing",
+            "hides": "computing",
@@
-            "risk": exposed(NVLINK / 2) - exposed(NVLINK),
+            "risk": 0,
"""),
    Mutant.diff("tensor_ranks_far_apart", {"placement"}, """
-            "ranks": range(8),
-            "link": "NVLink",
+            "ranks": range(0, 64, 8),
+            "link": "InfiniBand",
"""),
    # The slice is smaller, but ZeRO had divided it by as many ranks.
    Mutant.diff("tensor_saves_the_optimizer", {"reasons"}, """
-            "saves": "activations",
-            "saved": kept(1, CP) - kept(TP, CP),
+            "saves": "optimizer",
+            "saved": 12 * PARAMS * 7 / 64,
"""),
    Mutant.diff("thirty_two_gpus", {"layout"}, """
-        "dp": DP,
+        "dp": 1,
"""),
    # Ends a healthy job.
    Mutant.diff("time_out_of_ten_seconds", {"failures"}, """
-            "detect": 60,
+            "detect": 10,
"""),
)
