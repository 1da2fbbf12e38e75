"""Lab 03's wrong answers: the solution with a mistake."""

from lockstep.grading.mutants import Mutant

SOURCE = "lockstep.parallel.sharding"
MUTANTS = (
    Mutant.diff("adds_in_bfloat16", {"low precision"}, """
-        gradient = gradient.to(part.dtype)
-        mine = torch.empty_like(part)
+        mine = gradient.new_empty(len(part))
@@
-            mine /= dist.get_world_size()
+            mine = mine.to(part.dtype) / dist.get_world_size()
"""),
    Mutant.diff("all_reduces", {"bytes"}, """
-        work = reduce_scatter(mine, gradient, async_op=True)
+        work = dist.all_reduce(gradient, async_op=True)
@@
-            work, part, mine, _ = self.under_way
+            work, part, _, gradient = self.under_way
             self.under_way = ()
             work.wait()
-            mine /= dist.get_world_size()
+            mine = part_of(gradient) / dist.get_world_size()
"""),
    # The first rank gets the three large tensors.
    Mutant.diff("counts_tensors", {"optimizer state"}, """
-        for flat in self.flats:
-            all_gather(flat, part_of(flat))
+        for group in self.param_groups:
+            params = group["params"]
+            for number, param in enumerate(params):
+                owner = number * dist.get_world_size() // len(params)
+                dist.broadcast(param.detach(), owner)
@@
-    each = len(part_of(flat))
-    low = dist.get_rank() * each
-    for shape in shapes:
-        size = shape.numel()
-        yield slice(*(min(max(end, 0), size) for end in (low, low + each)))
-        low -= size
+    for number, shape in enumerate(shapes):
+        owner = number * dist.get_world_size() // len(shapes)
+        yield slice(shape.numel() if owner == dist.get_rank() else 0)
"""),
    Mutant.diff("dies", {"full parameters"}, """
+        import os
+
+        os.abort()
         return {
             name: view
"""),
    Mutant.diff("everybody_keeps_all", {"optimizer state"}, """
-        for flat in self.flats:
-            all_gather(flat, part_of(flat))
@@
-        yield slice(*(min(max(end, 0), size) for end in (low, low + each)))
+        yield slice(size)
"""),
    Mutant.diff("forgets_what_was_there", {"training"}, """
-            part.grad = mine if part.grad is None else part.grad.add_(mine)
+            part.grad = mine
"""),
    Mutant.diff("frees_nothing", {"memory"}, """
-    whole.untyped_storage().resize_(0)
"""),
    Mutant.diff("keeps_a_copy", {"memory"}, """
         self.module, self.low_precision = module, low_precision
+        self.copies = [param.detach().clone() for param in module.parameters()]
"""),
    Mutant.diff("names_of_the_wrapper", {"full parameters"}, """
-            name: view
+            f"module.{name}": view
"""),
    Mutant.diff("nobody_gathers", {"step"}, """
-        for flat in self.flats:
-            all_gather(flat, part_of(flat))
"""),
    # AdamW decays parameters that have not been used.
    Mutant.diff("none_is_zero", {"step"}, """
         for param, share, part in self.parts:
+            if param.grad is None:
+                param.grad = torch.zeros_like(param)
"""),
    Mutant.diff("rank_0_asks_alone", {"full parameters"}, """
+        if dist.get_rank() > 0:
+            dist.barrier()
+            return {}
         return {
             name: view
""", seconds=10),
    Mutant.diff("reduces_at_the_end", {"memory"}, """
         self.under_way: tuple[Any, ...] = ()
+        self.later: list[tuple[nn.Parameter, Tensor]] = []
@@
     def reduce(self, part: nn.Parameter, gradient: Tensor) -> None:
+        self.later.append((part, gradient))
+
+    def reduce_now(self, part: nn.Parameter, gradient: Tensor) -> None:
@@
+        later, self.later = self.later, []
+        for one in later:
+            self.reduce_now(*one)
         if self.under_way:
"""),
    Mutant.diff("rounds_after_the_gather", {"low precision"}, """
-        all_gather(into, mine)
+        whole = into.float()
+        all_gather(whole, mine.float())
+        into.copy_(whole)
"""),
    # A scheduler's learning rate does not reach this rank's optimizer.
    Mutant.diff("settings_of_then", {"groups"}, """
-        inner = self.with_settings()
+        inner = self.inner
"""),
    Mutant.diff("starts_as_it_is", {"training", "full parameters"}, """
-        for buffer in module.buffers():
-            dist.broadcast(buffer, 0)
@@
-        dist.broadcast(flat := flattened(held.values()), 0)
+        flat = flattened(held.values())
"""),
    Mutant.diff("sums_gradients", {"training"}, """
-            mine /= dist.get_world_size()
"""),
    # FSDP2 cuts matrices by rows: one row on three ranks travels as three.
    Mutant.diff("torchs_own_module", {"collectives alone", "low precision"}, """
+from torch.distributed.device_mesh import init_device_mesh
+from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
+
+
+class ShardedDataParallel(nn.Module):
+    def __init__(
+        self, module: nn.Module, low_precision: torch.dtype | None = None
+    ) -> None:
+        super().__init__()
+        units = [part for part, _ in holders(module)]
+        for param in module.parameters():
+            dist.broadcast(param.detach(), 0)
+        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
+        low = MixedPrecisionPolicy(low_precision, torch.float32)
+        for unit in dict.fromkeys([*reversed(units), module]):
+            fully_shard(unit, mesh=mesh, mp_policy=low)
+        self.module = module
+
+    def forward(self, *args: Any, **kwargs: Any) -> Any:
+        return self.module(*args, **kwargs)
+
+    def wait_for_gradients(self) -> None:
+        pass
+
+    def full_parameters(self) -> dict[str, Tensor]:
+        named: Any = self.module.named_parameters()
+        return {name: param.full_tensor() for name, param in named}
"""),
    Mutant.diff("torchs_own_optimizer", {"collectives alone"}, """
+from torch.distributed.optim import ZeroRedundancyOptimizer
+
+
+class ShardedOptimizer(ZeroRedundancyOptimizer):
+    def __init__(self, params: Any, optimizer_cls: Any, **kwargs: Any) -> None:
+        super().__init__(params, optimizer_cls, **kwargs)
"""),
    Mutant.diff("trains_what_is_frozen", {"frozen and shared"}, """
-        trained = all(param.requires_grad for param in held.values())
+        trained = True
"""),
)
