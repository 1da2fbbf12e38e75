"""Lab 02's wrong answers: the solution with a mistake."""

from lockstep.grading.mutants import Mutant

SOURCE = "lockstep.parallel.data_parallel"
MUTANTS = (
    # What arrives while an all-reduce is under way is overwritten.
    Mutant.diff("a_pass_is_lost", {"accumulation"}, """
-                late = param.grad  # of a second backward pass, since `start`
-                param.grad = mean if late is None else mean.add_(late)
+                param.grad = mean
"""),
    Mutant.diff("all_at_the_end", {"overlap"}, """
     def _arrived(self, param: Tensor) -> None:
+        return  # leave everything to `wait_for_gradients`
"""),
    # Ranks that use different layers average one layer with another.
    Mutant.diff("as_soon_as_full", {"unused"}, """
-        while self.waiting and not self.waiting[0].missing:
-            self.waiting.popleft().start()
+        if not bucket.missing:
+            self.waiting.remove(bucket)
+            bucket.start()
"""),
    Mutant.diff("first_layers_first", {"overlap"}, """
         self.buckets = fill(reversed(params), bucket_mb * MIB)
+        self.buckets.reverse()
"""),
    Mutant.diff("forgets_buffers", {"equal start"}, """
-        for tensor in (*module.parameters(), *module.buffers()):
+        for tensor in module.parameters():
"""),
    # Zeros travel, and some buckets never fill.
    Mutant.diff("frozen_too", {"shared and frozen"}, """
-        params = [p for p in module.parameters() if p.requires_grad]
+        params = list(module.parameters())
@@
         for param in params:
-            param.register_post_accumulate_grad_hook(self._arrived)
+            if param.requires_grad:
+                param.register_post_accumulate_grad_hook(self._arrived)
"""),
    Mutant.diff("one_for_all", {"buckets", "overlap"}, """
-        self.buckets = fill(reversed(params), bucket_mb * MIB)
+        self.buckets = fill(reversed(params), float("inf"))
"""),
    Mutant.diff("one_for_each_parameter", {"buckets"}, """
-        self.buckets = fill(reversed(params), bucket_mb * MIB)
+        self.buckets = fill(reversed(params), 0)
"""),
    Mutant.diff(
        "only_the_first_step", {"mean of gradients", "accumulation"}, """
+        if self.silent:
+            return
+        self.silent = True
         for bucket in self.waiting:
"""),
    Mutant.diff("only_users_get_it", {"unused"}, """
-            if here or anywhere:  # reads a flag, for which the CPU waits, last
+            if here:
"""),
    Mutant.diff("parameters_too", {"bytes"}, '''
         """Return what `module` returns."""
+        for param in self.module.parameters():
+            dist.broadcast(param.detach(), src=0)
'''),
    Mutant.diff("raises_where_one_is_missing", {"unused"}, """
+        if any(bucket.missing for bucket in self.buckets):
+            raise RuntimeError("a parameter got no gradient")
         for bucket in self.waiting:
"""),
    Mutant.diff("sends_within_no_sync", {"accumulation"}, """
-        before, self.silent = self.silent, True
+        before = self.silent
"""),
    Mutant.diff("shared_twice", {"shared and frozen"}, """
-        self.buckets = fill(reversed(params), bucket_mb * MIB)
+        named = module.named_parameters(remove_duplicate=False)
+        trained = [param for _, param in named if param.requires_grad]
+        self.buckets = fill(reversed(trained), bucket_mb * MIB)
"""),
    Mutant.diff("takes_the_sum", {"mean of gradients"}, """
-        self.flat /= dist.get_world_size()
"""),
    # Torch fills its own buckets, and calls a hook for each.
    Mutant.diff("torchs_buckets", {"hooks and all_reduce"}, """
+from torch.nn.parallel import DistributedDataParallel
+
+
+def mean(_: None, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
+    flat = bucket.buffer().div_(dist.get_world_size())
+    work = dist.all_reduce(flat, async_op=True)
+    return work.get_future().then(lambda done: done.value()[0])
+
+
+class DataParallel(DistributedDataParallel):
+    def __init__(self, module: nn.Module, bucket_mb: float = 25.0) -> None:
+        given: dict[str, Any] = {"find_unused_parameters": True}
+        super().__init__(module, bucket_cap_mb=bucket_mb, **given)
+        self.register_comm_hook(None, mean)
+
+    def wait_for_gradients(self) -> None:
+        pass
"""),
    Mutant.diff("torchs_own", {"hooks and all_reduce"}, """
+from torch.nn.parallel import DistributedDataParallel
+
+
+class DataParallel(nn.Module):
+    def __init__(self, module: nn.Module, bucket_mb: float = 25.0) -> None:
+        super().__init__()
+        self.replica = DistributedDataParallel(
+            module, bucket_cap_mb=bucket_mb, find_unused_parameters=True
+        )
+        self.no_sync = self.replica.no_sync
+
+    def forward(self, *args: Any, **kwargs: Any) -> Any:
+        return self.replica(*args, **kwargs)
+
+    def wait_for_gradients(self) -> None:
+        pass
"""),
    Mutant.diff("waits_in_the_hook", {"overlap"}, """
-            self.waiting.popleft().start()
+            bucket = self.waiting.popleft()
+            bucket.start()
+            bucket.work.wait()
""", seconds=10),
    Mutant.diff("zeros_for_nobodys", {"unused"}, """
-            if here or anywhere:  # reads a flag, for which the CPU waits, last
+            if True:
"""),
)
