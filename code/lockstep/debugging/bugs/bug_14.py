"""Bug 14: the ranks of a restart are not at one step."""

COMPLAINT = """
After the restart the job hung, then gloo reported a mismatch. Both nodes mount
the same file system, and both say that they restored without a problem. By the
time I listed the folder on either node, it looked the same on both.
"""
LOG = r"""
$ train 2 --run-dir a --stop-at-step 100 > last; ls a/checkpoints
step-00000050
step-00000100
$ train 2 --run-dir a 2>&1 | grep -o 'Received data size[^.]*'
Received data size doesn't match expected size
$ grep checkpoint_r a/events/* | grep -o '^[^:]*\|"step": [0-9]*' | uniq
a/events/attempt-1-rank-0.jsonl
"step": 100
a/events/attempt-1-rank-1.jsonl
"step": 50
"""
HINTS = [
    "Which step does each rank say it restored?",
    "A file system's client may list a folder from its cache.",
    "How many ranks have to look?",
]
ELSE = """
A rank that failed to write, a clock, or two jobs in one folder. Ranks that
restore two steps from one whole folder rule out all of them.
"""
OTHER = "09"
PLANTED = {
    "14": [
        (
            "of the newest checkpoint, which rank 0 picks.",
            "of the newest checkpoint.",
        ),
        (
            "    path = on_rank0(lambda: max(saves, default=None))\n",
            "    path = max(saves, default=None)\n",
        ),
    ]
}
