"""Scenarios of group A: what has to be held."""

from .scenario import Scenario, plan

A1 = {
    "layers": 24,
    "hidden": 2048,
    "heads": 16,
    "vocab": 50304,
    "gpus": 8,
    "sequence": 2048,
    "global_batch": 64,
}
A2 = {"preset": "llama3-8b", "gpus": 8, "sequence": 8192, "global_batch": 32}
A3 = {"preset": "llama3-70b", "gpus": 64, "sequence": 8192, "global_batch": 128}
A4 = {
    "layers": 40,
    "hidden": 6144,
    "heads": 64,
    "vocab": 50304,
    "gpus": 4,
    "sequence": 2048,
    "global_batch": 32,
    "hardware": "a100",
}
A6 = {"preset": "llama3-70b", "gpus": 64, "sequence": 4096, "global_batch": 128}
A8 = {
    "preset": "mixtral-8x7b",
    "gpus": 64,
    "sequence": 8192,
    "global_batch": 128,
    "network_bandwidth": 12.5e9,
}

SCENARIOS = [
    Scenario(
        id="A1",
        topic="a small model under FSDP",
        situation="""
            A GPT of {billions:.1f} B parameters (24 layers, hidden 2,048, 16
              heads, vocabulary 50,304) trains on one node of 8 H100s with
              FSDP. A rank takes 8 sequences of 2,048 tokens, and 64 are a
              step. All-gathers fill the trace's communication lane, and a
              colleague wants a week to tune prefetching. What do you do first?
        """,
        first="ask whether anything has to be sharded: DDP fits",
        plans={
            "ddp": plan("run", **A1, micro_batch=8),
            "fsdp": plan("run", **A1, micro_batch=8, zero_stage=3),
        },
        figures={
            "billions": "ddp.total / 1e9",
            "state_gb": "16 * billions",
            "whole_gb": "ddp.total_bytes / 1e9",
            "ddp_gb": "ddp.data_bytes / 1e9",
            "fsdp_gb": "fsdp.data_bytes / 1e9",
        },
        numbers={
            "whole_gb": "GB on the fullest rank under DDP, micro-batch 8",
            "ddp_gb": "GB that a rank sends in a step under DDP",
            "fsdp_gb": "GB that a rank sends in a step under FSDP",
        },
        cluster=A1,
        layout={"dp": 8, "zero_stage": 0, "micro_batch": 8},
        rubric="""
            problem: bytes needed beside bytes there are | activations: state
              alone proves nothing
            mechanism: each rank holds a full copy, gradients are reduced |
              that the optimizer is most of the copy
            communication: one all-reduce, in buckets, behind backward | FSDP's
              second gather
            trade_off: what FSDP would free, and that nothing needs it | when
              the decision turns
            measurement: exposed communication, before and after | a number
              that would bring FSDP back
        """,
        strong="""
            problem: Nothing is short. State is {state_gb:.0f} GB; with
              activations and logits a rank holds {whole_gb:.0f} of 80 GB.
            mechanism: DDP keeps parameters, gradients and optimizer whole on
              each rank, so no layer waits to be gathered.
            communication: One all-reduce of gradients, in buckets behind
              backward: a rank sends {ddp_gb:.1f} GB a step. FSDP gathers
              parameters twice and scatters gradients: {fsdp_gb:.1f} GB.
            trade_off: I give up memory that nobody uses. I return to sharding
              when the model or the micro-batch outgrows the GPU.
            measurement: Tokens per second of both at equal batch, and the
              exposed communication in each trace. If DDP is not faster,
              prefetching was not the problem either.
        """,
    ),
    Scenario(
        id="A2",
        topic="8 B on one node",
        situation="""
            Llama 3 8B is to train on one node of 8 H100s: sequences of 8,192
              tokens, 32 a step, Adam in mixed precision. DDP runs out of
              memory before the first step. One colleague says ZeRO-1, one
              says full recomputation, one says FSDP. Which, and why?
        """,
        first="price each stage with activations, then price recomputation",
        plans={
            "ddp": plan("run", **A2),
            "one": plan("run", **A2, zero_stage=1),
            "two": plan("run", **A2, zero_stage=2),
            "again": plan("run", **A2, zero_stage=1, recompute="full"),
        },
        figures={
            "state_gb": "16 * ddp.total / 1e9",
            "one_gb": "one.total_bytes / 1e9",
            "two_gb": "two.total_bytes / 1e9",
            "best_gb": "best.total_bytes / 1e9",
            "gathers_s": "best.data_seconds",
            "compute_s": "best.compute_seconds",
            "again_s": "again.step_seconds",
        },
        numbers={
            "state_gb": "GB of parameters, gradients and Adam under DDP",
            "one_gb": "GB on the fullest rank under ZeRO-1, no recomputation",
            "again_s": "seconds of a step under ZeRO-1, all recomputed",
        },
        cluster=A2,
        layout={"dp": 8, "zero_stage": 3},
        rubric="""
            problem: the copy of the state beside the GPU, and activations on
              top | that ZeRO-1 fits the state and still fails
            mechanism: what each stage shards | the gathered layer, which is
              whole for a moment
            communication: what stage 3 sends, and behind what it hides | that
              it is repeated for each micro-batch
            trade_off: bytes on NVLink against a second forward pass | the price
              of recomputation, in time
            measurement: peak memory and exposed gathers | what to do if they
              show
        """,
        strong="""
            problem: State is {state_gb:.0f} GB against 80. ZeRO-1 needs
              {one_gb:.0f} GB with activations, ZeRO-2 still {two_gb:.0f}.
            mechanism: Stage 3 shards parameters, gradients and Adam eight ways
              and gathers one layer at a time: {best_gb:.0f} GB.
            communication: All-gathers in both passes and a reduce-scatter, for
              each micro-batch: {gathers_s:.2f} s on NVLink, behind
              {compute_s:.1f} s of computing.
            trade_off: ZeRO-1 with recomputation fits too, and pays a second
              forward pass: {again_s:.1f} s a step. In a node, bytes are
              cheaper than FLOPs.
            measurement: Peak allocated bytes and exposed gather time. If
              gathers show on more nodes, I keep shards within each.
        """,
    ),
    Scenario(
        id="A3",
        topic="70 B on 64 GPUs",
        situation="""
            Llama 3 70B is to start next week on 64 H100s (8 to a node, 46 GB/s
              per GPU between nodes): sequences of 8,192 tokens, 128 a step.
              The plan on the table is TP 8 by PP 2 by DP 4, because "70 B
              needs 3D". The team has never run a pipeline. Which layout first?
        """,
        first="shard everything and recompute: one axis, then measure",
        plans={
            "kept": plan("run", **A3, zero_stage=3),
            "three_d": plan(
                "run", **A3, tp=8, pp=2, sequence_parallel=True, zero_stage=1
            ),
        },
        figures={
            "state_gb": "16 * best.total / 1e9",
            "kept_gb": "kept.activations_bytes / 1e9",
            "best_gb": "best.total_bytes / 1e9",
            "gathers_s": "best.data_seconds",
            "best_s": "best.step_seconds",
            "three_d_s": "three_d.step_seconds",
        },
        numbers={
            "state_gb": "GB of state of one whole copy",
            "kept_gb": "GB of activations of one sequence, none recomputed",
            "three_d_s": "seconds of a step with TP 8, PP 2, SP and ZeRO-1",
        },
        cluster=A3,
        layout={
            "dp": 64,
            "zero_stage": 3,
            "recompute": "full",
            "micro_batch": 2,
        },
        rubric="""
            problem: both state and one sequence's activations overflow | the
              activations, which sharding does not touch
            mechanism: FSDP for state, recomputation for activations | which of
              the two solves which
            communication: bytes by micro-batch, and the time they take beside
              computing | micro-batch 2 halves the gathers
            trade_off: a second forward pass against a pipeline to build | the
              3D step's time, in fairness
            measurement: exposed gathers and MFU | the figure at which a second
              axis is worth it
        """,
        strong="""
            problem: State is {state_gb:,.0f} GB, so it must be sharded. One
              sequence keeps {kept_gb:.0f} GB of activations, and sharding
              state leaves them where they are.
            mechanism: FSDP2 over 64 ranks for the state, full recomputation for
              the activations: {best_gb:.0f} GB a rank.
            communication: Two all-gathers and a reduce-scatter. One micro-batch
              of two sequences keeps that to {gathers_s:.1f} s, behind the
              computing.
            trade_off: {best_s:.1f} s a step against {three_d_s:.1f} for 3D,
              which costs a schedule, TP's code and a harder checkpoint.
            measurement: Exposed gathers and MFU in week one. I add an axis when
              it saves more than it takes to maintain.
        """,
    ),
    Scenario(
        id="A4",
        topic="four GPUs and no more",
        situation="""
            A GPT of {billions:.1f} B parameters (40 layers, hidden 6,144, 64
              heads, vocabulary 50,304) is to be tuned on 4 A100s of 80 GB:
              sequences of 2,048 tokens, 32 a step. FSDP with mixed-precision
              Adam runs out of memory, and there is no fifth GPU. What gives?
              For the layout, take two moments in 8 bits as decided.
        """,
        first="shrink the optimizer's bytes: nothing is left to shard",
        plans={
            "adam": plan("run", **A4, zero_stage=3),
            "again": plan("run", **A4, zero_stage=3, recompute="full"),
        },
        figures={
            "billions": "adam.total / 1e9",
            "optimizer_gb": "adam.optimizer_bytes / 1e9",
            "adam_gb": "adam.total_bytes / 1e9",
            "again_gb": "again.total_bytes / 1e9",
            "small_gb": "best.optimizer_bytes / 1e9",
            "best_gb": "best.total_bytes / 1e9",
        },
        numbers={
            "optimizer_gb": "GB of Adam's state (12 B a parameter) on a rank",
            "again_gb": "GB on a rank with FSDP and full recomputation",
            "small_gb": "GB of optimizer on a rank with 8-bit moments",
        },
        cluster=A4 | {"optimizer": "adam-8bit"},
        layout={"dp": 4, "zero_stage": 3},
        rubric="""
            problem: which of the four kinds of bytes is largest, after sharding
              | the optimizer
            mechanism: two moments in 8 bits by blocks, master copy in fp32 |
              that the master copy stays
            communication: unchanged: neither gradients nor parameters are
              smaller | that optimizer state never travels
            trade_off: memory against a change in numerics | offload or LoRA as
              the alternative
            measurement: loss beside an fp32-moment run, and peak bytes | a run
              short enough to afford
        """,
        strong="""
            problem: All is sharded already: {adam_gb:.0f} GB a rank, of which
              Adam's state is {optimizer_gb:.0f}. Full recomputation still
              needs {again_gb:.0f} of 80 GB, which is no margin.
            mechanism: Keep both moments in 8 bits with a scale per block, and
              the master copy in fp32: {small_gb:.0f} GB of optimizer,
              {best_gb:.0f} in all.
            communication: None more. Gradients and parameters travel as before;
              optimizer state stays where it is.
            trade_off: Quantised moments change the update. CPU offload would
              not, and pays PCIe in every step.
            measurement: Peak bytes, then the loss of both optimizers on a
              smaller model from one seed. If they part, I offload.
        """,
    ),
    Scenario(
        id="A5",
        topic="bf16 saved nothing",
        situation="""
            A team trains 3 B parameters on one 80 GB GPU. It moved from fp32 to
              bf16 parameters and gradients with Adam on an fp32 master copy,
              and model state did not shrink by one byte. Next they want
              gradients accumulated in fp32. They ask whether the profiler is
              broken.
        """,
        first="count bytes a parameter, line by line, on both sides",
        plans={
            "single": plan("memory", params=3e9, optimizer="adam-fp32"),
            "mixed": plan("memory", params=3e9, optimizer="adam-mixed"),
            "summed": plan(
                "memory", params=3e9, optimizer="adam-mixed-fp32-gradients"
            ),
        },
        figures={
            "single_gb": "single.total_bytes / 1e9",
            "mixed_gb": "mixed.total_bytes / 1e9",
            "summed_gb": "summed.total_bytes / 1e9",
            "master_gb": "4 * mixed.params / 1e9",
        },
        numbers={
            "single_gb": "GB of state in fp32",
            "mixed_gb": "GB of state in mixed precision",
            "summed_gb": "GB of state with gradients in fp32 besides",
        },
        rubric="""
            problem: the sum per parameter in both | 4 + 4 + 8 against 2 + 2 +
              12
            mechanism: why the master copy exists | a small update vanishes in
              bf16's 8 bits
            communication: gradients travel in half the bytes | that this ends
              with fp32 gradients
            trade_off: what bf16 does buy | activations, and tensor cores
            measurement: allocator snapshot by category | a check that no
              tensor is fp32 by accident
        """,
        strong="""
            problem: The profiler is right. Fp32 is 4 + 4 + 8 bytes a parameter,
              {single_gb:.0f} GB; mixed is 2 + 2 + 12, {mixed_gb:.0f} GB.
            mechanism: The {master_gb:.0f} GB master copy takes updates that
              bf16 would round away, so it eats what the rest saved.
            communication: None on one GPU. With data parallelism, gradients
              travel in half the bytes. Fp32 gradients undo that, and state is
              {summed_gb:.0f} GB.
            trade_off: What bf16 buys is smaller activations and faster matrix
              products. To save state, shard it or shrink the moments.
            measurement: An allocator snapshot by category, and step time before
              and after. If activations did not halve, autocast leaves
              something in fp32.
        """,
    ),
    Scenario(
        id="A6",
        topic="activations under tensor parallelism",
        situation="""
            Llama 3 70B runs on 64 H100s as TP 8 by DP 8 with ZeRO-1: sequences
              of 4,096 tokens, 128 a step, micro-batches of one. It dies in
              backward at {plain_gb:.0f} GB. Someone has a patch that turns on
              full recomputation. Do you merge it?
        """,
        first="split what TP leaves whole: sequence parallelism, same bytes",
        plans={
            "plain": plan("run", **A6, tp=8, zero_stage=1),
            "again": plan("run", **A6, tp=8, zero_stage=1, recompute="full"),
        },
        figures={
            "plain_gb": "plain.total_bytes / 1e9",
            "kept_gb": "plain.activations_bytes / 1e9",
            "split_gb": "best.activations_bytes / 1e9",
            "best_gb": "best.total_bytes / 1e9",
            "tensor_gb": "best.tensor_bytes / 1e9",
            "more_s": "again.step_seconds - best.step_seconds",
        },
        numbers={
            "kept_gb": "GB of activations with TP 8 alone",
            "split_gb": "GB of activations with sequence parallelism",
            "more_s": "seconds that full recomputation adds to a step",
        },
        cluster=A6,
        layout={"dp": 8, "tp": 8, "sequence_parallel": True, "zero_stage": 1},
        rubric="""
            problem: which activations TP leaves whole | norms and residuals, on
              every rank of the group
            mechanism: they are split along the sequence | an all-reduce becomes
              all-gather and reduce-scatter
            communication: equal bytes, and they are exposed | that nothing is
              saved there either
            trade_off: a free split against a third more computing | selective
              recomputation as the next step
            measurement: peak bytes and step time | a check that loss is as
              before
        """,
        strong="""
            problem: {kept_gb:.0f} GB are activations. TP splits matrices;
              inputs of norms and residuals lie whole on all eight ranks.
            mechanism: Sequence parallelism splits those along the sequence, so
              activations fall to {split_gb:.0f} GB and the rank to
              {best_gb:.0f}.
            communication: Each all-reduce becomes a reduce-scatter and an
              all-gather: the same {tensor_gb:,.0f} GB a step, on NVLink,
              exposed as before. To keep them split, Megatron-LM gathers twice
              more in backward, behind input gradients.
            trade_off: Full recomputation would fit too and add {more_s:.1f} s
              to each step. I keep it for longer sequences, attention first.
            measurement: Peak bytes, step time, and equal loss over the first
              steps. If the loss parts, a norm's gradient misses its sum over
              the group.
        """,
    ),
    Scenario(
        id="A7",
        topic="a frozen 70 B beside the trainer",
        situation="""
            A frozen Llama 3 70B has to continue 16 prompts at a time, in bf16
              and with a KV cache of 8,192 tokens each. GPUs are H100s of 80
              GB. The trainer's plan reserves 16 GPUs for it: "70 B times 16
              bytes". How many does it take, and split how?
        """,
        first="drop gradients and optimizer: 2 bytes a parameter, plus cache",
        plans={
            "shape": plan("params", preset="llama3-70b"),
        },
        figures={
            "trained_gb": "16 * shape.total / 1e9",
            "weights_gb": "2 * shape.total / 1e9",
            "cache_gb": "16 * 8192 * 2 * 2 * shape.layers * shape.kv_heads"
            " * shape.head_dim / 1e9",
            "two_gb": "(weights_gb + cache_gb) / 2",
            "four_gb": "(weights_gb + cache_gb) / 4",
        },
        numbers={
            "weights_gb": "GB of weights",
            "cache_gb": "GB of keys and values for all 16 sequences",
            "four_gb": "GB of both on each of 4 GPUs under TP 4",
        },
        rubric="""
            problem: no gradients, no optimizer, but a cache | the cache, which
              grows with the batch
            mechanism: TP splits weights and KV heads alike | 8 KV heads bound
              the degree
            communication: two all-reduces a layer and token, in the node |
              that they are small: latency counts
            trade_off: fewer GPUs against latency | FSDP would gather all
              weights for each token
            measurement: tokens per second and cache use | time to the first
              token apart from the rest
        """,
        strong="""
            problem: {trained_gb:,.0f} GB is a training copy. Frozen weights are
              {weights_gb:.0f} GB; 16 sequences of keys and values add
              {cache_gb:.0f}.
            mechanism: TP splits weights and the 8 KV heads together. Two GPUs
              would need {two_gb:.0f} GB each; four need {four_gb:.0f}.
            communication: Two all-reduces a layer, on NVLink. While decoding
              they carry few bytes, so latency decides. FSDP would gather all
              weights for every token.
            trade_off: Four GPUs leave room for more sequences; eight cut
              latency, and waste memory.
            measurement: Cache occupancy, time to first token, tokens per second
              after it. If all-reduce latency leads, I stay at four.
        """,
    ),
    Scenario(
        id="A8",
        topic="experts: memory or compute",
        situation="""
            A team moves to Mixtral 8x7B on 64 H100s with 100 Gb/s per GPU
              between nodes: sequences of 8,192 tokens, 128 a step. It plans
              "like a 13 B model, as two of eight experts are active", keeps
              FSDP with full recomputation, and waits for gathers: a step takes
              {fsdp_s:.1f} s. What did it miss?
        """,
        first="size memory by all parameters and time by active ones, then EP",
        plans={
            "shape": plan("params", preset="mixtral-8x7b"),
            "fsdp": plan("run", **A8, zero_stage=3, recompute="full"),
        },
        figures={
            "total": "shape.total / 1e9",
            "active": "shape.active / 1e9",
            "state_gb": "16 * total",
            "gathered_gb": "fsdp.data_bytes / 1e9",
            "expert_gb": "best.expert_bytes / 1e9",
            "data_gb": "best.data_bytes / 1e9",
            "best_gb": "best.total_bytes / 1e9",
            "fsdp_s": "fsdp.step_seconds",
            "best_s": "best.step_seconds",
        },
        numbers={
            "state_gb": "GB of state of one whole copy",
            "gathered_gb": "GB a rank sends a step: FSDP, all recomputed",
            "expert_gb": "GB of all-to-all a rank sends a step with EP 8",
        },
        cluster=A8,
        layout={"dp": 64, "ep": 8, "zero_stage": 1, "recompute": "full"},
        rubric="""
            problem: memory follows all parameters, FLOPs the active ones | the
              optimizer of idle experts
            mechanism: EP holds experts apart and moves tokens | what happens to
              the dense part
            communication: four all-to-alls a layer, in the node | the FSDP
              bytes they replace
            trade_off: fewer bytes against skew and exposure | that FSDP's bytes
              may hide, and all-to-all's do not
            measurement: load of the fullest expert over the mean | step time of
              both
        """,
        strong="""
            problem: Time follows {active:.1f} B active parameters, memory all
              {total:.1f} B: {state_gb:.0f} GB of state, most of it for experts
              that a given token skips.
            mechanism: EP 8 keeps one expert of each layer on each GPU of a
              node. Tokens move to experts; ZeRO-1 and recomputation bring a
              rank to {best_gb:.0f} GB.
            communication: All-to-all there and back: {expert_gb:.0f} GB a rank
              and step on NVLink, and {data_gb:.0f} of data parallelism. FSDP
              sent {gathered_gb:.0f}.
            trade_off: On a faster network FSDP's bytes would hide. All-to-all's
              never do, and a popular expert stalls the node.
            measurement: Greatest expert load over the mean, and step time: I
              expect {best_s:.1f} s against {fsdp_s:.1f}.
        """,
    ),
]
