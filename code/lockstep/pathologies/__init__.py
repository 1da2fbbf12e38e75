"""Pathologies: jobs that are slow for one reason each, and the move that tells.

    python -m lockstep.pathologies NAME...

Each module has RANKS, how many processes it takes; `measured`, which one of
them runs; and `told`, what their answers come to, line by line. The slow one
and the mended one run in turn in the same processes.
"""
