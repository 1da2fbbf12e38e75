"""Scenarios of group B: what has to be sent."""

from .scenario import Scenario, plan

B1 = {"preset": "llama3-70b", "gpus": 64, "sequence": 8192, "global_batch": 128}
B2 = {
    "preset": "llama3-8b",
    "gpus": 256,
    "sequence": 8192,
    "global_batch": 1024,
    "network_bandwidth": 3.125e9,
}
B3 = {
    "preset": "llama3-8b",
    "gpus": 32,
    "sequence": 4096,
    "global_batch": 512,
    "network_bandwidth": 12.5e9,
}
B4 = {"preset": "llama3-8b", "gpus": 64, "sequence": 131072, "global_batch": 16}
B5 = {
    "preset": "deepseek-v3",
    "gpus": 2048,
    "sequence": 4096,
    "global_batch": 15360,
    "hardware": "h200",
}
B6 = {"op": "all_reduce", "ranks": 512, "bandwidth": 50e9, "latency": 5e-6}
B7 = {"op": "all_reduce", "bytes": 16e9, "ranks": 64, "latency": 5e-6}
B8 = {
    "preset": "llama3-8b",
    "sequence": 2048,
    "global_batch": 512,
    "network_bandwidth": 25e9,
}

SCENARIOS = [
    Scenario(
        id="B1",
        topic="tensor parallelism over two nodes",
        situation="""
            Llama 3 70B runs on 64 H100s in nodes of 8, as TP 16 by DP 4 with
              sequence parallelism and ZeRO-1: sequences of 8,192 tokens, 128 a
              step, one to a micro-batch. The step takes {far_s:.1f} s, and a
              trace shows {far_layers_s:.1f} s in which streams only
              communicate. NVLink achieves 370 GB/s, a card 46. What do
              you change?
        """,
        first="bring TP back inside the node; cross it with stages",
        plans={
            "far": plan(
                "run", **B1, tp=16, sequence_parallel=True, zero_stage=1
            ),
        },
        figures={
            "far_s": "far.step_seconds",
            "far_layers_s": "far.layer_seconds",
            "far_gb": "far.tensor_bytes / 1e9",
            "near_gb": "best.tensor_bytes / 1e9",
            "near_layers_s": "best.layer_seconds",
            "stage_gb": "best.pipeline_bytes / 1e9",
            "bubble_s": "best.bubble_seconds",
            "best_s": "best.step_seconds",
        },
        numbers={
            "far_gb": "GB that a rank sends for TP 16 in a step",
            "near_gb": "GB that a rank sends for TP 8 with PP 2 in a step",
            "stage_gb": "GB that a rank sends from stage to stage, TP 8, PP 2",
        },
        cluster=B1,
        layout={
            "dp": 4,
            "tp": 8,
            "pp": 2,
            "sequence_parallel": True,
            "zero_stage": 1,
        },
        rubric="""
            problem: a collective of each layer crosses the network | that it
              is on the critical path, so nothing hides it
            mechanism: TP within NVLink, another axis between nodes | what takes
              over TP's memory saving
            communication: bytes and link of both axes | a stage sends one
              activation, TP four all-reduces a layer
            trade_off: a bubble and a schedule | micro-batches must suffice
            measurement: exposed TP time, idle time of stages | predicted
              figures to compare with
        """,
        strong="""
            problem: Four all-reduces a layer, or pairs of halves, cross the
              network, and the next product waits for each:
              {far_layers_s:.1f} of {far_s:.1f} s.
            mechanism: TP 8 stays on NVLink. Two pipeline stages cross nodes and
              halve the layers, hence state, as TP 16 did.
            communication: TP sends {near_gb:,.0f} GB a rank in place of
              {far_gb:,.0f}, at NVLink's rate. The stage boundary sends
              {stage_gb:.1f} GB: together {near_layers_s:.1f} s.
            trade_off: A bubble of {bubble_s:.1f} s and a schedule to debug, for
              a step of {best_s:.1f} s.
            measurement: Exposed TP time and stage idle time in one trace. If
              the bubble exceeds plan, stages are uneven.
        """,
    ),
    Scenario(
        id="B2",
        topic="FSDP over slow links",
        situation="""
            Llama 3 8B trains on 256 H100s whose nodes of 8 are joined by 25
              Gb/s of Ethernet per GPU: sequences of 8,192 tokens, 1,024 a
              step, FSDP over all ranks. In a node alone it ran at
              {node_s:.1f} s a step of its 32; on all it takes {full_s:.1f}.
              The trace shows all-gathers nearly end to end.
        """,
        first="gather inside the node, and send gradients alone across it",
        plans={
            "full": plan("run", **B2, zero_stage=3),
            "node": plan(
                "run", **(B2 | {"gpus": 8, "global_batch": 32}), zero_stage=3
            ),
        },
        figures={
            "node_s": "node.step_seconds",
            "full_s": "full.step_seconds",
            "full_gb": "full.data_bytes / 1e9",
            "across_gb": "best.replica_bytes / 1e9",
            "full_room_gb": "full.total_bytes / 1e9",
            "best_gb": "best.total_bytes / 1e9",
            "best_s": "best.step_seconds",
        },
        numbers={
            "full_gb": "GB that a rank sends in a step, sharded over all",
            "across_gb": "GB that a rank sends between nodes with shards of 8",
            "best_gb": "GB on the fullest rank with shards of 8",
        },
        cluster=B2,
        layout={"dp": 256, "zero_stage": 3, "shard": 8},
        rubric="""
            problem: gathers of every micro-batch pass the slow link | how often
              a step gathers
            mechanism: shards in the node, replicas across: a 2-D mesh | what is
              replicated: all state, Adam too
            communication: which bytes stay on NVLink, which cross | the
              gradients' all-reduce is of a shard, once a step
            trade_off: memory against network | the memory, as a number
            measurement: bytes by link, exposed gathers | the node count at
              which it pays
        """,
        strong="""
            problem: Parameters are gathered twice per micro-batch over 25 Gb/s:
              a rank sends {full_gb:.0f} GB a step, far more than computing
              hides.
            mechanism: Hybrid sharding: parameters, gradients and Adam are
              sharded over the 8 GPUs of a node and replicated across 32 nodes.
            communication: Gathers and scatters stay on NVLink. Each rank
              all-reduces its gradient shard across nodes: {across_gb:.1f} GB,
              once a step.
            trade_off: State is shared by 8 ranks, not 256: {best_gb:.0f} GB a
              rank instead of {full_room_gb:.0f}. It fits.
            measurement: Bytes per link and exposed gathers. I expect
              {best_s:.1f} s against {full_s:.1f}; if not, the mesh's order is
              wrong.
        """,
    ),
    # --8<-- [start:b3]
    Scenario(
        id="B3",
        topic="accumulation under FSDP",
        situation="""
            Llama 3 8B trains on 32 H100s with 100 Gb/s per GPU between nodes:
              sequences of 4,096 tokens, 512 a step, one to a micro-batch, so
              16 accumulate. Under FSDP a step takes {full_s:.1f} s, and
              accumulating more to "amortize communication" changed nothing per
              token. Why, and what helps?
        """,
        first="count gathers per step: FSDP repeats them, ZeRO-1 does not",
        plans={
            "full": plan("run", **B3, zero_stage=3),
        },
        figures={
            "full_s": "full.step_seconds",
            "rounds": "full.microbatches",
            "full_gb": "full.data_bytes / 1e9",
            "once_gb": "best.data_bytes / 1e9",
            "best_gb": "best.total_bytes / 1e9",
            "best_s": "best.step_seconds",
        },
        numbers={
            "full_gb": "GB that a rank sends in a step under FSDP",
            "once_gb": "GB that a rank sends in a step under ZeRO-1",
            "best_gb": "GB on the fullest rank under ZeRO-1",
        },
        cluster=B3,
        layout={"dp": 32, "zero_stage": 1},
        rubric="""
            problem: communication grows with micro-batches, as computing does |
              why DDP's intuition fails here
            mechanism: ZeRO-1 keeps parameters and gradients whole in between |
              no synchronization until the last micro-batch
            communication: one reduce-scatter, one all-gather a step | the
              factor against FSDP
            trade_off: whole parameters and gradients on each rank | larger
              micro-batches with recomputation as the other way
            measurement: number and bytes of collectives in one step | loss
              equal at equal batch
        """,
        strong="""
            problem: FSDP gathers and scatters in each of {rounds:.0f}
              micro-batches, so accumulation amortizes nothing:
              {full_gb:.0f} GB a rank and step.
            mechanism: ZeRO-1 shards Adam alone. Gradients accumulate locally,
              and ranks synchronize after the last micro-batch.
            communication: One reduce-scatter of gradients, one all-gather of
              parameters: {once_gb:.0f} GB a step.
            trade_off: Parameters and gradients stay whole: {best_gb:.0f} of 80
              GB. With less room I would take larger micro-batches and
              recompute.
            measurement: Count collectives per step, then time it:
              {best_s:.1f} s against {full_s:.1f}. More than one reduction means
              `no_sync` is missing.
        """,
    ),
    # --8<-- [end:b3]
    Scenario(
        id="B4",
        topic="131,072 tokens",
        situation="""
            Llama 3 8B is to be extended to sequences of 131,072 tokens on 64
              H100s in nodes of 8, 16 sequences a step. One sequence's
              activations overflow many GPUs. The draft says CP 8, "because
              rings must stay on NVLink", and then recomputes everything. Is it
              right?
        """,
        first="split the sequence, and ask what attention can hide",
        plans={
            "draft": plan("run", **B4, cp=8, zero_stage=3),
            "again": plan("run", **B4, cp=8, zero_stage=3, recompute="full"),
        },
        figures={
            "whole_gb": "8 * draft.activations_bytes / 1e9",
            "draft_gb": "draft.total_bytes / 1e9",
            "again_s": "again.step_seconds",
            "ring_s": "best.context_seconds",
            "attention_s": "best.attention_seconds",
            "best_gb": "best.total_bytes / 1e9",
            "best_s": "best.step_seconds",
        },
        numbers={
            "draft_gb": "GB on a rank with CP 8, ZeRO-3, nothing recomputed",
            "ring_s": "seconds that CP 16's ring takes in a step",
            "attention_s": "seconds of attention in a step",
        },
        cluster=B4,
        layout={"dp": 4, "cp": 16, "zero_stage": 3},
        rubric="""
            problem: one sequence's activations, not state | batch cannot be
              split below one sequence
            mechanism: ring attention; zig-zag chunks balance the causal mask |
              global positions, and ranks of CP share state too
            communication: keys and values round the ring behind attention |
              that attention grows with the square
            trade_off: network bytes against a second forward pass | Ulysses
              and its limit of heads
            measurement: ring wait per step, attention time by rank | imbalance
              of the causal mask
        """,
        strong="""
            problem: One sequence keeps {whole_gb:.0f} GB of activations. CP 8
              still needs {draft_gb:.0f} GB a rank, hence the recomputation.
            mechanism: CP 16 splits the sequence in zig-zag chunks with global
              positions. State is sharded over CP and DP together:
              {best_gb:.0f} GB.
            communication: Keys, values and their gradients go round two nodes
              for {ring_s:.1f} s. At this length attention takes
              {attention_s:.1f} s, and hides them.
            trade_off: A slower link, for no second forward pass:
              {best_s:.1f} s against {again_s:.1f}. At short sequences the
              draft would be right.
            measurement: Ring wait inside attention, and attention time per
              rank. If ranks differ, chunks are not balanced.
        """,
    ),
    Scenario(
        id="B5",
        topic="all-to-all at scale",
        situation="""
            DeepSeek-V3 trains on 2,048 H200s (141 GB, nodes of 8, 46 GB/s per
              GPU between them): sequences of 4,096 tokens, 15,360 a step, PP
              16, EP 64, ZeRO-1, in 16 bits. The step takes {far_s:.0f} s at
              an MFU of {far_mfu:.0%}. The trainer cannot overlap two
              micro-batches. What first?
        """,
        first="shrink the span of the all-to-all before its bytes",
        plans={
            "far": plan("run", **B5, pp=16, ep=64, zero_stage=1),
        },
        figures={
            "far_s": "far.step_seconds",
            "far_mfu": "far.mfu",
            "far_gb": "far.expert_bytes / 1e9",
            "far_layers_s": "far.layer_seconds",
            "compute_s": "far.compute_seconds",
            "far_room_gb": "far.total_bytes / 1e9",
            "near_layers_s": "best.layer_seconds",
            "best_gb": "best.total_bytes / 1e9",
            "best_s": "best.step_seconds",
        },
        numbers={
            "far_gb": "GB of all-to-all that a rank sends in a step with EP 64",
            "far_layers_s": "seconds of exposed communication with EP 64",
            "best_gb": "GB on the fullest rank with EP 8",
        },
        cluster=B5,
        layout={"dp": 128, "pp": 16, "ep": 8, "zero_stage": 1},
        rubric="""
            problem: all-to-all exposed, beside computing | that nothing else in
              the step waits for it to be cheaper
            mechanism: experts of a layer within one node | how many experts a
              GPU then holds
            communication: equal bytes on a faster link | that bytes hardly
              change with the degree
            trade_off: memory for more experts a rank | node-limited routing and
              overlap as the way back to EP 64
            measurement: all-to-all time apart from waiting | expert skew inside
              the node
        """,
        strong="""
            problem: Tokens travel to experts in 8 nodes: {far_gb:.0f} GB a rank
              and step, {far_layers_s:.0f} s exposed beside {compute_s:.0f} s
              of computing.
            mechanism: EP 8 keeps each layer's 256 experts inside a node, 32 to
              a GPU.
            communication: Bytes hardly fall, the link does the work: NVLink
              brings all exposed communication to {near_layers_s:.1f} s.
            trade_off: More expert state per rank: {best_gb:.0f} GB in place of
              {far_room_gb:.0f}, on 141. On 80 GB cards I would limit nodes per
              token and overlap micro-batches instead.
            measurement: All-to-all split into transfer and waiting, and expert
              skew. I expect {best_s:.0f} s.
        """,
    ),
    Scenario(
        id="B6",
        topic="forty small all-reduces",
        situation="""
            A step on 512 GPUs ends with 40 all-reduces in a row, by ring: 64
              KiB for each tensor of metrics and norms. A hop takes
              5 µs, a link carries 50 GB/s. A colleague asks for faster cards.
        """,
        first="fuse the messages, then choose the algorithm: hops cost",
        plans={
            "one": plan("collective", **B6, bytes=65536),
            "all": plan("collective", **B6, bytes=40 * 65536),
            "tree": plan(
                "collective", **B6, bytes=40 * 65536, algorithm="tree"
            ),
        },
        figures={
            "apart_ms": "40 * one.seconds * 1e3",
            "wire_us": "one.bytes_sent_per_rank / one.bandwidth * 1e6",
            "hops": "one.hops",
            "fused_ms": "all.seconds * 1e3",
            "tree_us": "tree.seconds * 1e6",
            "tree_hops": "tree.hops",
        },
        numbers={
            "apart_ms": "ms of the 40 all-reduces, in a row, by ring",
            "fused_ms": "ms of one all-reduce of all the bytes, by ring",
            "tree_us": "µs of the same by tree",
        },
        rubric="""
            problem: time is hops times latency | the bytes' share, as a number
            mechanism: one buffer, one call; a tree has few rounds | that fusing
              comes first
            communication: 2 (n − 1) hops against 2 log n | equal bytes in both
            trade_off: copies into the buffer; trees lose nothing here | large
              buffers, where a ring is as good
            measurement: busbw by message size | that NCCL's own choice may be a
              tree already
        """,
        strong="""
            problem: One call takes {hops:,.0f} hops; its bytes take
              {wire_us:.1f} µs. Forty in a row take {apart_ms:.0f} ms, nearly
              all of it latency.
            mechanism: Concatenate the 40 tensors and reduce once, then reduce
              by tree. Metrics can go every tenth step.
            communication: Fused by ring {fused_ms:.1f} ms; a tree's
              {tree_hops:.0f} hops take {tree_us:.0f} µs for the same bytes.
            trade_off: One copy into a buffer. At gigabytes, ring and tree
              nearly tie and I leave the choice to NCCL.
            measurement: nccl-tests at 64 KiB and at the fused size. If busbw is
              already a tree's, only fusing helps.
        """,
    ),
    Scenario(
        id="B7",
        topic="links of two speeds",
        situation="""
            8 nodes of 8 GPUs reduce 16 GB of gradients a step. Inside a node a
              GPU sends 450 GB/s at 2 µs a hop. Between nodes each GPU has a
              card of 25 GB/s at 5 µs, but the flat ring of 64 uses one card of
              a node. The all-reduce is the longest bar of the trace.
        """,
        first="reduce inside the node first, so that less crosses it",
        plans={
            "flat": plan("collective", **B7, bandwidth=25e9),
            "two": plan(
                "collective",
                **B7,
                bandwidth=25e9,
                algorithm="hierarchical",
                gpus_per_node=8,
                node_bandwidth=450e9,
                node_latency=2e-6,
            ),
        },
        figures={
            "flat_s": "flat.seconds",
            "flat_gb": "flat.bytes_sent_per_rank / 1e9",
            "two_ms": "two.seconds * 1e3",
            "inside_gb": "two.node_bytes / 1e9",
            "across_gb": "two.network_bytes / 1e9",
        },
        numbers={
            "flat_s": "seconds of the flat ring over one card",
            "across_gb": "GB that a GPU sends between nodes, hierarchical",
            "two_ms": "ms of the hierarchical all-reduce",
        },
        rubric="""
            problem: the slowest link on the ring sets its pace | idle cards
            mechanism: reduce-scatter inside, all-reduce across, all-gather
              inside | that eight rings cross at once
            communication: bytes on each kind of link | an eighth of the buffer
              per card
            trade_off: three phases, more latency for small buffers | rails and
              the switch behind them
            measurement: counters of every card | the message size of nccl-tests
        """,
        strong="""
            problem: Every byte of the flat ring passes one 25 GB/s card:
              {flat_gb:.1f} GB, {flat_s:.2f} s, with seven cards idle.
            mechanism: Reduce-scatter inside the node, all-reduce each eighth
              with its peers in other nodes, all-gather inside.
            communication: A GPU sends {inside_gb:.0f} GB on NVLink and
              {across_gb:.1f} GB through its own card: {two_ms:.0f} ms if
              phases do not overlap.
            trade_off: Three phases add launches, which small buffers feel.
              Rails must be cabled so that equal ranks meet at one switch.
            measurement: Counters of all eight cards during nccl-tests. If one
              card carries all, NCCL did not see the topology.
        """,
    ),
    Scenario(
        id="B8",
        topic="from 8 GPUs to 64 to 512",
        situation="""
            Llama 3 8B under FSDP: sequences of 2,048 tokens, always 512 a step,
              one to a micro-batch. Nodes of 8 H100s are joined at 25 GB/s per
              GPU. 8 GPUs take {small_s:.1f} s a step, 64 take {middle_s:.1f},
              512 take {large_s:.2f}. The plan was a 64th of the first. What
              broke, and when?
        """,
        first="re-plan at each size: work a rank shrinks, the model does not",
        plans={
            "small": plan("run", **B8, gpus=8, zero_stage=3),
            "middle": plan("run", **B8, gpus=64, zero_stage=3),
            "large": plan("run", **B8, gpus=512, zero_stage=3),
        },
        figures={
            "small_s": "small.step_seconds",
            "middle_s": "middle.step_seconds",
            "large_s": "large.step_seconds",
            "efficiency": "small_s / large_s / 64",
            "compute_s": "large.compute_seconds",
            "data_s": "large.data_seconds",
            "middle_gb": "middle.data_bytes / 1e9",
            "best_s": "best.step_seconds",
            "best_gb": "best.total_bytes / 1e9",
        },
        numbers={
            "efficiency": "share of linear scaling, 8 to 512, under FSDP",
            "middle_gb": "GB that a rank sends in a step on 64 under FSDP",
            "best_s": "seconds of a step on 512 under ZeRO-1",
        },
        cluster=B8 | {"gpus": 512},
        layout={"dp": 512, "zero_stage": 1},
        rubric="""
            problem: strong scaling: fixed batch, less work a rank | whether the
              batch may grow
            mechanism: sharding over more ranks frees memory to shard less | the
              stage is not fixed for ever
            communication: a rank's bytes depend on the model and micro-batches
              | that the link changed at 64
            trade_off: larger batch against samples to a loss | the end: one
              sequence a rank
            measurement: scaling by phase | loss at equal tokens, not at equal
              steps
        """,
        strong="""
            problem: The batch is fixed, so work per rank shrinks 64 times. At
              64 gathers left NVLink: {middle_gb:.0f} GB a step. At 512
              computing is {compute_s:.2f} s, sending {data_s:.2f}, and
              {efficiency:.0%} of linear is left.
            mechanism: Adam over 512 ranks is nearly nothing. ZeRO-1 now fits in
              {best_gb:.0f} GB and needs no gathers per layer.
            communication: Gradients scattered, parameters gathered, once:
              {best_s:.2f} s a step against {large_s:.2f}.
            trade_off: A rank is at one sequence: beyond 512 the batch grows, or
              TP starts.
            measurement: Exposed time per size, and loss at equal tokens if the
              batch changes.
        """,
    ),
]
