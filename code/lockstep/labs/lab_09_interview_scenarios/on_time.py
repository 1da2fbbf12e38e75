"""Scenarios of group C: what takes the time, and the money."""

from .scenario import Scenario, plan

C1 = {
    "preset": "gpt3-175b",
    "gpus": 256,
    "sequence": 2048,
    "global_batch": 256,
    "hardware": "a100",
}
C2 = {
    "preset": "llama3-405b",
    "gpus": 1024,
    "sequence": 8192,
    "global_batch": 256,
    "hardware": "h200",
}
C3 = {"preset": "llama3-8b", "gpus": 64, "sequence": 8192, "global_batch": 128}
C4 = {
    "layers": 30,
    "hidden": 640,
    "heads": 20,
    "vocab": 33,
    "gpus": 1,
    "sequence": 1024,
    "global_batch": 64,
}
C5 = {
    "preset": "llama3-70b",
    "gpus": 1024,
    "sequence": 4096,
    "global_batch": 256,
}
C7 = {"gpus": 4096, "gpu_mtbf_hours": 50000}
C8 = {
    "preset": "llama3-8b",
    "sequence": 8192,
    "global_batch": 256,
    "efficiency": 0.45,
    "tokens": 1e12,
    "price_gpu_hour": 2.5,
}

SCENARIOS = [
    Scenario(
        id="C1",
        topic="idle stages",
        situation="""
            GPT-3 175B runs on 256 A100s of 80 GB as TP 8, PP 8, DP 4 with
              sequence parallelism and ZeRO-1: sequences of 2,048 tokens, 256 a
              step, 1F1B. Micro-batches hold 4 sequences "for better matrix
              products". A step takes {four_s:.1f} s, and stages idle for
              {four_share:.0%} of the time that they work.
        """,
        first="count micro-batches per stage, and make them smaller",
        plans={
            "four": plan(
                "run",
                **C1,
                tp=8,
                pp=8,
                sequence_parallel=True,
                zero_stage=1,
                micro_batch=4,
            ),
            "bubble": plan("pipeline", stages=8, microbatches=16),
            "filled": plan("pipeline", stages=8, microbatches=64),
        },
        figures={
            "four_s": "four.step_seconds",
            "four_gb": "four.activations_bytes / 1e9",
            "four_share": "four.bubble_overhead",
            "of_total": "bubble.bubble_fraction_of_total",
            "filled_total": "filled.bubble_fraction_of_total",
            "best_s": "best.step_seconds",
            "best_gb": "best.activations_bytes / 1e9",
            "stage_gb": "best.pipeline_bytes / 1e9",
        },
        numbers={
            "of_total": "share of all time that stages idle, as it is",
            "filled_total": "the same with micro-batches of one sequence",
            "best_s": "seconds of a step with micro-batches of one sequence",
        },
        cluster=C1,
        layout={
            "dp": 4,
            "tp": 8,
            "pp": 8,
            "sequence_parallel": True,
            "zero_stage": 1,
            "micro_batch": 1,
        },
        rubric="""
            problem: 7 fill steps against 16 micro-batches | which definition of
              the bubble
            mechanism: more, smaller micro-batches fill the pipeline | the batch
              of the step stays
            communication: as many bytes, in more messages | latency of each
            trade_off: smaller products may be slower | activations shrink too
            measurement: idle share, and products' rate at 2,048 tokens | the
              slowest stage
        """,
        strong="""
            problem: 16 micro-batches on 8 stages: 7 rounds of fill and drain
              idle {of_total:.0%} of all time.
            mechanism: Micro-batches of one sequence make 64, at equal global
              batch, so the bubble falls to {filled_total:.0%} of all time.
            communication: Stages exchange the same {stage_gb:.1f} GB, in four
              times the messages.
            trade_off: Products over 2,048 tokens may reach less of the peak.
              Activations fall from {four_gb:.0f} to {best_gb:.0f} GB, which
              could buy fewer stages.
            measurement: Rate of the products at both sizes, then idle time per
              stage. I expect {best_s:.1f} s against {four_s:.1f}; uneven stages
              would show as a remainder.
        """,
    ),
    Scenario(
        id="C2",
        topic="no more micro-batches",
        situation="""
            Llama 3 405B runs on 1,024 H200s as TP 8, PP 16, DP 8 with sequence
              parallelism and ZeRO-1: sequences of 8,192 tokens, 256 a step,
              micro-batches of one. That leaves {rounds:.0f} micro-batches, and
              the batch may not grow. Under 1F1B a step takes {plain_s:.1f} s,
              {idle_s:.1f} of them idle.
        """,
        first="cut each rank's layers into parts: interleave",
        plans={
            "plain": plan(
                "run", **C2, tp=8, pp=16, sequence_parallel=True, zero_stage=1
            ),
            "bubble": plan("pipeline", stages=16, microbatches=32),
            "parts": plan(
                "pipeline",
                stages=16,
                microbatches=32,
                schedule="interleaved",
                virtual_stages=4,
            ),
        },
        figures={
            "rounds": "plain.microbatches",
            "plain_s": "plain.step_seconds",
            "idle_s": "plain.bubble_seconds",
            "of_total": "bubble.bubble_fraction_of_total",
            "parts_total": "parts.bubble_fraction_of_total",
            "plain_gb": "plain.pipeline_bytes / 1e9",
            "parts_gb": "best.pipeline_bytes / 1e9",
            "plain_room_gb": "plain.total_bytes / 1e9",
            "best_gb": "best.total_bytes / 1e9",
            "best_s": "best.step_seconds",
        },
        numbers={
            "of_total": "share of all time that stages idle under 1F1B",
            "parts_total": "the same, interleaved, 4 parts to a rank",
            "parts_gb": "GB that a rank sends from stage to stage, interleaved",
        },
        cluster=C2,
        layout={
            "dp": 8,
            "tp": 8,
            "pp": 16,
            "sequence_parallel": True,
            "zero_stage": 1,
            "schedule": "interleaved",
            "virtual_stages": 4,
        },
        rubric="""
            problem: fill and drain at a fixed number of micro-batches | why
              that number cannot rise
            mechanism: a rank holds several short parts, so filling is quicker |
              micro-batches in multiples of stages
            communication: times the parts | still small beside TP
            trade_off: more activations in flight | zero-bubble as the other way
            measurement: idle time per rank, peak memory of the first stage |
              126 layers do not divide evenly
        """,
        strong="""
            problem: 15 rounds of fill and drain against {rounds:.0f}
              micro-batches idle {of_total:.0%} of all time, and batch and
              micro-batch are both fixed.
            mechanism: Interleave: four short parts per rank, so the pipeline
              fills four times as fast. {parts_total:.1%} idle remains.
            communication: Activations pass boundaries four times as often:
              {parts_gb:.1f} GB a rank in place of {plain_gb:.1f}.
            trade_off: More micro-batches in flight: {best_gb:.0f} GB on 141,
              from {plain_room_gb:.0f}. Zero-bubble schedules are the
              alternative with less memory and more care at the optimizer.
            measurement: Idle per stage and the first stage's peak. I expect
              {best_s:.1f} s; 126 layers leave stages uneven.
        """,
    ),
    Scenario(
        id="C3",
        topic="one slow rank",
        situation="""
            Llama 3 8B runs on 64 H100s with FSDP: sequences of 8,192 tokens,
              128 a step. Since Tuesday a step takes {slow_s:.2f} s instead of
              {best_s:.2f}. Every rank reports long collectives but rank 37,
              whose collectives are short. A colleague has opened a ticket with
              the network team.
        """,
        first="trust arrival times: who waits least is the one awaited",
        plans={
            "sound": plan("run", **C3, zero_stage=3),
        },
        figures={
            "best_s": "sound.step_seconds",
            "slow_s": "sound.step_seconds / 0.7",
            "wait_s": "slow_s - best_s",
            "send_s": "sound.data_seconds",
            "lost": "24 * sound.gpus * (1 - best_s / slow_s)",
        },
        numbers={
            "send_s": "seconds that a rank sends in a sound step",
            "wait_s": "seconds that 63 ranks wait in a step, at 70 % of speed",
            "lost": "GPU hours of work lost in a day",
        },
        rubric="""
            problem: 63 ranks wait for one | that a long collective is a symptom
              of waiting
            mechanism: a collective ends when the last rank arrives | rank 37
              arrives last, hence waits least
            communication: bytes unchanged, so the network is no suspect yet |
              the time-to-arrive, apart from transfer
            trade_off: drain and restart against going on | what a restart costs
              beside what a day loses
            measurement: per-rank compute time, clocks, temperature | a fixed
              matmul on that GPU alone
        """,
        strong="""
            problem: 63 ranks wait {wait_s:.2f} s a step for rank 37: its
              collectives are short because it arrives last.
            mechanism: Every all-gather and reduce-scatter ends with the slowest
              arrival. One GPU at 70 % sets all to 70 %.
            communication: Bytes are as before. Transfers, counted from the last
              arrival, still take some {send_s:.2f} s a step, which acquits
              the network.
            trade_off: Draining the node costs a restart from a checkpoint.
              Keeping it costs {lost:.0f} GPU hours a day.
            measurement: Compute time by rank, and a fixed matmul with
              clock and temperature on that GPU. If the product is fast, I look
              at its input or host.
        """,
    ),
    Scenario(
        id="C4",
        topic="seven more GPUs",
        situation="""
            A protein model (30 layers, hidden 640, 20 heads, 33 tokens) trains
              on one H100: 64 sequences of 1,024 tokens a step, in one
              micro-batch. A step takes 0.40 s, of which the profile shows 0.27
              s in the loader's `next`, with the GPU idle. The team asks for
              seven more GPUs and DDP. For the layout: one GPU stays.
        """,
        first="refuse to parallelize: feed the GPU that is there",
        plans={},
        figures={
            "best_ms": "best.step_seconds * 1e3",
            "now": "best.global_batch / 0.40",
            "needed": "best.global_batch / best.step_seconds",
            "eight": "8 * needed",
            "gain": "0.40 / best.step_seconds",
            "best_gb": "best.total_bytes / 1e9",
        },
        numbers={
            "best_ms": "ms of a step that never waits for data",
            "needed": "sequences per second that one busy GPU takes",
            "eight": "sequences per second that eight busy GPUs would take",
        },
        cluster=C4,
        layout={"dp": 1, "micro_batch": 64},
        rubric="""
            problem: the GPU is idle for want of input | that memory and compute
              suffice
            mechanism: workers, prefetch, tokenising once, packing | which of
              these the profile points at
            communication: none: one rank | that DDP would add some
            trade_off: CPU and storage work against seven GPUs | one loader
              feeding eight would starve worse
            measurement: data wait by step; a run on cached batches | the target
              in samples per second
        """,
        strong="""
            problem: The GPU waits for data in two thirds of the step. Memory is
              no reason either: {best_gb:.0f} GB. Eight GPUs would wait too.
            mechanism: No parallelism. Profile the loader: parse once, add
              workers, prefetch into pinned memory, batch by tokens.
            communication: None on one rank. DDP would add an all-reduce and
              solve nothing.
            trade_off: Engineering on the host, for up to {gain:.1f} times the
              speed on the same GPU.
            measurement: Step time on one cached batch: plan says
              {best_ms:.0f} ms. The loader then has to deliver {needed:.0f}
              sequences a second instead of {now:.0f}; eight GPUs would want
              {eight:,.0f}.
        """,
    ),
    Scenario(
        id="C5",
        topic="more GPUs than sequences",
        situation="""
            Llama 3 70B moves from 256 to 1,024 H100s in nodes of 8. The batch
              is fixed at 256 sequences of 4,096 tokens by an agreed recipe.
              FSDP over all ranks does not even start. A patch runs TP 4 with
              FSDP over the other 256 ranks, at {four_s:.2f} s a step.
        """,
        first="bound data parallelism by the batch; spend the rest inside it",
        plans={
            "four": plan(
                "run", **C5, tp=4, sequence_parallel=True, zero_stage=3
            ),
        },
        figures={
            "ways": "four.gpus / four.global_batch",
            "four_s": "four.step_seconds",
            "four_data_s": "four.data_seconds",
            "four_exposed_s": "four.exposed_seconds",
            "best_data_s": "best.data_seconds",
            "best_gb": "best.total_bytes / 1e9",
            "best_s": "best.step_seconds",
        },
        numbers={
            "ways": "ranks, at least, that must share one sequence",
            "four_exposed_s": "seconds of exposed communication, TP 4, ZeRO-3",
            "best_s": "seconds of a step with TP 8, SP, ZeRO-1, micro-batch 2",
        },
        cluster=C5,
        layout={
            "dp": 128,
            "tp": 8,
            "sequence_parallel": True,
            "zero_stage": 1,
            "micro_batch": 2,
        },
        rubric="""
            problem: a rank cannot hold less than one sequence | the batch as
              the limit, before memory
            mechanism: model axes use what data parallelism cannot | TP 8 lets
              ZeRO-1 fit
            communication: which of the two is exposed, for how long | gathers
              across 128 nodes
            trade_off: narrower products | asking for a larger batch
            measurement: exposed time by kind, products' rate | the point at
              which fewer GPUs are the answer
        """,
        strong="""
            problem: 256 sequences feed 256 data-parallel ranks. At least
              {ways:.0f} GPUs must share each sequence, whatever memory says.
            mechanism: TP 8 with SP fills a node and cuts state enough for
              ZeRO-1 and both sequences in one micro-batch: {best_gb:.0f} GB, no
              parameter gathered per layer.
            communication: With TP 4, FSDP sends for {four_data_s:.2f} s and
              {four_exposed_s:.2f} s are exposed in all. With TP 8, ZeRO-1 sends
              for {best_data_s:.2f}, and without accumulation the whole step
              covers it.
            trade_off: {best_s:.2f} s a step against {four_s:.2f}, with narrower
              products. A larger batch would be cheaper, if the recipe allowed
              it.
            measurement: Exposed time by kind and the products' rate. If
              tokens per GPU fall by half, fewer GPUs are right.
        """,
    ),
    Scenario(
        id="C6",
        topic="a checkpoint every hour",
        situation="""
            Llama 3 70B trains on 64 GPUs with a sharded Adam. Each hour rank 0
              gathers everything and writes it at 2 GB/s while all others wait.
              The file system takes 32 GB/s from many writers. The team wants
              to save "only the weights" to be faster.
        """,
        first="count what must survive, then let every rank write its part",
        plans={
            "shape": plan("params", preset="llama3-70b"),
        },
        figures={
            "weights_gb": "2 * shape.total / 1e9",
            "saved_gb": "12 * shape.total / 1e9",
            "one_s": "saved_gb / 2",
            "all_s": "saved_gb / 32",
            "lost": "one_s / (3600 + one_s)",
            "each_gb": "saved_gb / 64",
        },
        numbers={
            "saved_gb": "GB of master copy and both moments in fp32",
            "one_s": "seconds until rank 0 has written them",
            "all_s": "seconds if all write at the file system's rate",
        },
        rubric="""
            problem: bytes, one writer, everyone waits | share of the hour lost
            mechanism: sharded write, then asynchronous from host memory | the
              order: copy, write, manifest, rename
            communication: none if each rank writes its shard | the gather to
              rank 0 that goes away
            trade_off: restart on another topology needs resharding | weights
              alone lose the optimizer
            measurement: stall per save, and a timed restore | restore is what
              counts
        """,
        strong="""
            problem: State that must survive is {saved_gb:.0f} GB: master copy
              and both moments. One writer takes {one_s:.0f} s,
              {lost:.0%} of the time.
            mechanism: Each rank writes its {each_gb:.0f} GB shard: {all_s:.0f}
              s. Then copy to host memory first, and write while training goes
              on; publish a manifest last.
            communication: No gather to rank 0 any more; shards go to storage
              directly.
            trade_off: Weights alone are {weights_gb:.0f} GB and restart Adam
              from nothing: the loss pays. Shards need resharding when the
              topology changes.
            measurement: Stall per save, then a timed restore on another number
              of ranks, with equal loss.
        """,
    ),
    Scenario(
        id="C7",
        topic="failures at 4,096 GPUs",
        situation="""
            A job on 4,096 GPUs stops whenever one fails. A GPU with its share
              of the host fails once in 50,000 hours. A save stops the job for
              120 s, a restart takes 900 s, and it saves every three hours
              "because saves are expensive". A manager asks for better
              hardware.
        """,
        first="compute the job's own failure rate, then the interval",
        plans={
            "seldom": plan(
                "goodput",
                **C7,
                save_seconds=120,
                restart_seconds=900,
                save_every_seconds=10800,
            ),
            "best": plan(
                "goodput", **C7, save_seconds=120, restart_seconds=900
            ),
            "short": plan(
                "goodput", **C7, save_seconds=10, restart_seconds=900
            ),
            "quick": plan(
                "goodput", **C7, save_seconds=120, restart_seconds=180
            ),
        },
        figures={
            "mtbf_h": "best.mtbf_seconds / 3600",
            "interval_min": "best.interval_seconds / 60",
            "seldom_share": "seldom.goodput",
            "share": "best.goodput",
            "short_share": "short.goodput",
            "short_min": "short.interval_seconds / 60",
            "quick_share": "quick.goodput",
        },
        numbers={
            "mtbf_h": "hours between failures of the job",
            "interval_min": "minutes of work between saves, after Daly",
            "short_share": "goodput at the best interval, saves of 10 s",
        },
        rubric="""
            problem: the job's failures, not a GPU's | lost work is half an
              interval, on average
            mechanism: Daly's interval follows from save time and failure rate |
              that a shorter stall shortens the interval too
            communication: a save moves state to host or a peer | off the
              training network's critical moments
            trade_off: saves against lost work | restart time as the third term
            measurement: goodput from the event log, by cause | what was assumed
              about independence
        """,
        strong="""
            problem: One failure in {mtbf_h:.1f} hours stops all. Three hours
              between saves leave a goodput of {seldom_share:.1%}.
            mechanism: Save every {interval_min:.0f} minutes, as Daly has it:
              {share:.1%}. Then shorten the stall: copy to host memory in 10 s
              and save every {short_min:.0f} minutes: {short_share:.1%}.
            communication: State goes to the host, then to storage or a peer,
              behind training.
            trade_off: A restart in 180 s alone gives {quick_share:.1%}, so the
              stall comes first; spares and peer copies next.
            measurement: Goodput from the event log, split into saves, lost work
              and restarts. If failures cluster, the formula is optimistic.
        """,
    ),
    Scenario(
        id="C8",
        topic="four times the GPUs",
        situation="""
            Finance asks: 10¹² tokens of Llama 3 8B, sequences of 8,192 tokens,
              256 a step, at $2.50 a GPU hour. 64 H100s are free, 256 can be
              had. Matmuls reach 45 % of the peak with this code. "What
              does it cost to finish in a quarter of the time?" Give the layout
              for 256.
        """,
        first="price FLOPs, not days: GPU hours stay while nothing is exposed",
        plans={
            "few": plan("run", **C8, gpus=64, zero_stage=3),
        },
        figures={
            "few_days": "few.days",
            "cost": "few.cost / 1e3",
            "days": "best.days",
            "same": "best.cost / 1e3",
            "flops": "few.flops_per_token * few.tokens / 1e22",
            "data_s": "best.data_seconds",
            "compute_s": "best.compute_seconds",
            "dearer": "same * 45 / 40",
        },
        numbers={
            "few_days": "days on 64 GPUs with ZeRO-3",
            "cost": "cost on 64 GPUs, in thousands of $",
            "days": "days on 256 GPUs with ZeRO-3",
        },
        cluster=C8 | {"gpus": 256},
        layout={"dp": 256, "zero_stage": 3},
        rubric="""
            problem: operations, divided by what a GPU really does | the MFU
              assumed, and whence
            mechanism: data parallelism divides time, not work | the batch's
              limit: one sequence a rank
            communication: does it stay hidden at 256 | exposed seconds are paid
              by all GPUs
            trade_off: time against risk of failures and idle reservation | cost
              of one point of MFU
            measurement: tokens per GPU second in a pilot on both | goodput,
              which multiplies the bill
        """,
        strong="""
            problem: {flops:.1f} × 10²² FLOPs, attention included. At 45 % of
              the peak 64 GPUs take {few_days:.0f} days and ${cost:.0f},000.
            mechanism: FSDP on 256 with one sequence a rank: {days:.1f} days.
              Work is divided, not reduced, so the bill stays ${same:.0f},000.
            communication: {data_s:.2f} s of gathers and gradients a step behind
              {compute_s:.2f} s of computing: hidden, so no GPU is paid to
              wait.
            trade_off: Beyond 256 the batch must grow. At 40 % the bill is
              ${dearer:.0f},000, and failures add to it.
            measurement: A pilot's tokens per GPU second on 64 and 256, times
              measured goodput. Unequal rates price the hurry.
        """,
    ),
]
