"""Lab 04: one solution, which the handbook quotes."""

from lockstep.parallel.tensor_parallel import (
    ColumnParallelLinear,
    ParallelAttention,
    ParallelMLP,
    RowParallelLinear,
    vocab_parallel_cross_entropy,
)

__all__ = [
    "ColumnParallelLinear",
    "ParallelAttention",
    "ParallelMLP",
    "RowParallelLinear",
    "vocab_parallel_cross_entropy",
]
