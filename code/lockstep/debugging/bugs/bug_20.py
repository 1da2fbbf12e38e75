"""Bug 20: a quota was hit, and ranks restore different things."""

from lockstep.debugging.bugs import bug_10, bug_14

COMPLAINT = """
The job ran into its disk quota while it saved. The quota is higher now, and
every launch dies in its restore. Once, when the file system was slow, one rank
went on from an older step instead. I removed the newest checkpoint by hand and
it ran.
"""
LOG = r"""
$ train 2 --run-dir a --stop-at-step 5 > last
$ (ulimit -f 16; train 2 --run-dir a --stop-at-step 10 > last)
$ wc -c a/checkpoints/*/*
39129 a/checkpoints/step-00000005/rank-0.pt
 6882 a/checkpoints/step-00000005/rank-1.pt
16384 a/checkpoints/step-00000010/rank-0.pt
 6882 a/checkpoints/step-00000010/rank-1.pt
69277 total
$ train 2 --run-dir a 2>&1 | grep -o '[A-Za-z]*Error: [^ ].*' | tail -n 1
OSError: [Errno 22] Invalid argument
"""
HINTS = [
    "It is two. One leaves something that must not be found, the other lets"
    " ranks find different things.",
    "From which moment on is a checkpoint found by its name?",
    "How many ranks have to look?",
]
ELSE = """
A broken disk, or a client that caches. Both happen; a trainer must not train on
from what they leave.
"""
OTHER = "09"
PLANTED = bug_10.PLANTED | bug_14.PLANTED
