"""Lab B1's wrong answers: the solution with a mistake."""

from lockstep.grading.mutants import Mutant

SOURCE = "lockstep.labs.lab_b1_split.sound"
MUTANTS = (
    Mutant.diff("acyclic_ones_train", {"acyclic"}, """
-    return assign(groups, seed, shares, pinned)
+    found = assign(groups, seed, shares, pinned)
+    return [
+        part if scaffold else next(iter(shares))
+        for part, scaffold in zip(found, scaffolds, strict=True)
+    ]
"""),
    Mutant.diff("as_many_as_the_fewest", {"neighbors"}, """
-    dist.all_reduce(rows, dist.ReduceOp.MAX)
+    dist.all_reduce(rows, dist.ReduceOp.MIN)
+    train = train[: int(rows)]
"""),
    # One rank raises alone.
    Mutant.diff("counts_its_own_rows", {"large groups"}, """
-    counts: Counter[str] = sum(everyone(Counter(groups)), Counter())
-    most = min(shares.values()) * counts.total()
+    counts = Counter(groups)
+    most = 2 * min(shares.values()) * counts.total() + 100
""", seconds=10),
    # One more group, and other groups change sides.
    Mutant.diff("cuts_a_shuffled_list", {"added data"}, """
-    return assign(groups, seed, shares, pinned)
+    import random
+
+    assign(groups, seed, shares, pinned)  # raises if a group is too large
+    names = sorted({one for of in everyone({*groups}) for one in of})
+    random.Random(seed).shuffle(names)
+    sides, end = dict(pinned), 0.0
+    for part, share in shares.items():
+        begin, end = end, end + share
+        for name in names[round(begin * len(names)) : round(end * len(names))]:
+            sides.setdefault(name, part)
+    return [sides[one] for one in groups]
"""),
    # The answer depends on the questions before it; `split` stays sound.
    Mutant.diff("draws_as_asked", {"stable"}, """
-    end, at = 0.0, fraction(group, seed)
+    draw = DRAWS.setdefault(seed, random.Random(seed))
+    end, at = 0.0, draw.random()
@@
+import random
+
+from lockstep.labs.lab_b1_split.sound import split
+
+DRAWS: dict[int, random.Random] = {}
"""),
    # The last groups are small, so the test set has single molecules alone.
    Mutant.diff("fills_up_from_the_largest", {"added data", "acyclic"}, """
-    return assign(groups, seed, shares, pinned)
+    assign(groups, seed, shares, pinned)  # raises if a group is too large
+    counts: Counter[str] = sum(everyone(Counter(groups)), Counter())
+    sides, had = dict(pinned), 0
+    for name, count in sorted(
+        counts.items(), key=lambda one: (-one[1], one[0])
+    ):
+        at, end = had / counts.total(), 0.0
+        for part, share in shares.items():
+            end += share
+            if at < end:
+                break
+        sides.setdefault(name, part)
+        had += count
+    return [sides[one] for one in groups]
"""),
    Mutant.diff("forgets_the_seed", {"shares"}, """
-    digest = blake2b(group.encode(), digest_size=8, key=key).digest()
+    digest = blake2b(group.encode(), digest_size=8).digest()
"""),
    # Right where ranks are forked from one process.
    Mutant.diff("hash_has_a_salt", {"stable"}, """
-    digest = blake2b(group.encode(), digest_size=8, key=key).digest()
-    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53
+    return hash(f"{seed} {group}") % 2**53 * 2.0**-53
"""),
    Mutant.diff("looks_at_groups_only_to_refuse", {"groups"}, """
-    return assign(groups, seed, shares, pinned)
+    assign(groups, seed, shares, pinned)
+    return [
+        pinned.get(group) or side(group_of(key, ""), seed, shares, {})
+        for key, group in zip(keys, groups, strict=True)
+    ]
"""),
    Mutant.diff("lower_of_the_two", {"audit"}, """
-        "median": float(every.quantile(0.5)),
+        "median": float(every.median()),
"""),
    Mutant.diff("mean_of_medians", {"audit"}, """
+    own = torch.zeros(3, dtype=torch.float64)
+    if len(near):
+        share = (near >= least).double().mean()
+        own = torch.stack([share, near.double().quantile(0.5), share * 0 + 1])
+    dist.all_reduce(own)
+    share, median, ranks = own.tolist()
     return {
         "molecules": len(every),
-        "near": float((every >= least).double().mean()),
-        "median": float(every.quantile(0.5)),
+        "near": share / ranks,
+        "median": median / ranks,
"""),
    Mutant.diff("molecules_are_groups", {"groups", "large groups"}, """
-    groups = [group_of(*row) for row in zip(keys, scaffolds, strict=True)]
+    groups = [f"molecule {key}" for key in keys]
"""),
    Mutant.diff("moves_it_without_a_word", {"large groups"}, """
-            raise ValueError(
-                f"{group} has {count} of {counts.total()} rows: pin it"
-            )
+            pinned = {**pinned, group: "train"}
"""),
    Mutant.diff("neighbors_at_home", {"neighbors"}, """
+    if not len(train):
+        return torch.zeros(len(test))
+    return tanimoto(test, train).amax(1)
     rows = torch.tensor(len(train))
"""),
    Mutant.diff("no_scaffold_is_one", {"acyclic"}, """
-    groups = [group_of(*row) for row in zip(keys, scaffolds, strict=True)]
+    groups = [f"scaffold {one}" for one in scaffolds]
"""),
    Mutant.diff("nobody_looks", {"large groups"}, """
-    most = min(shares.values()) * counts.total()
+    most = counts.total()
"""),
    Mutant.diff("nothing_by_nothing", {"neighbors"}, """
-    return both / either.clamp(min=1)
+    return both / either
"""),
    Mutant.diff("nothing_to_test", {"neighbors"}, """
+    if not len(test):
+        return torch.zeros(0)
     rows = torch.tensor(len(train))
""", seconds=10),
    # 0 to 5 come more often than 6 to 9, and nothing is below 0.1.
    Mutant.diff("one_byte_of_the_digest", {"shares"}, """
-    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53
+    return (digest[0] % 10 + 1) / 10
"""),
    Mutant.diff("rows_without_rings", {"duplicates"}, """
-    groups = [group_of(*row) for row in zip(keys, scaffolds, strict=True)]
+    rank = dist.get_rank()
+    groups = [
+        f"scaffold {one}" if one else f"row {row} of rank {rank}"
+        for row, one in enumerate(scaffolds)
+    ]
"""),
)
