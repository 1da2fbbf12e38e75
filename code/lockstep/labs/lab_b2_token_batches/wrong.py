"""Lab B2's wrong answers: the solution with a mistake."""

from lockstep.grading.mutants import Mutant

SOURCE = "lockstep.labs.lab_b2_token_batches.sound"
MUTANTS = (
    Mutant.diff("all_get_all", {"other worlds"}, """
-    return step[rank::world]
+    return step
"""),
    # Each batch is as wide as one long sample.
    Mutant.diff("as_they_come", {"padding"}, """
-    near = lengths * rng.uniform(0.9, 1, len(lengths))
+    near = rng.uniform(0.9, 1, len(lengths))
"""),
    # Each rank can read the count in the plan.
    Mutant.diff("asks_the_others", {"loss"}, """
     own = torch.as_tensor(lengths[batch])
+    torch.distributed.all_reduce(own.sum())
"""),
    Mutant.diff("begins_at_the_beginning", {"far"}, """
+    made = epoch = 0
+    while True:
+        for step in plan(lengths, budget, parts, seed, epoch):
+            made += 1
+            if made > position:
+                yield step, made
+        epoch += 1
     epoch, done = divmod(position, len(lengths) + 1)
"""),
    Mutant.diff("counts_real_tokens", {"budget"}, """
-        longest = max(longest, int(lengths[one]))  # a batch's, padded to it
-        if batches and longest * (len(batches[-1]) + 1) <= budget:
+        longest += int(lengths[one])
+        if batches and longest <= budget:
"""),
    Mutant.diff("drops_the_rest", {"once"}, """
+    if len(batches) >= parts and max(map(len, batches)) > 1:
+        return batches
     while len(batches) % parts:
@@
-    return [mixed[i : i + parts] for i in range(0, len(mixed), parts)]
+    whole = len(mixed) // parts * parts
+    return [mixed[i : i + parts] for i in range(0, whole, parts)]
"""),
    Mutant.diff("each_rank_its_own", {"alike"}, """
-    rng = np.random.default_rng([seed, epoch])  # nobody else's generator
+    rank = torch.distributed.get_rank()
+    rng = np.random.default_rng([seed, epoch, rank])
"""),
    # The mean of an empty batch is 0 / 0.
    Mutant.diff("empty_batches_fill_up", {"whole steps"}, """
+    if len(batches) >= parts and max(map(len, batches)) > 1:
+        return [*batches, *([] for _ in range(-len(batches) % parts))]
     while len(batches) % parts:
"""),
    # As a sampler without `set_epoch` does it.
    Mutant.diff("forgets_the_epoch", {"epochs"}, """
-    rng = np.random.default_rng([seed, epoch])  # nobody else's generator
+    rng = np.random.default_rng([seed, 0])
"""),
    Mutant.diff("last_step_is_short", {"whole steps"}, """
+    if len(batches) >= parts and max(map(len, batches)) > 1:
+        return batches
     while len(batches) % parts:
"""),
    Mutant.diff("leaves_long_ones_out", {"refused"}, """
-    check(lengths, budget)
@@
-    batches = even(cut(np.argsort(-near).tolist(), lengths, budget), parts)
+    fit = [i for i in np.argsort(-near).tolist() if 0 < lengths[i] <= budget]
+    batches = even(cut(fit, lengths, budget), parts)
"""),
    Mutant.diff("long_ones_get_through", {"refused"}, """
-    check(lengths, budget)
"""),
    # Each epoch ends with the short batches.
    Mutant.diff("longest_first", {"epochs"}, """
-    mixed = [batches[i] for i in rng.permutation(len(batches))]
+    mixed = sorted(batches, key=lambda one: -max(lengths[one]))
"""),
    Mutant.diff("mean_of_own_tokens", {"loss"}, """
-    return losses.where(real, 0).sum() * (world / tokens)
+    return losses.where(real, 0).sum() / real.sum() * world / len(step)
"""),
    # Some batches are pairs, to make steps whole.
    Mutant.diff("one_at_a_time", {"padding", "epochs"}, """
     batches = even(cut(np.argsort(-near).tolist(), lengths, budget), parts)
+    ids = np.argsort(near).tolist()
+    paired = 2 * (len(ids) % parts)
+    if paired <= len(ids) >= parts:
+        batches = [ids[i : i + 2] for i in range(0, paired, 2)]
+        batches += [[i] for i in ids[paired:]]
"""),
    Mutant.diff("padding_counts", {"loss"}, """
-    tokens = sum(int(lengths[one].sum()) for one in step)  # of all ranks
+    tokens = sum(len(one) * int(lengths[one].max()) for one in step)
"""),
    # NaN times 0 is NaN.
    Mutant.diff("padding_is_multiplied", {"loss"}, """
-    return losses.where(real, 0).sum() * (world / tokens)
+    return (losses * real).sum() * (world / tokens)
"""),
    # A resume repeats a step.
    Mutant.diff("position_before_the_step", {"resume"}, """
-            yield step, here[0] * (len(lengths) + 1) + here[1]
+            yield step, epoch * (len(lengths) + 1) + made - 1
"""),
    # A resume is in the first epoch.
    Mutant.diff("position_of_the_epoch", {"resume"}, """
-            yield step, here[0] * (len(lengths) + 1) + here[1]
+            yield step, here[1]
"""),
    # As DistributedSampler does it.
    Mutant.diff("repeats_the_first", {"once"}, """
+    if len(batches) >= parts and max(map(len, batches)) > 1:
+        return batches + batches[: -len(batches) % parts]
     while len(batches) % parts:
"""),
    # Other users of the generator repeat their numbers in each epoch.
    Mutant.diff("shuffles_with_the_global_generator", {"alike"}, """
-    rng = np.random.default_rng([seed, epoch])  # nobody else's generator
+    rng = np.random
+    rng.seed([seed, epoch])
"""),
    Mutant.diff("some_ranks_get_more", {"other worlds"}, """
-    if len(step) % world:
-        raise ValueError(f"{world} ranks do not divide {len(step)} batches")
"""),
)
