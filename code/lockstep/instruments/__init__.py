"""Run a function on a few ranks of this machine, count what it sends and what
memory it holds, and time it; stand-ins for a GPU and for a slow file system.

What the pages teach, the experiments and the graders all measure with these;
nothing here is a subject of its own.
"""
