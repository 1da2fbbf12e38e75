"""Bug 05: the restart works on one process and not on two."""

from lockstep.debugging.bugs.bug_04 import REWRITTEN as DIGEST

COMPLAINT = """
On one process I can stop and restart as often as I like. On two processes
every restart dies within a second, though the same two processes wrote the
checkpoint. One rank restores without a word; the other one says that this is
another run.
"""
LOG = r"""
$ train 2 --run-dir a --stop-at-step 20 > last
$ train 2 --run-dir a 2>&1 | grep 'another run'
step-00000020 is of another run: 8af6129cef87cf76, not a9623fe5aa476dc0
$ grep -o 'checkpoint_[a-z]*' a/events/attempt-1-*
a/events/attempt-1-rank-0.jsonl:checkpoint_restored
"""
HINTS = [
    "Each rank logs `run_started`. Lay the two beside each other.",
    "Rank 0 wrote what is compared. What of it is true on rank 0 alone?",
    "`OF_A_LAUNCH` names the settings that are no part of what a run is.",
]
ELSE = """
Ranks launched with different flags, or two versions of the code on two nodes.
Equal settings on one machine rule them out.
"""
OTHER = "09"
REWRITTEN = [
    *DIGEST,
    (
        """\
               "checkpoint_every_steps", "log_every_steps")
""",
        """\
               "checkpoint_every_steps", "log_every_steps",
               "rank", "local_rank")
""",
    ),
    (
        """\
    stop_at_step: int = 0  # 0: run to the end
""",
        """\
    stop_at_step: int = 0  # 0: run to the end
    rank: int = int(os.environ.get("RANK", 0))  # torchrun fills in both
    local_rank: int = int(os.environ.get("LOCAL_RANK", 0))
""",
    ),
]
PLANTED = {
    "05": [
        (
            """\
               "checkpoint_every_steps", "log_every_steps",
               "rank", "local_rank")
""",
            """\
               "checkpoint_every_steps", "log_every_steps")
""",
        )
    ]
}
