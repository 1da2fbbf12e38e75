"""Jobs that are slow for one reason each, and the change that tells which.

    python -m lockstep.experiments.slow_jobs NAME...

Each module has RANKS, how many processes it takes; `measured`, which one of
them runs; and `told`, what their answers come to, line by line. The slow job
and the mended one run in turn in the same processes. Jobs that fail rather
than dawdle belong to `faults`.
"""
