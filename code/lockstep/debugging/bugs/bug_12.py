"""Bug 12: what runs on the cluster does not run on my laptop."""

COMPLAINT = """
I wanted to step through the trainer in a debugger on my laptop, which has no
GPU. It raises before its first step. On the cluster the same command, with the
same number of processes, has run every night for months.
"""
LOG = r"""
$ train 2 --run-dir a 2>&1 | grep -o '[A-Za-z]*Error: .*' | head -n 1
RuntimeError: Distributed package doesn't have NCCL built in
"""
HINTS = [
    "Which line is the last of ours in the traceback?",
    "What does it take for granted about the machine?",
    "`gpu` is known two lines above.",
]
ELSE = """
A torch without distributed support, a port in use, a firewall. The message
names what it lacks.
"""
OTHER = "13"
PLANTED = {
    "12": [
        (
            '"cpu:gloo,cuda:nccl" if gpu else "gloo", **where',
            '"cpu:gloo,cuda:nccl", **where',
        )
    ]
}
