"""Bug 09: eight ranks have as much noise as one."""

COMPLAINT = """
For a look at dropout I fed both ranks the same samples. At every step their
losses were equal to the last digit, so eight ranks average nothing out. On my
branch I have seeded them apart. Since then a run that was stopped and goes on
does not end with the weights of one that was not; before, it did.
"""
LOG = r"""
$ train 2 --run-dir a --max-steps 40 > last
$ grep -o '"loss": [0-9.]\{5\}' a/events/*rank-0.jsonl
"loss": 1.426
"loss": 1.267
"loss": 1.270
"loss": 1.213
"loss": 1.213
"""
HINTS = [
    "Dropout draws its masks from torch's generator. In which state is it on"
    " each rank, before the first step?",
    "And after a restore?",
    "There are two places: where it is seeded, and what is restored.",
]
ELSE = """
A learning rate that was scaled with the ranks, or another order of additions.
Without dropout both would still show.
"""
OTHER = "07"
PLANTED = {
    "09": [
        (
            "manual_seed(1000 * (cfg.seed + 1) + rank)  # per-rank dropout",
            "manual_seed(1000 * (cfg.seed + 1))",
        ),
        (
            "{}  # replicas are equal, RNGs differ",
            "{}  # replicas are alike",
        ),
        (
            """\
        own = torch.load(path / f"rank-{r.rank}.pt", "cpu", weights_only=True)
        torch.set_rng_state(own["rng"][0])
        if r.device.type == "cuda": torch.cuda.set_rng_state(own["rng"][1])
""",
            """\
        torch.set_rng_state(saved["rng"][0])
        if r.device.type == "cuda": torch.cuda.set_rng_state(saved["rng"][1])
""",
        ),
    ]
}
