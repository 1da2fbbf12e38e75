"""Probes: what torch does, shown in a few lines that a page runs."""
