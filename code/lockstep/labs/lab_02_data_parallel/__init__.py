"""Lab 02: gradients that travel while the backward pass still runs.

**The last layer's gradients can be averaged before the first layer's exist.**
So data parallelism costs the communication that the backward pass cannot hide,
and how much that is depends on buckets: one per parameter pays a latency each,
one for all starts when nothing is left to hide behind.

Write `DataParallel`, as torch's DDP works: replicas start equal; a hook on each
parameter sees its gradient arrive; a full bucket's all-reduce starts at once,
and the optimizer waits for all of them.

The grader compares gradients with one process, counts all-reduces and bytes,
and lets one rank hold up the others: who waits inside a hook waits for ever. It
also looks at whose code starts the all-reduces, yours or torch's.
"""

STARTER = """Lab 02: data parallel.

Build what torch's DistributedDataParallel is made of, from a module, hooks on
its parameters and `dist.all_reduce`. The ranks are those of the default group.
"""

TODO = {
    "DataParallel.__init__": "equal replicas, buckets, hooks",
    "DataParallel.forward": "nothing is sent here",
    "DataParallel.wait_for_gradients": "start what is left, and wait",
    "DataParallel.no_sync": "for accumulation",
}
