"""Campaigns of faults drawn by chance: each run has to end as if undisturbed.

A single fault that a page explains belongs to `faults`.
"""
