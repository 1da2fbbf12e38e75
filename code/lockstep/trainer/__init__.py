"""The reference trainer: a core of ten modules that the handbook shows whole,
in the order in which they are read, and `extensions` that attach to it.

It imports nothing else of the package, so that a notebook can carry it.
"""
