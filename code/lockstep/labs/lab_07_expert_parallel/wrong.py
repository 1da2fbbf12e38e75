"""Lab 07's wrong answers: the solution with a mistake."""

from lockstep.grading.mutants import Mutant

SOURCE = "lockstep.parallel.expert_parallel"
MUTANTS = (
    Mutant.diff("all_send_first", {"dispatch and combine"}, """
-    dist.all_to_all_single(theirs, mine, group=group)
+    rank, _ = place(group)
+    others = [other for other in range(ranks) if other != rank]
+    for other in others:
+        dist.send(mine[other], group=group, group_dst=other)
+    for other in others:
+        dist.recv(theirs[other], group=group, group_src=other)
+    theirs[rank] = mine[rank]
""", seconds=10),
    Mutant.diff("balanced_on_each_rank", {"auxiliary loss"}, """
+    fraction = load.to(logits.dtype) / load.sum().clamp(min=1)
     dist.all_reduce(load, group=group)
     choices = load.sum()
-    fraction = load.to(logits.dtype) / choices
"""),
    Mutant.diff("dies", {"dispatch and combine"}, """
+    import os
+
+    os.abort()
     by_rank = torch.cat(outputs)[trip.order.argsort()]
"""),
    # The residual doubles a token that passes unchanged.
    Mutant.diff(
        "dropped_tokens_stay_as_they_were", {"dispatch and combine"}, """
     order: Tensor  # (rows taken,), int64: sorts what came by rank by expert
     group: Group
+    x: Tensor
@@
-    return list(rows), Trip(routing, choices, gives, takes, order, group)
+    return list(rows), Trip(routing, choices, gives, takes, order, group, x)
@@
-    return (weights * spread.view(tokens, k, home.shape[1])).sum(1)
+    total = (weights * spread.view(tokens, k, home.shape[1])).sum(1)
+    return total.where(trip.routing.kept.any(-1, keepdim=True), trip.x)
"""),
    Mutant.diff("drops_of_one_rank", {"layer"}, """
-        dist.all_reduce(dropped, group=self.group)
"""),
    Mutant.diff("experts_are_averaged", {"backward"}, """
         self.k, self.capacity, self.group = k, capacity, group
+        for one in self.experts.parameters():
+            one.register_hook(lambda gradient: gradient / ranks)
"""),
    Mutant.diff("idle_experts_are_skipped", {"uneven loads"}, """
-            expert(its)
+            expert(its) if len(its) else its
"""),
    Mutant.diff("keeps_all_experts", {"layer"}, """
         self.k, self.capacity, self.group = k, capacity, group
+        self.every = nn.ModuleList(experts)
"""),
    Mutant.diff("leaves_early", {"uneven loads"}, """
+        if not len(x):
+            return x, x.sum(), x.new_zeros(())
         logits = self.router(x)
"""),
    Mutant.diff("mean_of_means", {"auxiliary loss"}, """
-    probability = logits.softmax(-1).sum(0) / (choices / k)
+    probability = logits.softmax(-1).sum(0) / max(1, len(logits))
+    probability = probability / dist.get_world_size(group)
"""),
    Mutant.diff("no_way_back", {"backward"}, """
-    home = AllToAll.apply(by_rank, trip.takes, trip.gives, trip.group)
+    home = by_rank.new_empty(sum(trip.gives), by_rank.shape[1])
+    sizes = trip.gives, trip.takes
+    dist.all_to_all_single(home, by_rank, *sizes, group=trip.group)
"""),
    # A constant weight gives the router no gradient.
    Mutant.diff("one_expert_weighs_one", {"routing"}, """
-    if k > 1:
-        weights = weights / weights.sum(-1, keepdim=True)
+    weights = weights / weights.sum(-1, keepdim=True)
"""),
    # Each expert gets a buffer for all tokens: n / k times the bytes.
    Mutant.diff("room_for_every_token", {"bytes"}, """
     _, ranks = place(group)
+    longest = torch.tensor(len(x))
+    dist.all_reduce(longest, dist.ReduceOp.MAX, group=group)
+    room, n = int(longest), len(routing.load)
+    token, _ = routing.kept.nonzero(as_tuple=True)
+    where = (routing.experts * room + routing.slots)[routing.kept]
+    full = x.new_zeros(n * room, x.shape[1]).index_copy(0, where, x[token])
+    sizes = [n // ranks * room] * ranks
+    arrived = AllToAll.apply(full, sizes, sizes, group)
+    parts = arrived.view(ranks, -1, room, x.shape[1]).transpose(0, 1)
+    return list(parts.flatten(1, 2)), (routing, where, sizes, room, group)
@@
+    routing, where, sizes, room, group = trip
+    width = outputs[0].shape[1]
+    parts = torch.stack(outputs).view(len(outputs), -1, room, width)
+    full = parts.transpose(0, 1).reshape(-1, width)
+    home = AllToAll.apply(full, sizes, sizes, group)[where]
+    token, _ = routing.kept.nonzero(as_tuple=True)
+    weights = routing.weights[routing.kept].unsqueeze(1)
+    empty = home.new_zeros(len(routing.weights), width)
+    return empty.index_add(0, token, weights * home)
     by_rank = torch.cat(outputs)[trip.order.argsort()]
"""),
    Mutant.diff("rows_as_they_arrive", {"dispatch and combine"}, """
-    order = own.repeat_interleave(theirs.flatten()).argsort(stable=True)
+    order = torch.arange(len(arrived))
"""),
    Mutant.diff("second_choices_push_in", {"capacity"}, """
-    in_turn = experts.T.flatten()  # all first choices, all second ones, …
+    in_turn = experts.flatten()
@@
-    slots = before.gather(1, in_turn.unsqueeze(1)).view_as(experts.T).T
+    slots = before.gather(1, in_turn.unsqueeze(1)).view_as(experts)
"""),
    Mutant.diff("weights_are_constants", {"backward"}, """
-    weights = trip.routing.weights.unsqueeze(-1).to(home.dtype)
+    weights = trip.routing.weights.detach().unsqueeze(-1).to(home.dtype)
"""),
    Mutant.diff("who_stays_gets_all", {"capacity"}, """
+    if k > 1:
+        weights = weights * (slots < capacity)
+        weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)
     return Routing(weights, experts, slots, chosen.sum(0), capacity)
"""),
)
