"""Lockstep: distributed PyTorch training whose every line runs."""
