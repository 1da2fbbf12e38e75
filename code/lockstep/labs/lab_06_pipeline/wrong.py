"""Lab 06's wrong answers: the solution with a mistake."""

from lockstep.grading.mutants import Mutant

SOURCE = "lockstep.parallel.pipeline"
MUTANTS = (
    # With several chunks, activations and gradients go the same way.
    Mutant.diff("all_in_one_queue", {"any schedule"}, """
             for channel in product("FB", (0, 1))
         }
+        self.channels = dict.fromkeys(self.channels, self.channels["F", 0])
"""),
    Mutant.diff("all_warm_up_alike", {"bubble"}, """
-        warm_up=stages - 1 - stage,
+        warm_up=stages - 1,
"""),
    Mutant.diff("backwards_take_the_first_chunk_first", {"interleaved"}, """
-    backwards = [Action("B", m, chunks - 1 - chunk) for m, chunk in every]
+    backwards = [Action("B", m, chunk) for m, chunk in every]
"""),
    Mutant.diff("chunk_after_chunk", {"in flight"}, """
-    every.sort(key=lambda one: (one[0] // stages, one[1]))
+    every.sort(key=lambda one: one[1])
@@
-        warm_up=(chunks - 1) * stages + 2 * (stages - 1 - stage),
+        warm_up=len(every),
"""),
    Mutant.diff("dies", {"gpipe"}, """
-        warm_up=micro_batches,
+        warm_up=__import__("os").abort(),
"""),
    # The pipeline drains and fills again after every `stages` micro-batches.
    Mutant.diff("each_round_ends", {"bubble"}, """
+    if micro_batches > stages:
+        one_round = interleaved_schedule(stage, stages, stages, chunks)
+        return [
+            Action(kind, begin + number, chunk)
+            for begin in range(0, micro_batches, stages)
+            for kind, number, chunk in one_round
+        ]
     every = list(product(range(micro_batches), range(chunks)))
"""),
    Mutant.diff("keeps_the_graph", {"freed"}, """
-                x, y = saved.pop((micro_batch, chunk))
-                y.backward(None if last else self.receive("B", self.stage + 1))
+                x, y = saved[micro_batch, chunk]
+                gradient = None if last else self.receive("B", self.stage + 1)
+                y.backward(gradient, retain_graph=True)
"""),
    Mutant.diff("last_stage_goes_back_at_once", {"gpipe"}, """
-        warm_up=micro_batches,
+        warm_up=micro_batches if stage < stages - 1 else 0,
"""),
    # Stage 0 waits for a gradient, and the others wait for stage 0.
    Mutant.diff("later_stages_run_ahead", {"1f1b"}, """
-        warm_up=stages - 1 - stage,
+        warm_up=stage,
"""),
    Mutant.diff("no_warm_up", {"bubble"}, """
-        warm_up=stages - 1 - stage,
+        warm_up=0,
"""),
    # The bubble is the same.
    Mutant.diff("one_f_one_b_is_gpipe", {"in flight"}, """
-        warm_up=stages - 1 - stage,
+        warm_up=micro_batches,
"""),
    Mutant.diff("ranks_are_stages", {"any schedule"}, """
-        work = dist.isend(tensor, group=channel, group_dst=to % self.stages)
+        work = dist.isend(tensor, to % self.stages, group=channel)
"""),
    # GPipe runs; in 1F1B two neighbors send at once.
    Mutant.diff("sends_and_waits", {"any schedule"}, """
-        work = dist.isend(tensor, group=channel, group_dst=to % self.stages)
-        self.under_way.append((work, tensor))
+        dist.send(tensor, group=channel, group_dst=to % self.stages)
""", seconds=10),
    Mutant.diff("stages_are_fewer_than_micro_batches", {"1f1b"}, """
-        in_order("F", micro_batches),
+        in_order("F", max(micro_batches, stages - 1 - stage)),
         in_order("B", micro_batches),
         warm_up=stages - 1 - stage,
"""),
    Mutant.diff("starts_anew", {"gradients"}, """
+        for part in self.parts:
+            part.zero_grad()
         losses: dict[int, Tensor] = {}
"""),
    Mutant.diff("takes_the_mean", {"gradients"}, """
                     losses[micro_batch] = y.detach()
+                    y = y / len(targets)
"""),
    Mutant.diff("travels_in_double", {"bytes"}, """
-        tensor = tensor.detach().contiguous()
+        tensor = tensor.detach().contiguous().double()
@@
-        tensor = torch.empty_like(self.boundary)
+        tensor = torch.empty_like(self.boundary).double()
@@
         dist.recv(tensor, group=channel, group_src=source)
-        return tensor
+        return tensor.to(self.boundary.dtype)
"""),
)
