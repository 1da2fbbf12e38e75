"""Parallelism from its parts: collectives, data, tensor, context, pipeline and
expert parallelism and sharding, written out small enough to read.

It is what the labs build and the chapters show. How an answer to a lab is
judged belongs to `grading`, how long a collective takes to `planner`.
"""
