"""Broken trainers, to be found out."""
