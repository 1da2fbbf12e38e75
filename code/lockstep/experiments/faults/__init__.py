"""Failures that no `--fault` of the trainer makes, each as small as it goes.

And campaigns of the trainer's faults, drawn by chance: each run has to end as
if undisturbed.
"""
