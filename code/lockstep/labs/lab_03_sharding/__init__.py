"""Lab 03: ZeRO/FSDP state sharding: nobody keeps what everybody has.

You write two classes. `ShardedOptimizer` keeps a share of the optimizer's state
on each rank (ZeRO-1). `ShardedDataParallel` keeps a share of the parameters and
of their gradients too (ZeRO-3, which FSDP does).

The mechanism: a rank owns a part of a flat buffer. What a module computes with
is gathered just before, and freed right after; its gradients are
reduce-scattered, so that a rank gets the mean of its own part alone.

The grader compares with training on one process. It measures the bytes that a
rank keeps and those that it sends, and holds them against the planner's. And it
looks at whose code calls the collectives, yours or torch's.
"""

STARTER = """Lab 03: ZeRO/FSDP state sharding.

Build two classes from torch.distributed's collectives. All ranks of the default
group make them, and call their methods, together. torch's own sharding
(`ZeroRedundancyOptimizer`, `fully_shard`) stays out of it.

No rank keeps an optimizer's state for more than its share of all numbers and
one tensor.
"""

TODO = {
    "ShardedOptimizer.__init__": "spread the state evenly",
    "ShardedOptimizer.add_param_group": "the group's state is spread too",
    "ShardedOptimizer.step": "each parameter is sent once",
    "ShardedDataParallel.__init__": "nothing whole is kept",
    "ShardedDataParallel.forward": "gather, compute, free, and again",
    "ShardedDataParallel.wait_for_gradients": "nothing if nothing is under way",
    "ShardedDataParallel.full_parameters": "what a checkpoint would hold",
}
