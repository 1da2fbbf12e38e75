"""Rooms that attach to the core at its three seams; the core imports none."""
