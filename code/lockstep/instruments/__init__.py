"""Run a function on a few ranks of this machine, and count what it sends and
what memory it holds.

What the pages teach, the experiments and the graders all measure with these;
nothing here is a subject of its own.
"""
