"""Bug 10: the quota is raised, and still no launch lasts a second."""

COMPLAINT = """
The job ran into its disk quota at step 10, while it saved. The quota is higher
now. The checkpoint of step 5 is there and I can load it by hand. Yet every
launch dies at once, and the scheduler has used up its retries on it.
"""
LOG = r"""
$ train 1 --run-dir a --stop-at-step 5 > last
$ (ulimit -f 16; train 1 --run-dir a --stop-at-step 10 > last)
$ wc -c a/checkpoints/*/*
39129 a/checkpoints/step-00000005/rank-0.pt
16384 a/checkpoints/step-00000010/rank-0.pt
55513 total
$ train 1 --run-dir a 2>&1 | grep -o '[A-Za-z]*Error: [^ ].*' | tail -n 1
OSError: [Errno 22] Invalid argument
"""
HINTS = [
    "Which checkpoint do these launches try to restore? Look at its size.",
    "From which moment on is a checkpoint found by its name?",
    "What does a file system do in one step, whole or not at all?",
]
ELSE = """
A bad sector, or two jobs in one directory. A rank that is killed in
the middle of its write, and nothing else, shows which it was.
"""
OTHER = "13"
PLANTED = {
    "10": [
        ("# 6. Checkpoint: whole, or not there.\n", "# 6. Checkpoint.\n"),
        (
            """\
    tmp, final = root / "tmp", root / f"step-{state['step']:08d}"
    on_rank0(lambda: shutil.rmtree(tmp, ignore_errors=True) or tmp.mkdir())
""",
            """\
    final = root / f"step-{state['step']:08d}"
    on_rank0(lambda: final.mkdir(exist_ok=True))
""",
        ),
        (
            """\
    torch.save({"state": state, "rng": rng, **parts}, tmp / f"rank-{r.rank}.pt")
""",
            """\
    own = {"state": state, "rng": rng, **parts}
    torch.save(own, final / f"rank-{r.rank}.pt")
""",
        ),
        (
            """\
    dist.barrier()
    on_rank0(lambda: tmp.rename(final) and os.sync())
""",
            """\
    dist.barrier()
""",
        ),
    ]
}
