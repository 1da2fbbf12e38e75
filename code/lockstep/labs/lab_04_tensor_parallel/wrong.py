"""Lab 04's wrong answers: the solution with a mistake."""

from lockstep.grading.mutants import Mutant

# What uses a wrong layer stays the solution's own.
SOURCE = "lockstep.parallel.tensor_parallel"
MUTANTS = (
    # Rank 0 gets queries alone.
    Mutant.diff("a_fused_matrix_is_cut", {"attention"}, """
-        self.q, self.k, self.v = (
-            ColumnParallelLinear(full, group) for full in (q, k, v)
-        )
+        fused = nn.Linear(q.in_features, 3 * q.out_features)
+        for name in ("weight", "bias"):
+            whole = torch.cat([getattr(one, name) for one in (q, k, v)])
+            setattr(fused, name, nn.Parameter(whole.detach()))
+        self.qkv = ColumnParallelLinear(fused, group, sequence_parallel)
@@
-        x = enter(x, self.group, self.sequence_parallel)
         q, k, v = (
-            layer.product(x).unflatten(-1, (self.heads, -1)).transpose(-2, -3)
-            for layer in (self.q, self.k, self.v)
+            one.unflatten(-1, (self.heads, -1)).transpose(-2, -3)
+            for one in self.qkv(x).chunk(3, -1)
         )
"""),
    Mutant.diff("a_view_of_the_whole", {"shards"}, """
-    return nn.Parameter(mine.clone(memory_format=torch.contiguous_format))
+    return nn.Parameter(mine)
"""),
    # Rows first, columns last: right if the activation were linear.
    Mutant.diff("activation_of_partial_sums", {"MLP"}, """
-        self.up = ColumnParallelLinear(up, group, sequence_parallel)
-        self.down = RowParallelLinear(down, group, sequence_parallel)
+        self.up, self.down = RowParallelLinear(up, group), down
+        self.group, self.sequence_parallel = group, sequence_parallel
         self.activation = activation

     def forward(self, x: Tensor) -> Tensor:
-        return self.down(self.activation(self.up(x)))
+        rank, ranks = place(self.group)
+        x = enter(x, self.group, self.sequence_parallel)
+        mine = x.chunk(ranks, -1)[rank]
+        partial = F.linear(mine, self.up.weight, self.up.bias)
+        made = self.down(self.activation(partial)) / ranks
+        return leave(made, self.group, self.sequence_parallel)
"""),
    Mutant.diff("bias_before_the_sum", {"row layer"}, """
-        partial = F.linear(x, self.weight)
-        total = leave(partial, self.group, self.sequence_parallel)
-        if self.bias is None:
-            return total
+        partial = F.linear(x, self.weight, self.bias)
+        return leave(partial, self.group, self.sequence_parallel)
@@
+from lockstep.parallel.tensor_parallel import ParallelAttention, ParallelMLP
"""),
    Mutant.diff("bias_gradient_of_own_tokens", {"sequence parallel"}, """
-        if self.sequence_parallel:
-            # Added to 1/n of the tokens, so its gradient is a sum over ranks.
-            bias = enter(bias, self.group, sequence_parallel=False)
"""),
    Mutant.diff("dies", {"attention"}, """
+        import os
+
+        os.abort()
         # Once for three products: their gradients are summed on this rank
"""),
    Mutant.diff("exp_overflows", {"cross entropy"}, """
-    greatest = logits.detach().amax(-1)
-    dist.all_reduce(greatest, dist.ReduceOp.MAX, group)
-    shifted = logits - greatest.unsqueeze(-1)  # so that exp stays finite
+    shifted = logits
"""),
    Mutant.diff("gathers_the_hidden_layer", {"MLP"}, """
-        return self.down(self.activation(self.up(x)))
+        from torch.distributed.nn.functional import all_gather
+
+        rank, ranks = place(self.up.group)
+        whole = torch.cat(all_gather(self.up(x)), -1)
+        made = self.activation(whole).chunk(ranks, -1)[rank]
+        return self.down(made.contiguous())
"""),
    Mutant.diff("gathers_the_logits", {"cross entropy"}, """
+    from torch.distributed.nn.functional import all_gather
+
+    whole = torch.cat(all_gather(logits), -1)
+    loss = F.cross_entropy(whole.movedim(-1, 1), targets, reduction="none")
+    # Backward sums n equal gradients.
+    return loss.detach() + (loss - loss.detach()) / place(group)[1]
     logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
"""),
    Mutant.diff("gradient_of_own_outputs", {"column layer"}, """
+        if not self.sequence_parallel:
+            return self.product(x)
         return self.product(enter(x, self.group, self.sequence_parallel))
@@
+from lockstep.parallel.tensor_parallel import ParallelAttention, ParallelMLP
"""),
    # This all-reduce sums gradients, which each rank already has whole.
    Mutant.diff("gradients_are_summed_too", {"row layer"}, """
         total = leave(partial, self.group, self.sequence_parallel)
+        if not self.sequence_parallel:
+            from torch.distributed.nn.functional import all_reduce
+
+            total = all_reduce(partial, group=self.group)
@@
+from lockstep.parallel.tensor_parallel import ParallelAttention, ParallelMLP
"""),
    Mutant.diff("gradients_of_all_ranks", {"groups"}, """
+        if not self.sequence_parallel:
+            return self.product(enter(x, None, False))
         return self.product(enter(x, self.group, self.sequence_parallel))
"""),
    Mutant.diff("half_a_head", {"shards"}, """
-        self.heads = share(heads, "heads", place(group)[1])
+        self.heads = heads // place(group)[1]
"""),
    # A rank without a target skips the reduction that the others wait for.
    Mutant.diff("only_who_has_a_target", {"cross entropy"}, """
+    size = logits.shape[-1]
+    own = targets - place(group)[0] * size
+    if not ((own >= 0) & (own < size)).any():
+        return 0 * logits.sum(-1)
     logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
""", seconds=10),
    Mutant.diff("padding_has_a_loss", {"cross entropy"}, """
-    return (total.log() - target).masked_fill(targets == IGNORED, 0)
+    return total.log() - target
"""),
    Mutant.diff("reduces_all_and_cuts", {"sequence parallel"}, """
-    parts = [one.contiguous() for one in x.split(tokens, -2)]
-    total = torch.empty_like(parts[0])
-    dist.reduce_scatter(total, parts, group=group)
-    return total
+    return summed(x, group).split(tokens, -2)[place(group)[0]]
"""),
    # Backward all-reduces three times.
    Mutant.diff("three_blocks_begin", {"attention"}, """
-        x = enter(x, self.group, self.sequence_parallel)
         q, k, v = (
-            layer.product(x).unflatten(-1, (self.heads, -1)).transpose(-2, -3)
+            layer(x).unflatten(-1, (self.heads, -1)).transpose(-2, -3)
             for layer in (self.q, self.k, self.v)
         )
"""),
)
