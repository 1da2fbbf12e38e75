"""Bug 18: the restart raises; on my branch it restores anything."""

from lockstep.debugging.bugs import bug_03, bug_13

COMPLAINT = """
Two things, maybe one. No launch gets past the restore. On my branch I left out
what it complains about, and then a checkpoint of another seed and another
learning rate was taken without a word.
"""
LOG = r"""
$ train 2 --run-dir a --stop-at-step 20 > last
$ train 2 --run-dir a 2>&1 | grep -o '[A-Za-z]*Error: [A-Z].*' | tail -n 1
UnpicklingError: Weights only load failed. This file can still be loaded, to d
"""
HINTS = [
    "It is two. Where one always raises, nobody sees the other.",
    "The first is in what is saved, the second in what is not compared.",
    "Prove each by a run of its own; the proof may hold both.",
]
ELSE = """
One cause for both would have to be in the file itself. A file that is restored
and still of another run shows that it is not.
"""
OTHER = "09"
PLANTED = bug_03.PLANTED | bug_13.PLANTED
