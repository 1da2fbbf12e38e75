"""RL post-training small enough to read: trainers, samplers, and what passes
between them. `python -m lockstep.rl --help` runs it.
"""
