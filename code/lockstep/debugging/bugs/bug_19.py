"""Bug 19: no batch size makes a difference."""

from lockstep.debugging.bugs import bug_07, bug_17

COMPLAINT = """
I compared micro-batches of 8, 16 and 32 at one global batch, to be sure that
they agree, and they do: all end at an accuracy of about 0.25. A reviewer says
that this proves nothing, and that they would not agree if I had a real task.
"""
LOG = r"""
$ train 1 --run-dir a --micro-batch-size 8 > 8
$ train 1 --run-dir b --micro-batch-size 32 > 32
$ grep -o '"accuracy": [0-9.]*' 8 32
8:"accuracy": 0.253
32:"accuracy": 0.25
"""
HINTS = [
    "It is two. On this task no mistake can cost anything.",
    "Make the task one that can be learned; then compare again.",
    "Count how often the optimizer steps, and of how many samples.",
]
ELSE = """
That everything is as it should be: equal results are what he hoped for. An
accuracy of one in four classes says to look at the task first.
"""
OTHER = "16"
PLANTED = bug_07.PLANTED | bug_17.PLANTED
