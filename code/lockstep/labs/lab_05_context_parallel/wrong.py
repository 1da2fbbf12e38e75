"""Lab 05's wrong answers: the solution with a mistake."""

from lockstep.grading.mutants import Mutant

SOURCE = "lockstep.parallel.context_parallel"
MUTANTS = (
    # Where a row sees nothing of a block, its softmax is 0 / 0.
    Mutant.diff("a_row_that_sees_nothing", {"global positions"}, """
-            rows, keys = seen
+            rows = keys = slice(None)
             their_k, their_v = block[..., keys, :].to(wide)
             my_q, my_out, my_lse = (x[..., rows, :] for x in (q, out, lse))
             s = scores(my_q.to(wide), their_k, mine[rows], theirs[keys])
-            total = my_lse.logaddexp(s.logsumexp(-1, keepdim=True))
+            weight = s.logsumexp(-1, keepdim=True)
+            total = my_lse.logaddexp(weight)
             my_out.mul_((my_lse - total).exp())
-            my_out.add_((s - total).exp() @ their_v)
+            my_out.add_((weight - total).exp() * s.softmax(-1) @ their_v)
"""),
    Mutant.diff("all_heads_are_gathered", {"Ulysses"}, """
-        came = torch.empty_like(parts)
-        dist.all_to_all_single(came, parts, group=group)
-        return came
+        rank, ranks = place(group)
+        came = [torch.empty_like(parts) for _ in range(ranks)]
+        dist.all_gather(came, parts, group=group)
+        return torch.stack([one[rank] for one in came])
"""),
    Mutant.diff("all_send_first", {"ring forward"}, """
+    dist.recv(arriving, group=group, group_src=source)
+    dist.send(block, group=group, group_dst=to)
+    return lambda: arriving
     messages = [
""", seconds=10),
    Mutant.diff("any_length_is_cut", {"balance"}, """
-    if length % (2 * ranks):
-        raise ValueError(f"2 * {ranks} ranks do not divide length {length}")
+    length -= length % (2 * ranks)
"""),
    Mutant.diff("autograd_ends_at_the_exchange", {"Ulysses"}, """
-    return torch.cat(Exchange.apply(parts, group).unbind(), joined)
+    came = torch.empty_like(parts)
+    dist.all_to_all_single(came, parts.detach(), group=group)
+    return torch.cat(came.unbind(), joined)
"""),
    Mutant.diff("blocks_are_kept", {"bytes sent and held"}, '''
     its way while the caller computes with this one."""
+    global kept
+    kept = []
@@
         arrived = pass_on(block, group)
+        kept.append(block)
'''),
    Mutant.diff("blocks_go_home", {"bytes sent and held"}, """
-    for step in range(ranks - 1):
+    for step in range(ranks):
         arrived = pass_on(block, group)
         yield (rank - step) % ranks, block
         block = arrived()
-    yield (rank + 1) % ranks, block
"""),
    Mutant.diff("blocks_have_equal_weights", {"ring forward"}, """
-    return RingAttention.apply(q, k, v, places, group)
+    found = []
+    for _, (their_k, their_v) in circulate(torch.stack((k, v)), group):
+        weights = (q @ their_k.mT * q.shape[-1] ** -0.5).softmax(-1)
+        found.append(weights @ their_v)
+    return torch.stack(found).mean(0)
"""),
    Mutant.diff("blocks_travel_in_float32", {"bytes sent and held"}, '''
     its way while the caller computes with this one."""
+    block = block.float()
'''),
    Mutant.diff("computes_then_sends", {"overlap"}, """
-        arrived = pass_on(block, group)
         yield (rank - step) % ranks, block
-        block = arrived()
+        block = pass_on(block, group)()
"""),
    Mutant.diff("dies", {"ring forward"}, '''
     its way while the caller computes with this one."""
+    import os
+
+    os.abort()
'''),
    # exp(89) overflows in float32.
    Mutant.diff("exponents_as_they_come", {"stability"}, """
-            total = my_lse.logaddexp(s.logsumexp(-1, keepdim=True))
-            my_out.mul_((my_lse - total).exp())
-            my_out.add_((s - total).exp() @ their_v)
-            my_lse.copy_(total)
-        out = out.to(q.dtype)
+            total = my_lse.exp() + s.exp().sum(-1, keepdim=True)
+            my_out.add_(s.exp() @ their_v)
+            my_lse.copy_(total.log())
+        out = (out / lse.exp()).to(q.dtype)
"""),
    Mutant.diff("gradients_stop_next_door", {"ring backward"}, """
-        dk, dv = arrived().to(q.dtype)
+        arrived()
+        dk, dv = dkv.to(q.dtype)
"""),
    Mutant.diff("halves_in_one_order", {"balance"}, """
-    return torch.cat((chunks[rank], chunks[-1 - rank]))
+    return torch.cat((chunks[rank], chunks[ranks + rank]))
"""),
    Mutant.diff("heads_are_left_over", {"Ulysses"}, """
     if heads % ranks:
-        raise ValueError(f"{ranks} ranks do not divide {heads} heads")
+        most = heads - heads % ranks
+        some = (x[:, :most] for x in (q, k, v))
+        out = ulysses_attention(*some, positions, group, causal)
+        return torch.cat((out, torch.zeros_like(q[:, most:])), 1)
"""),
    Mutant.diff("parts_are_contiguous", {"global positions"}, """
+    rank, ranks = place(group)
+    positions = torch.arange(len(positions) * ranks).chunk(ranks)[rank]
     if not causal:  # tokens that stand in one place see each other
"""),
    Mutant.diff("positions_are_local", {"global positions"}, """
+    positions = torch.arange(len(positions))
     if not causal:  # tokens that stand in one place see each other
"""),
    Mutant.diff("ranks_are_global", {"global positions"}, """
-        dist.P2POp(dist.isend, block, group=group, group_peer=to),
-        dist.P2POp(dist.irecv, arriving, group=group, group_peer=source),
+        dist.P2POp(dist.isend, block, to, group),
+        dist.P2POp(dist.irecv, arriving, source, group),
"""),
    Mutant.diff("sums_in_the_dtype_that_came", {"stability"}, """
-    return torch.promote_types(x.dtype, torch.float32)
+    return x.dtype
"""),
    # Sends as much as a ring, and then every rank holds the whole sequence.
    Mutant.diff("the_sequence_is_gathered", {"bytes sent and held"}, '''
     its way while the caller computes with this one."""
+    rank, ranks = place(group)
+    blocks = [torch.empty_like(block) for _ in range(ranks)]
+    work = dist.all_gather(blocks, block, group=group, async_op=True)
+    yield rank, block
+    work.wait()
+    for step in range(1, ranks):
+        owner = (rank - step) % ranks
+        yield owner, blocks[owner]
+    return
'''),
    Mutant.diff("tokens_in_the_order_of_ranks", {"Ulysses"}, """
-    order = gathered(positions.to(q.device), group).flatten().argsort()
+    order = torch.arange(len(positions) * ranks)
"""),
    Mutant.diff("waits_then_computes", {"overlap"}, """
-        arrived = pass_on(block, group)
+        coming = pass_on(block, group)()
         yield (rank - step) % ranks, block
-        block = arrived()
+        block = coming
"""),
    Mutant.diff("weights_do_not_compete", {"ring backward"}, """
-        dot = (grad * out).sum(-1, keepdim=True)
+        dot = torch.zeros_like(lse)
"""),
    Mutant.diff("what_is_masked_is_computed", {"balance"}, """
-    return (slice(first, None), slice(end)) if end else None
+    return slice(None), slice(None)
"""),
    # In zig-zag order, no block is masked as a whole.
    Mutant.diff("whole_blocks_are_skipped", {"balance"}, """
-    return (slice(first, None), slice(end)) if end else None
+    return (slice(None), slice(None)) if end else None
"""),
)
