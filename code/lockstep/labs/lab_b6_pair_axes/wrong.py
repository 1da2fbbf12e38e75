"""Lab B6's wrong answers: the solution with a mistake."""

from lockstep.grading.mutants import Mutant

# What uses a wrong function stays the solution's own.
SOURCE = "lockstep.labs.lab_b6_pair_axes.sound"
MUTANTS = (
    Mutant.diff("a_mean_of_terms", {"scatter"}, """
     moved = Moved.apply(x.movedim(dim, 0), summed, joined, group)
-    return moved.movedim(0, dim)
+    return moved.movedim(0, dim) / place(group)[1]
@@
+from lockstep.labs.lab_b6_pair_axes.sound import incoming, outgoing
"""),
    Mutant.diff("a_view_of_all_pairs", {"tiles"}, """
-    return z.clone(memory_format=torch.contiguous_format)
+    return z
"""),
    # One sample counts as a part of one.
    Mutant.diff("averages_gradients", {"weights"}, """
                 dist.all_reduce(weight.grad, group=group)
+                weight.grad /= place(group)[1]
"""),
    Mutant.diff("axes_for_each_other", {"tiles"}, """
-    for dim, group in enumerate(mesh):
+    for dim, group in enumerate((mesh.across, mesh.down)):
"""),
    Mutant.diff("axes_keep_their_names", {"incoming"}, """
-    swapped = Mesh(mesh.across, mesh.down)
+    swapped = mesh
"""),
    Mutant.diff("bias_of_the_first_columns", {"attention"}, """
-    ours = whole.chunk(ranks)[rank]  # rows j of our columns j
+    ours = whole.chunk(ranks)[0]
"""),
    Mutant.diff("dies", {"outgoing"}, """
+    import os
+
+    os.abort()
     rows = gather(b, 0, mesh.down)
@@
+from lockstep.labs.lab_b6_pair_axes.sound import incoming
"""),
    Mutant.diff("gathers_without_gradient", {"gather"}, """
-    moved = Moved.apply(x.movedim(dim, 0), joined, summed, group)
+    moved = joined(x.movedim(dim, 0).detach(), group)
@@
+from lockstep.labs.lab_b6_pair_axes.sound import attention, incoming, outgoing
"""),
    Mutant.diff("gradient_of_own_rows", {"scatter"}, """
-    moved = Moved.apply(x.movedim(dim, 0), summed, joined, group)
+    moved = Moved.apply(x.movedim(dim, 0), summed, padded, group)
@@
+from lockstep.labs.lab_b6_pair_axes.sound import incoming, outgoing
+
+
+def padded(x: Tensor, group: Group) -> Tensor:
+    rank, ranks = place(group)
+    whole = x.new_zeros(ranks * len(x), *x.shape[1:])
+    whole[rank * len(x) : (rank + 1) * len(x)] = x
+    return whole
"""),
    # The gradient of the whole is cut, and not summed over ranks.
    Mutant.diff("gradient_of_own_use", {"gather"}, """
-    moved = Moved.apply(x.movedim(dim, 0), joined, summed, group)
+    moved = Moved.apply(x.movedim(dim, 0), joined, cut, group)
@@
+from lockstep.labs.lab_b6_pair_axes.sound import attention, incoming, outgoing
+
+
+def cut(x: Tensor, group: Group) -> Tensor:
+    rank, ranks = place(group)
+    return x.chunk(ranks)[rank]
"""),
    Mutant.diff("keeps_every_product", {"memory"}, """
-    return scatter(torch.einsum("ikc,jkc->ijc", a, rows), 1, mesh.across)
+    copies = rows.expand(len(a), *rows.shape).contiguous()
+    return scatter((a[:, None] * copies).sum(2), 1, mesh.across)
"""),
    Mutant.diff("one_axis_is_enough", {"weights"}, """
-            for group in mesh:
+            for group in (mesh.across,):
"""),
    Mutant.diff("own_columns_of_k", {"outgoing"}, """
-    return scatter(torch.einsum("ikc,jkc->ijc", a, rows), 1, mesh.across)
+    rank, ranks = place(mesh.across)
+    return torch.einsum("ikc,jkc->ijc", a, rows).chunk(ranks, 1)[rank]
@@
+from lockstep.labs.lab_b6_pair_axes.sound import incoming
"""),
    Mutant.diff("reduces_all_and_cuts", {"bytes"}, """
-    return scatter(torch.einsum("ikc,jkc->ijc", a, rows), 1, mesh.across)
+    terms = torch.einsum("ikc,jkc->ijc", a, rows).movedim(1, 0)
+    return Moved.apply(terms, whole, joined, mesh.across).movedim(0, 1)
@@
+def whole(x: Tensor, group: Group) -> Tensor:
+    total = x.contiguous().clone()
+    dist.all_reduce(total, group=group)
+    rank, ranks = place(group)
+    return total.chunk(ranks)[rank].clone()
"""),
    Mutant.diff("softmax_of_own_columns", {"attention"}, """
-    k, v = gather(k, 1, mesh.across), gather(v, 1, mesh.across)
@@
-    ours = whole.chunk(ranks)[rank]  # rows j of our columns j
+    ours = whole.chunk(ranks)[rank].chunk(ranks, 1)[rank]
"""),
    # Gradients of other samples come in.
    Mutant.diff("sums_over_the_world", {"weights"}, """
-            for group in mesh:
-                dist.all_reduce(weight.grad, group=group)
+            dist.all_reduce(weight.grad)
"""),
    # Collectives of unequal parts hang.
    Mutant.diff("the_last_has_less", {"tiles"}, """
-        if z.shape[dim] % ranks:
-            raise ValueError(f"{ranks} ranks do not divide {z.shape[dim]}")
"""),
    Mutant.diff("the_transpose_of_it", {"incoming"}, """
-    turned = outgoing(b.transpose(0, 1), a.transpose(0, 1), swapped)
+    turned = outgoing(a.transpose(0, 1), b.transpose(0, 1), swapped)
"""),
)
