"""Lab 12: the 64-GPU design.

**Under ZeRO, tensor parallelism saves no optimizer state.** Its ranks would
share that state as data-parallel ones. What it splits is weights and one
sample, and with sequences of 32,768 tokens one sample of Llama 3 70B is what
overflows 64 GPUs of 80 GB.

Fill in a worksheet as a whiteboard would have it: an axis, its degree, its
ranks, what it sends over which link, what it saves, and what happens when that
link is slow. Then run a larger job on 4,096 GPUs: failures, spares, peer
checkpoints, silent corruption, goodput. One of its requirements cannot be met
by any design, and must be refused with a number.

The grader asks the planner about *your* layout and compares, within 10 %. It
takes an axis away to see whether it saves what you say.
"""
