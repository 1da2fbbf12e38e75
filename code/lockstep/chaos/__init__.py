"""Faults drawn by chance, in many runs: each has to end as if undisturbed."""
