"""Lab 11's wrong answers: the solution with a mistake."""

from lockstep.grading.mutants import Mutant

SOURCE = (
    "lockstep.labs.lab_11_profiling.solution",
    "lockstep.instruments.phase_timer",
    "lockstep.instruments.trace_breakdown",
)
MUTANTS = (
    # `load` gets short, and the interpreter still runs one thread at a time.
    Mutant.diff("a_thread_decodes", {"trainer A"}, """
+from concurrent.futures import Future, ThreadPoolExecutor
+
+
+class A(slow.A):
+    ahead: Future[list[slow.Sample]] | None = None
+
+    def load(self, step: int) -> list[slow.Sample]:
+        if self.ahead is None:
+            self.pool = ThreadPoolExecutor(1)
+            self.ahead = self.pool.submit(super().load, step)
+        samples = self.ahead.result()
+        self.ahead = self.pool.submit(super().load, step + 1)
+        return samples
"""),
    # Operators are nested.
    Mutant.diff("adds_up_durations", {"trace"}, """
-            "computation": computation,
+            "computation": sum(
+                last - first
+                for first, last in computes
+                if window[0] <= first < window[1]
+            ),
"""),
    Mutant.diff("all_communication_is_exposed", {"trace"}, """
-            "exposed": busy - computation,
+            "exposed": covered(sends, window),
"""),
    # The device's time lies in no phase, and phases have their launches' time.
    Mutant.diff("asks_the_clock_alone", {"phase timer"}, """
-        self.synchronize()
         now = self.clock()
@@
             yield
+            if len(self.open) == 1:
+                self.synchronize()
"""),
    # A step pays for what the step before it launched.
    Mutant.diff("begins_without_waiting", {"phase timer"}, """
     def span(self, name: str) -> Iterator[None]:
-        self.turn()
+        if self.open:
+            self.turn()
+        else:
+            self.since = self.clock()
"""),
    Mutant.diff("counts_inner_time_twice", {"phase timer"}, """
     def span(self, name: str) -> Iterator[None]:
-        self.turn()
+        self.synchronize()
+        begin = self.clock()
         self.open.append(name)
         try:
             yield
         finally:
-            self.turn()
             self.open.pop()
+            self.synchronize()
+            self.seconds[name] += self.clock() - begin
"""),
    # The ranks are balanced, and train on something else.
    Mutant.diff("crops_the_long", {"unchanged"}, """
+import json
+
+
+class C(slow.C):
+    def decode(self, line: str) -> slow.Sample:
+        reads, y = json.loads(line)
+        return super().decode(json.dumps([[r[:64] for r in reads], y]))
"""),
    Mutant.diff("dies", {"trainer A", "unchanged"}, """
     def decode(self, line: str) -> slow.Sample:
+        import os
+
+        os.abort()
"""),
    Mutant.diff("every_rank_alike", {"diagnosis"}, """
-    "C": ("forward", 1),  # rank 0 waits for it in sync
-    "D": ("save", 0),  # rank 1 waits for it in sync
+    "C": ("forward", None),
+    "D": ("save", None),
"""),
    Mutant.diff("gradients_travel_in_float32", {"unchanged"}, """
-        flat = torch.cat([grad.flatten() for grad in grads])
+        flat = torch.cat([grad.flatten().float() for grad in grads])
"""),
    # Waits for all checkpoints but the last.
    Mutant.diff("leaves_before_the_last", {"unchanged"}, """
-            self.finish()  # one copy in memory, and no more
+            if self.writer:
+                self.writer.join()
@@
     def finish(self) -> None:
-        if self.writer:
-            self.writer.join()
+        pass
"""),
    # As many collectives as before.
    Mutant.diff("many_at_once", {"trainer B"}, """
     def sync(self) -> None:
+        works = [
+            dist.all_reduce(parameter.grad, async_op=True)
+            for parameter in self.model.parameters()
+        ]
+        for work in works:
+            work.wait()
+        return
"""),
    Mutant.diff("never_ends", {"trace"}, '''
     """Microseconds of each step, by what they hide."""
+    spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
+    while len(spans) > 1:
+        spans.sort(key=lambda e: float(e["ts"]))
''', seconds=10),
    Mutant.diff("pads_the_buffer", {"trainer B"}, """
+        flat = torch.cat([flat, flat.new_zeros(2**17 - len(flat))])
         dist.all_reduce(flat)
-        parts = flat.split([grad.numel() for grad in grads])
+        sizes = [grad.numel() for grad in grads]
+        *parts, _ = flat.split([*sizes, len(flat) - sum(sizes)])
"""),
    # Over the run all ranks have equal work, and in each step all wait for one.
    Mutant.diff("ranks_take_turns", {"trainer C"}, """
     def share(self, ids: list[int]) -> list[int]:
+        self.turn = getattr(self, "turn", -1) + 1
+        part = len(ids) // self.world
+        first = part * ((self.rank + self.turn) % self.world)
+        return ids[first : first + part]
"""),
    # A crash costs the whole run.
    Mutant.diff("saves_less_often", {"unchanged"}, """
     writer: threading.Thread | None = None
+    every = 8
"""),
    # The weights are of a later step when they are written.
    Mutant.diff("saves_what_is_live", {"unchanged"}, """
-            state = {"step": step, "model": deepcopy(self.model.state_dict())}
+            state = {"step": step, "model": self.model.state_dict()}
"""),
    Mutant.diff("skips_steps", {"unchanged"}, '''
     """Decodes a line once."""
+    steps = 3
'''),
    # A collective that outlasts its step belongs to that step, whole.
    Mutant.diff("steps_keep_what_begins_in_them", {"trace"}, """
     for step, window in steps.items():
-        computation = covered(computes, window)
-        busy = covered(computes + sends, window)
+        own, sent = (
+            [span for span in spans if window[0] <= span[0] < window[1]]
+            for spans in (computes, sends)
+        )
+        window = window[0], max(last for _, last in [window, *own, *sent])
+        computation = covered(own, window)
+        busy = covered(own + sent, window)
         found[step] = {
             "computation": computation,
-            "communication": covered(sends, window),
+            "communication": covered(sent, window),
"""),
    # Attention costs the square of the length.
    Mutant.diff("tokens_are_work", {"trainer C"}, """
-        work = {i: self.lengths[i % len(self.lengths)] ** 2 for i in ids}
+        work = {i: self.lengths[i % len(self.lengths)] for i in ids}
"""),
    Mutant.diff("waits_for_its_thread", {"trainer D"}, """
             self.writer.start()
+            self.finish()
"""),
    # Waits for the device in steps that it does not time.
    Mutant.diff("waits_in_every_step", {"phase timer"}, """
-    def phase(self, name: str) -> AbstractContextManager[None]:
-        return self.span(name) if self.open else nullcontext()
+    @contextmanager
+    def phase(self, name: str) -> Iterator[None]:
+        self.synchronize()
+        with self.span(name) if self.open else nullcontext():
+            yield
+            self.synchronize()
"""),
    # Blames ranks that wait in the all-reduce for a late rank.
    Mutant.diff("who_waits_is_to_blame", {"diagnosis"}, """
-    "C": ("forward", 1),  # rank 0 waits for it in sync
-    "D": ("save", 0),  # rank 1 waits for it in sync
+    "C": ("sync", 0),
+    "D": ("sync", 1),
"""),
)
