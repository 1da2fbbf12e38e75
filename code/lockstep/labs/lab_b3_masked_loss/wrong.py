"""Lab B3's wrong answers: the solution with a mistake."""

from lockstep.grading.mutants import Mutant

SOURCE = "lockstep.labs.lab_b3_masked_loss.sound"
MUTANTS = (
    # float16 ends at 65,504.
    Mutant.diff("adds_up_in_float16", {"16 bits"}, """
-    wide = torch.promote_types(predicted.dtype, torch.float32)
+    wide = predicted.dtype
"""),
    Mutant.diff("asks_every_head", {"accumulation"}, """
-            predicted = model(x, in_use(values))
+            predicted = model(x, range(4))
"""),
    Mutant.diff("counts_cells", {"loss"}, """
-        count = everywhere(measured.sum())  # with labels or without
+        count = everywhere(torch.tensor(values.numel()))
"""),
    # Right where micro-batches have equally many labels.
    Mutant.diff("counts_each_micro_batch", {"accumulation"}, """
+    if len(batches) > 1:
+        parts = [step(model, [one], weights) for one in batches]
+        for parameter in model.parameters():
+            if parameter.grad is not None:
+                parameter.grad /= len(parts)
+        return sum(parts) / len(parts)
     own = sum((~values.isnan()).sum() for _, values in batches)
"""),
    # bfloat16 has no 259.
    Mutant.diff("counts_in_the_models_dtype", {"16 bits"}, """
-        count = everywhere(measured.sum())  # with labels or without
+        count = everywhere(measured.sum()).to(predicted.dtype)
"""),
    Mutant.diff("dies", {"accumulation"}, """
+    import os
+
+    os.abort()
     own = sum((~values.isnan()).sum() for _, values in batches)
"""),
    # A batch of rare tasks counts less than it should.
    Mutant.diff("divides_by_the_weights", {"by task"}, """
-        count = everywhere(measured.sum())  # with labels or without
+        counted = measured if weights is None else measured * weights
+        count = everywhere(counted.sum())
"""),
    Mutant.diff("forgets_the_world", {"loss", "16 bits"}, """
-    share = dist.get_world_size() / count.clamp(min=1)  # DDP divides by ranks
+    share = 1 / count.clamp(min=1)
"""),
    # DDP decides in the forward pass whether it sends.
    Mutant.diff("forward_outside_no_sync", {"sent once"}, """
-        # Forward too: it decides whether DDP's hooks will send.
+        predicted = model(x, in_use(values))
         with model.no_sync() if left else nullcontext():
-            predicted = model(x, in_use(values))
"""),
    Mutant.diff("gathers_the_cells", {"bytes"}, """
-        count = everywhere(measured.sum())  # with labels or without
+        masks = [None] * dist.get_world_size()
+        dist.all_gather_object(masks, measured)
+        count = sum(one.sum() for one in masks)
"""),
    # The value is right, and the gradient is 0 times NaN.
    Mutant.diff("gradient_of_a_nan", {"loss", "empty ranks"}, """
-    errors = (own - values.to(wide).where(measured, own.detach())) ** 2
+    errors = ((own - values.to(wide)) ** 2).where(measured, 0.0)
"""),
    Mutant.diff("heads_of_the_first_step", {"heads"}, """
-    return DistributedDataParallel(model, find_unused_parameters=True)
+    return DistributedDataParallel(model, static_graph=True)
"""),
    Mutant.diff("infinite_weights", {"rare tasks"}, """
-    if not counts.all():  # on all ranks or on none, so all of them raise
-        empty = (counts == 0).nonzero().flatten().tolist()
-        raise ValueError(f"no label on any rank in column {empty}")
"""),
    # Right for all rows at once: in a batch, one label is worth a full column.
    Mutant.diff("means_of_the_batch", {"by task"}, """
+    if weights is not None and count is None:
+        counts = everywhere(measured.sum(0)).clamp(min=1)
+        errors = (predicted - values.where(measured, predicted.detach())) ** 2
+        return (errors.sum(0) / counts).mean() * dist.get_world_size()
     if count is None:
"""),
    # NaN times 0 is NaN.
    Mutant.diff("multiplies_by_the_mask", {"loss", "empty ranks"}, """
-    errors = (own - values.to(wide).where(measured, own.detach())) ** 2
+    errors = (own - values.to(wide)) ** 2 * measured
"""),
    Mutant.diff("nothing_by_nothing", {"empty ranks"}, """
-    share = dist.get_world_size() / count.clamp(min=1)  # DDP divides by ranks
+    share = dist.get_world_size() / count
"""),
    # The other ranks wait for this rank's count.
    Mutant.diff("only_who_has_labels_counts", {"empty ranks"}, """
+    if values.isnan().all():
+        return 0 * predicted.sum()
     measured = ~values.isnan()
""", seconds=10),
    Mutant.diff("own_mean", {"loss"}, """
-        count = everywhere(measured.sum())  # with labels or without
+        count = measured.sum() * dist.get_world_size()
"""),
    # Waits for gradients that no backward pass computes.
    Mutant.diff("plain_ddp", {"heads", "idle heads"}, """
-    return DistributedDataParallel(model, find_unused_parameters=True)
+    return DistributedDataParallel(model)
"""),
    Mutant.diff("raises_alone", {"rare tasks"}, """
+    if values.isnan().all(0).any():
+        raise ValueError(f"no label in {values.isnan().all(0).tolist()}")
     counts = everywhere((~values.isnan()).sum(0))
"""),
    # If the last micro-batch is skipped, its rank sends no gradients.
    Mutant.diff("skips_what_has_no_labels", {"accumulation"}, """
+        if values.isnan().all():
+            continue
         # Forward too: it decides whether DDP's hooks will send.
""", seconds=10),
    Mutant.diff("tells_its_own_loss", {"accumulation"}, """
-    return float(everywhere(total) / dist.get_world_size())
+    return float(total)
"""),
    # AdamW decays a head that nobody used.
    Mutant.diff("touches_every_head", {"idle heads"}, """
-    return DistributedDataParallel(model, find_unused_parameters=True)
+    return DistributedDataParallel(Touched(model))
@@
+class Touched(nn.Module):
+    def __init__(self, model: nn.Module) -> None:
+        super().__init__()
+        self.model = model
+
+    def forward(self, x: Tensor, used: Sequence[int]) -> Tensor:
+        zero = 0 * torch.stack([p.sum() for p in self.parameters()]).sum()
+        return self.model(x, used) + zero
"""),
    Mutant.diff("weights_of_the_shard", {"by task", "rare tasks"}, """
+    counts = (~values.isnan()).sum(0).clamp(min=1).double()
     weights = counts.sum() / (len(counts) * counts)
"""),
    # Has no backward pass; `step` stays sound.
    Mutant.diff("zero_without_a_graph", {"empty ranks"}, """
+    if values.isnan().all():
+        return torch.zeros(())
     return errors.sum() * share.to(wide)
@@
+from lockstep.labs.lab_b3_masked_loss.sound import step
"""),
)
