"""Lab 12: a worksheet. Each function returns plain data; the grader asks the
planner, and takes numbers within 10 %. Bytes are bytes, times are seconds.

Part one. Train Llama 3 70B on 64 H100s of 80 GB: nodes of eight with NVLink,
one InfiniBand card a GPU between them. Rings achieve 370 GB/s a GPU over NVLink
and 46 GB/s over a card, one way.
Sequences have 32,768 tokens, a step has 64. Adam in mixed precision keeps
2 + 2 + 12 bytes a parameter, activations are in bf16, pipelines run 1F1B.
Ranks are numbered tensor first, then context, data, pipeline. A design may use
72 GB of a GPU.

Part two. Train Llama 3 405B on 4,096 of the same GPUs: tensor 8, context 2,
pipeline 16, data 16, ZeRO-1 (the planner's step: 2,048 sequences of 8,192
tokens, sequence parallel). Llama 3's own job had 419 unexpected interruptions
in 54 days on 16,384 GPUs. Take each to stop the job and one node, which is back
after 24 h. Four nodes share a rack and its power. Rehearsals of this job found:

- a checkpoint has 12 bytes a parameter, evenly spread over the GPUs. To copy
  it to host memory stops all ranks for 2 s, and from there it goes to storage
  in the background. To write it to storage at once would stop them for 51 s;
- no rank is silent for more than 60 s in a healthy job, and a failure is found
  by that silence;
- all ranks start and meet in 150 s, and are warm 90 s later;
- a pre-flight check of a node takes 300 s.
"""


def layout() -> dict:
    """The design, in the planner's words: tp, cp, pp, dp, zero_stage,
    micro_batch, recompute ("none" or "full"), sequence_parallel, and context
    ("ring" or "ulysses") where cp is above 1."""
    # TODO: use all 64 GPUs, and at most 72 GB of each.
    raise NotImplementedError


def figures() -> dict[str, float]:
    """What the design comes to: microbatches that a rank accumulates,
    total_bytes of the fullest GPU, step_seconds, and mfu as a share. Matrix
    products reach 60 % of 989 TFLOP/s; MFU counts attention's."""
    # TODO: be at most 15 % slower than the best layout there is.
    raise NotImplementedError


def axes() -> dict[str, dict]:
    """A row for each of tensor, context, pipeline and data that has a group of
    more than one rank. The data group has all ranks whose gradients are one
    sum. A row holds:

    - ranks: the numbers of rank 0's group, in order;
    - link: the slowest between them, "NVLink" or "InfiniBand";
    - collective: "all-reduce", "all-gather and reduce-scatter", "all-to-all"
      or "send and receive";
    - each: how often, "layer and micro-batch", "micro-batch" or "step";
    - sent: bytes that a rank sends in a step;
    - hides: what its time hides behind, "computing", "attention" or "nothing";
    - saves: what falls by 1 GB or more, "parameters", "gradients",
      "optimizer", "activations" or "logits", or "time", by 0.5 s or more;
    - saved: bytes of it on the fullest GPU, or seconds of the step: compare the
      plan in which the axis' ranks are data-parallel; for data, one that
      shards nothing;
    - risk: seconds that a step takes longer once all links of the row's kind
      run at half their rate.
    """
    # TODO: one row for each axis that you use.
    raise NotImplementedError


def rejected() -> list[dict]:
    """Layouts that you did not take, with `layout` as above, `because`
    ("memory" or "time") and `number`: the bytes that do not fit, or the
    seconds of its step, which is longer than yours."""
    # TODO: one of each kind at least. Begin with what you would try first.
    raise NotImplementedError


def failures() -> dict:
    """Part two: a_day, failures of the job; interval_seconds of work between
    two saves to host memory; and restart, the seconds from a failure to the
    first new step, as detect, preflight, meet, restore and warm_up. A
    pre-flight check takes 0 where spares were checked beforehand."""
    # TODO: the timeout that detects a hang must not end a healthy job.
    raise NotImplementedError


def spares() -> dict[str, float]:
    """nodes that wait: at most 8, and in 99 of 100 cases as many as are in
    repair; and slowest_seconds, in which a pre-flight check lets eight GPUs of
    a node all-reduce 1 GB by a ring over NVLink: 80 % of its rate."""
    # TODO: the nodes in repair are the failures of the last 24 hours.
    raise NotImplementedError


def peers() -> dict[str, float]:
    """Copies of a node's checkpoint in other hosts' memory: copies, how many
    other nodes have it; distance, to the nearest of them in node numbers;
    generations, each node's checkpoints of different steps; and
    bytes_per_node of host memory, with the node's own."""
    # TODO: survive a lost rack, at any moment, without reading from storage.
    raise NotImplementedError


def corruption() -> dict:
    """A check that finds a GPU which computes wrong numbers and raises nothing:
    compares ("gradients before the average", "weights after the step" or
    "losses") of two replicas that are given one batch; every_seconds;
    keep_seconds, the age of the oldest checkpoint that is kept on storage; and
    costs, the share of time that goes into it: one step each time."""
    # TODO: find it within a day, and have a checkpoint from before it.
    raise NotImplementedError


def goodput() -> float:
    """The share of time that goes into work which is kept, all of the above
    counted."""
    # TODO: promise at least 98 %.
    raise NotImplementedError


def premise() -> dict:
    """The requirement that no design can meet, and the best that is possible.

    - "goodput": 99.5 % of the time goes into work which is kept;
    - "spares": at most 8 nodes of 512 wait;
    - "restore": a lost rack costs no read from storage;
    - "corruption": a GPU that computes wrong numbers is found within a day;
    - "preflight": no node joins the job unchecked.

    Returns refused, one of these words, and possible, the limit of it under
    what rehearsals found, were saves free.
    """
    # TODO: one number refutes it, whatever the design.
    raise NotImplementedError
