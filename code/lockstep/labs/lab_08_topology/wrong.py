"""Lab 08's wrong answers: the solution with a mistake."""

from lockstep.grading.mutants import Mutant

SOURCE = "lockstep.parallel.topology"
MUTANTS = (
    Mutant.diff("all_of_it_leaves", {"bytes"}, """
-    reduce_scatter(part, whole, group=inner)
-    dist.all_reduce(part, group=outer)
-    all_gather(whole, part, group=inner)
+    dist.all_reduce(whole, group=inner)
+    dist.all_reduce(whole, group=outer)
"""),
    Mutant.diff("always_tensors_innermost", {"mesh order"}, """
+    return tuple(name for name in ("pp", "dp", "cp", "tp") if name in axes)
     return min(
         permutations(axes),
"""),
    # Two messages share the link.
    Mutant.diff("both_ways_at_once", {"ping-pong"}, """
-            if rank == 0:
-                dist.send(ball, group=group, group_dst=1)
-                dist.recv(ball, group=group, group_src=1)
-            else:
-                dist.recv(ball, group=group, group_src=0)
-                dist.send(ball, group=group, group_dst=0)
+            there = dist.isend(ball, group=group, group_dst=1 - rank)
+            into = torch.empty_like(ball)
+            dist.recv(into, group=group, group_src=1 - rank)
+            there.wait()
"""),
    Mutant.diff("dies", {"hierarchical"}, """
+    import os
+
+    os.abort()
     each = dist.get_world_size(inner)
"""),
    Mutant.diff("drops_the_rest", {"hierarchical"}, """
     each = dist.get_world_size(inner)
+    if rest := tensor.numel() % each:
+        flat = tensor.reshape(-1)
+        if flat.numel() > rest:
+            hierarchical_all_reduce(flat[:-rest], inner, outer)
+        tensor.copy_(flat.view_as(tensor))
+        return
"""),
    # Ranks with different times may choose different algorithms.
    Mutant.diff("each_has_its_own_times", {"ping-pong"}, """
-    dist.broadcast(took, group=group, group_src=0)
"""),
    Mutant.diff("every_hop_is_the_slowest", {"predict"}, """
-    latency = 2 * (hops_inside * inner.alpha + hops_outside * outer.alpha)
+    slowest = outer.alpha if nodes > 1 else inner.alpha
+    latency = 2 * (hops_inside + hops_outside) * slowest
"""),
    Mutant.diff("first_is_innermost", {"mesh order"}, """
-        key=lambda order: crossing(order, axes, ranks_per_node),
+        key=lambda order: crossing(order[::-1], axes, ranks_per_node),
"""),
    # The largest messages have the largest errors in seconds.
    Mutant.diff("large_messages_decide", {"fit"}, """
-    rows = [[1 / t, nbytes / t] for nbytes, t in took.items()]
-    (alpha, beta), *_ = np.linalg.lstsq(rows, np.ones(len(rows)))
+    rows = [[1, nbytes] for nbytes in took]
+    (alpha, beta), *_ = np.linalg.lstsq(rows, list(took.values()))
"""),
    # A group larger than a node pushes all others out of their nodes.
    Mutant.diff("most_bytes_innermost", {"mesh order"}, """
+    return tuple(sorted(axes, key=lambda name: axes[name].sent))
     return min(
         permutations(axes),
"""),
    Mutant.diff("nanoseconds_for_seconds", {"measured"}, """
-    clock: Callable[[], float] = now,
+    clock: Callable[[], float] = time.perf_counter_ns,
"""),
    Mutant.diff("nobody_serves", {"ping-pong"}, """
             if rank == 0:
-                dist.send(ball, group=group, group_dst=1)
                 dist.recv(ball, group=group, group_src=1)
+                dist.send(ball, group=group, group_dst=1)
""", seconds=10),
    # The large phases cross the network, the small one stays in the node.
    Mutant.diff("nodes_first", {"bytes"}, """
+    inner, outer = outer, inner
     each = dist.get_world_size(inner)
"""),
    Mutant.diff("nodes_mean_hierarchical", {"choose"}, """
-    return min(ALGORITHMS, key=lambda one: predict(one, nbytes, cluster))
+    return "hierarchical" if cluster.nodes > 1 else "ring"
"""),
    Mutant.diff("one_card_for_the_node", {"predict"}, """
-    pace = max(inner.beta, outer.beta / each) if nodes > 1 else inner.beta
+    pace = max(inner.beta, outer.beta) if nodes > 1 else inner.beta
"""),
    Mutant.diff("one_size_for_all_clusters", {"choose"}, """
-    return min(ALGORITHMS, key=lambda one: predict(one, nbytes, cluster))
+    return "tree" if nbytes < 1e6 else "ring"
"""),
    # All other axes go outside, though most of their groups would fit.
    Mutant.diff("only_what_divides_a_node", {"mesh order"}, """
-    return min(
+    order = min(
         permutations(axes),
         key=lambda order: crossing(order, axes, ranks_per_node),
     )
+    fits = [n for n in order if ranks_per_node % axes[n].degree == 0]
+    return (*(n for n in order if n not in fits), *fits)
"""),
    # Cold messages and a busy processor count.
    Mutant.diff("takes_the_mean", {"fit"}, """
-    took = {nbytes: median(each) for nbytes, each in times.items()}
+    took = {nbytes: sum(each) / len(each) for nbytes, each in times.items()}
"""),
    Mutant.diff("there_and_back", {"ping-pong"}, """
-            took[turn, i] = (clock() - began) / 2
+            took[turn, i] = clock() - began
"""),
    Mutant.diff("times_the_launch", {"ping-pong"}, """
             if rank == 0:
-                dist.send(ball, group=group, group_dst=1)
-                dist.recv(ball, group=group, group_src=1)
+                into = torch.empty_like(ball)
+                there = dist.isend(ball, group=group, group_dst=1)
+                back = dist.irecv(into, group=group, group_src=1)
@@
             took[turn, i] = (clock() - began) / 2
+            if rank == 0:
+                there.wait()
+                back.wait()
"""),
    # In place only if `reshape` returns a view.
    Mutant.diff("whatever_is_contiguous", {"hierarchical"}, """
-    tensor.copy_(whole[: tensor.numel()].view_as(tensor))
+    tensor.reshape(-1).copy_(whole[: tensor.numel()])
"""),
)
