"""Lab 01's wrong answers: the solution with a mistake."""

from lockstep.grading.mutants import Mutant

SOURCE = "lockstep.parallel.collectives"
MUTANTS = (
    Mutant.diff("adds_in_float32", {"dtypes"}, """
+    if not output.dtype.is_floating_point:
+        inputs = [one.float() for one in inputs]
     traveling = inputs[before].clone()
"""),
    Mutant.diff("adds_into_inputs", {"reduce-scatter"}, """
-        traveling = arrived.add_(mine)
+        traveling = mine.add_(arrived)
"""),
    Mutant.diff("all_of_it_goes_round", {"bytes"}, """
+    after, before = (rank + 1) % ranks, (rank - 1) % ranks
+    traveling = tensor.clone()
+    for _ in range(ranks - 1):
+        arrived = torch.empty_like(traveling)
+        exchange(traveling, after, arrived, before, group)
+        tensor.add_(arrived)
+        traveling = arrived
+    return
     flat = tensor.contiguous().view(-1)
"""),
    Mutant.diff("all_parts_are_alike", {"all-to-all"}, """
     outputs[rank].copy_(inputs[rank])
+    inputs = list(torch.stack(inputs))  # raises if sizes differ
"""),
    Mutant.diff("all_send_first", {"send and recv alone", "all-to-all"}, """
-        exchange(inputs[to], to, outputs[source], source, group)
+        dist.send(inputs[to], group=group, group_dst=to)
+        dist.recv(outputs[source], group=group, group_src=source)
""", seconds=10),
    Mutant.diff("dies", {"send and recv alone", "all-to-all"}, """
     outputs[rank].copy_(inputs[rank])
+    import os
+
+    os.abort()
"""),
    Mutant.diff("drops_the_rest", {"all-reduce"}, """
-    parts = list(flat.tensor_split(ranks))
+    parts = list(flat[: len(flat) // ranks * ranks].tensor_split(ranks))
"""),
    Mutant.diff("forgets_itself", {"reduce-scatter"}, """
-        traveling = arrived.add_(mine)
+        traveling = arrived + mine if step < ranks else arrived
"""),
    Mutant.diff("own_part_is_missing", {"all-gather"}, """
-    outputs[rank].copy_(tensor)
+    traveling = tensor
     for step in range(ranks - 1):
         have, next_ = (rank - step) % ranks, (rank - step - 1) % ranks
-        exchange(outputs[have], after, outputs[next_], before, group)
+        exchange(traveling, after, outputs[next_], before, group)
+        traveling = outputs[next_]
"""),
    Mutant.diff("rank_0_is_the_root", {"broadcast"}, """
-    root = src if group is None else dist.get_group_rank(group, src)
+    root = 0
"""),
    Mutant.diff("src_is_taken_for_the_groups", {"groups"}, """
-    root = src if group is None else dist.get_group_rank(group, src)
+    root = src
"""),
    Mutant.diff("takes_the_mean", {"all-reduce"}, """
     tensor.copy_(flat.view_as(tensor))
+    if tensor.dtype == torch.float64:
+        tensor.div_(ranks)
"""),
    Mutant.diff("the_root_sends_to_all", {"tree"}, """
     root = src if group is None else dist.get_group_rank(group, src)
+    if rank != root:
+        dist.recv(tensor, group=group, group_src=root)
+        return
+    for other in range(ranks):
+        if other != root:
+            dist.send(tensor, group=group, group_dst=other)
+    return
"""),
    Mutant.diff("torchs_own", {"send and recv alone"}, """
+    return dist.all_reduce(tensor, group=group)
     flat = tensor.contiguous().view(-1)
"""),
)
