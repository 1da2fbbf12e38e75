"""Bug 13: two runs of a sweep ended in one."""

COMPLAINT = """
A colleague launched her run with another seed and another learning rate, and
left my `--run-dir` in the command. It went on from my step 20 as if nothing
were amiss. We noticed a week later, when her curve began where mine had
stopped. The checkpoint does say whose it is.
"""
LOG = r"""
$ train 2 --run-dir a --stop-at-step 20 > last
$ train 2 --run-dir a --seed 1 --learning-rate 1e-2 > last; echo exit code $?
exit code 0
$ grep -o '"step".*"loss": [0-9.]\{5\}' last
"step": 200, "position": 12800, "loss": 0.132
$ grep -o '"event": "checkpoint_r[^,]*' a/events/attempt-1-rank-0.jsonl
"event": "checkpoint_restored"
"""
HINTS = [
    "What of the checkpoint is read, and what is only written?",
    "What decides the training wherever it runs? The config has a word for it.",
    "A refusal is a good answer. A good refusal names the setting.",
]
ELSE = """
A symbolic link, a wrong mount, or a job array that expands to one name. They
explain why she met my folder, and not why the trainer took it.
"""
OTHER = "09"
PLANTED = {
    "13": [
        (
            """\
    for name, was in state["config"].items():
        if (now := getattr(r.cfg, name)) != was:
            sys.exit(f"--{name.replace('_', '-')} is {now}; the run has {was}")
""",
            "",
        )
    ]
}
