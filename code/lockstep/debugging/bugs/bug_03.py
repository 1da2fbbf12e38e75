"""Bug 03: it has saved for weeks, and today is the first restart."""

COMPLAINT = """
The cluster went down last night. All checkpoints are there, with plausible
sizes and dates, and the job that wrote them never logged an error. No launch
gets past the restore, whichever checkpoint I leave as the newest.
"""
LOG = r"""
$ train 2 --run-dir a --stop-at-step 20 > last
$ ls a/checkpoints
step-00000020
$ train 2 --run-dir a 2>&1 | grep -o '[A-Za-z]*Error: [A-Z].*' | tail -n 1
UnpicklingError: Weights only load failed. This file can still be loaded, to d
"""
HINTS = [
    "The error's last lines name what is refused. Which line saves it?",
    "What has `torch.load` taken by default since torch 2.6, and why?",
    "The load need not change. And a file is not to be trusted more than now.",
]
ELSE = """
A torn file, another torch, or a class that has moved since. A restore right
after a save, in one process, rules them out.
"""
OTHER = "13"
PLANTED = {
    "03": [
        (
            """\
    gpu = r.device.type == "cuda"  # Cut: Python's and NumPy's generators.
    rng = torch.get_rng_state(), gpu and torch.cuda.get_rng_state()
""",
            """\
    gpu = r.device.type == "cuda"
    rng = (torch.get_rng_state(), gpu and torch.cuda.get_rng_state(),
           np.random.get_state())
""",
        ),
        (
            """torch.load(path / "rank-0.pt", "cpu", weights_only=True)
""",
            """torch.load(path / "rank-0.pt", "cpu")
""",
        ),
        (
            """path / f"rank-{r.rank}.pt", "cpu", weights_only=True)
""",
            """path / f"rank-{r.rank}.pt", "cpu")
""",
        ),
        (
            """\
        if r.device.type == "cuda": torch.cuda.set_rng_state(own["rng"][1])
""",
            """\
        if r.device.type == "cuda": torch.cuda.set_rng_state(own["rng"][1])
        np.random.set_state(own["rng"][2])
""",
        ),
    ]
}
