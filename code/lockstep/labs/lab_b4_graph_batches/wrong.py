"""Lab B4's wrong answers: the solution with a mistake."""

from lockstep.grading.mutants import Mutant

SOURCE = "lockstep.labs.lab_b4_graph_batches.sound"
MUTANTS = (
    # Gradients are averaged in a group.
    Mutant.diff("atoms_of_all_groups", {"groups"}, """
+    group = None
     count = torch.tensor(len(errors), device=errors.device)
"""),
    # bfloat16 counts 302 of 301 atoms.
    Mutant.diff("counts_in_bfloat16", {"global mean"}, """
-    count = torch.tensor(len(errors), device=errors.device)
+    count = torch.tensor(len(errors), dtype=errors.dtype)
"""),
    # The last graph is missing if it has no atoms.
    Mutant.diff("counts_owners", {"readout"}, """
+    batch = batch._replace(counts=torch.bincount(batch.owner))
     empty = h.new_zeros(len(batch.counts), h.shape[1])
"""),
    Mutant.diff("dies", {"softmax"}, """
+    import os
+
+    os.abort()
     top = readout(scores[:, None], batch, "max")[batch.owner, 0]
"""),
    Mutant.diff("divides_by_no_atoms", {"readout"}, """
-        return total / batch.counts.clamp(min=1)[:, None]
+        return total / batch.counts[:, None]
"""),
    # Right after a ReLU; `softmax` stays sound.
    Mutant.diff("maximum_from_zero", {"readout"}, """
-        return empty.scatter_reduce(0, owner, h, "amax", include_self=False)
+        return empty.scatter_reduce(0, owner, h, "amax")
@@
+from lockstep.labs.lab_b4_graph_batches.sound import softmax
"""),
    # Every exponential of a graph far below the maximum is 0.
    Mutant.diff("maximum_of_the_batch", {"softmax"}, """
-    top = readout(scores[:, None], batch, "max")[batch.owner, 0]
+    top = scores.max()
"""),
    Mutant.diff("mean_of_means", {"global mean"}, """
+    return errors.float().mean() if errors.itemsize < 4 else errors.mean()
     count = torch.tensor(len(errors), device=errors.device)
"""),
    Mutant.diff("messages_back", {"messages"}, """
-    begin, end = batch.bonds
+    end, begin = batch.bonds
"""),
    # torch.cat refuses an empty list.
    Mutant.diff("no_graphs_no_batch", {"ragged graphs"}, """
-    atoms = [one.atoms for one in graphs] or [torch.empty(0, features)]
+    atoms = [one.atoms for one in graphs]
"""),
    Mutant.diff("no_offset", {"union"}, """
-    moved = [one.bonds + o for one, o in zip(graphs, offsets, strict=True)]
+    moved = [one.bonds for one in graphs]
"""),
    Mutant.diff("none_does_not_call", {"ranks without atoms"}, """
+    if not len(errors):
+        return errors.sum()
     count = torch.tensor(len(errors), device=errors.device)
""", seconds=5),
    # The loss is right, and the backward pass raises.
    Mutant.diff("none_is_a_constant", {"ranks without atoms"}, """
     dist.all_reduce(count, group=group)
+    if not len(errors):
+        return torch.zeros((), dtype=errors.dtype)
"""),
    # Drops the last atoms if they have no bond.
    Mutant.diff("offset_of_the_last_bond", {"ragged graphs"}, """
+    graphs = [
+        Graph(atoms[: int(bonds.max()) + 1] if bonds.numel() else atoms, bonds)
+        for atoms, bonds in graphs
+    ]
     counts = torch.tensor([len(one.atoms) for one in graphs]).long()
"""),
    # The first graph has nobody before it, in a batch and alone.
    Mutant.diff("one_company", {"company"}, """
-    off = ((here - alone).abs() > most) | ((here - back).abs() > most)
+    off = (here - alone).abs() > most
"""),
    # An index that occurs twice is written once.
    Mutant.diff("one_message_an_atom", {"messages"}, """
-    return torch.zeros_like(h).index_add(0, end, h[begin])
+    total = torch.zeros_like(h)
+    total[end] += h[begin]
+    return total
"""),
    # In large units, rounding is an error; in small units, errors are rounding.
    Mutant.diff("one_tolerance_for_all", {"company"}, """
-    most = 1e-4 * here.abs().max()
+    most = 1e-4
"""),
    Mutant.diff("order_for_its_inverse", {"renumbering"}, """
-    return Graph(graph.atoms[order], place[graph.bonds])
+    return Graph(graph.atoms[order], order[graph.bonds])
"""),
    # A batch norm ignores the order.
    Mutant.diff("reversed_alone", {"company"}, """
-    off = ((here - alone).abs() > most) | ((here - back).abs() > most)
+    off = (here - back).abs() > most
"""),
    Mutant.diff("softmax_of_the_batch", {"softmax"}, """
+    return scores.softmax(0)
     top = readout(scores[:, None], batch, "max")[batch.owner, 0]
"""),
    # The average over ranks divides once more.
    Mutant.diff("sum_of_gradients", {"global mean"}, """
-    return wide.sum() * dist.get_world_size(group) / count.clamp(min=1)
+    return wide.sum() / count.clamp(min=1)
"""),
    Mutant.diff("writes_the_offset", {"two epochs"}, """
-    moved = [one.bonds + o for one, o in zip(graphs, offsets, strict=True)]
+    moved = [one.bonds.add_(o) for one, o in zip(graphs, offsets, strict=True)]
"""),
)
