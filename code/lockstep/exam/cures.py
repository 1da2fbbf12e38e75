"""The usual cause of each failure, the piece that cures it, and where to read
about it."""

from typing import NamedTuple


class Cure(NamedTuple):
    """What usually makes some questions fail, and what to do."""

    questions: tuple[str, ...]
    cause: str
    piece: str  # of `lockstep.pieces`, or what to write instead
    page: str  # of the handbook, under docs/, with an anchor

    @property
    def path(self) -> str:
        """The page's path on the site."""
        page, _, anchor = self.page.partition("#")
        page = page.removesuffix("index.md").removesuffix(".md").rstrip("/")
        return f"{page}/#{anchor}"


CURES = [
    Cure(
        ("reproducible",),
        "the initialization, the shuffle or a random split isn't seeded, or a"
        " kernel isn't deterministic",
        "seed each of them from the run's seed; fix this first, since nothing"
        " else can be judged",
        "reliability/resume-exam/index.md#yours",
    ),
    Cure(
        ("batch", "reshuffled"),
        "accumulation or the epoch number is configured and never used, or"
        " ranks train on the same samples",
        "`Batches` takes the global batch, and each epoch has a different"
        " order",
        "concepts/data-correctness/index.md#order",
    ),
    Cure(
        ("partial-batch",),
        "the sampler repeats samples until ranks have equally many, or drops"
        " the last batch",
        "`Batches` continues into the next epoch and neither pads nor drops",
        "concepts/data-correctness/index.md#padding",
    ),
    Cure(
        ("exactly-once", "order", "epoch-boundary", "two-restarts"),
        "the loader counts, and its count is wrong at the moment of the save,"
        " at an epoch's end or from the second restart on",
        "`Batches` computes the samples from the step, so no loader counts",
        "concepts/data-correctness/index.md#order",
    ),
    Cure(
        ("loader-workers",),
        "progress counts samples that workers fetched ahead, or the workers'"
        " augmentation draws different numbers in each launch",
        "`Batches` computes the samples from the step; compute an augmentation"
        " from the sample's number",
        "reliability/silent-failures/in-depth.md#d02",
    ),
    Cure(
        ("micro-batch",),
        "the position or the schedule counts micro-batches",
        "`Batches` and `Run.restore` count steps of the global batch",
        "concepts/data-correctness/index.md#progress",
    ),
    Cure(
        ("world-size",),
        "the position is counted per rank",
        "`Batches` counts samples of the global batch, then deals them out",
        "reliability/fault-tolerance/in-depth.md#elastic",
    ),
    Cure(
        ("kill",),
        "the checkpoint isn't a snapshot of one step: a background save reads"
        " tensors while training changes them, or progress is written apart"
        " from the weights",
        "`Run.save` saves everything of one step together; in the background,"
        " copy first",
        "reliability/checkpointing/in-depth.md#background",
    ),
    Cure(
        ("rng-state",),
        "no RNG state is saved, or rank 0's for all ranks, or the loader draws"
        " from the restored generator",
        "`Run.save` keeps each rank's RNG state; give the loader a separate"
        " generator",
        "reliability/resume-exam/index.md#pass",
    ),
    Cure(
        ("rank-seeds",),
        "every rank seeds torch with the same number",
        "`torch.manual_seed(seed + rank)` once the model is built, before the"
        " checkpoint is loaded",
        "reliability/silent-failures/in-depth.md#d09",
    ),
    Cure(
        ("learning-rate", "optimizer", "buffers", "scaler", "ema",
         "final-weights"),
        "something that training changes isn't in the checkpoint, or isn't"
        " loaded",
        "name it in `parts`, the dictionary that `attached` takes; `Run.save`"
        " and `Run.restore` do the rest",
        "reliability/checkpointing/index.md#survive",
    ),
    Cure(
        ("kill-during-save", "full-disk"),
        "a file has its final name before the checkpoint is complete",
        "`Run.save` writes to a temporary folder, waits for the disk, then"
        " renames",
        "reliability/checkpointing/index.md#publish",
    ),
    Cure(
        ("truncated", "flipped-bit", "missing-file"),
        "nothing says which files belong to a checkpoint, and with which bytes",
        "`Run.save` lists files and digests, and `Run.restore` compares them",
        "reliability/checkpointing/in-depth.md#digest",
    ),
    Cure(
        ("wrong-run",),
        "nothing says which run a checkpoint belongs to",
        "`about`, which `attached` takes: seed, batch and a digest of the data"
        " are saved and compared",
        "reliability/silent-failures/in-depth.md#d13",
    ),
    Cure(
        ("pickle",),
        "loading runs whatever the file says",
        "`Run.restore` loads tensors and plain values only",
        "reliability/checkpointing/in-depth.md#safe",
    ),
    Cure(
        ("resumes-latest", "total-steps", "finished-run"),
        "the loop counts from the launch, picks a checkpoint by the order of"
        " strings, or loads it on one rank only",
        "`Run.restore` loads the newest whole checkpoint on every rank and"
        " returns its step",
        "reliability/resume-exam/index.md#pass",
    ),
    Cure(
        ("sigterm",),
        "nothing listens to SIGTERM, or ranks hear of it at different steps",
        "`attached` listens, and `Run.committed` tells all ranks at one step",
        "reliability/fault-tolerance/in-depth.md#preemption",
    ),
    Cure(
        ("hang",),
        "collectives wait half an hour, and nothing watches the ranks",
        "`attached` starts a watchdog that ends the job",
        "reliability/fault-tolerance/in-depth.md#hangs",
    ),
]  # fmt: skip
CURE_OF = {name: cure for cure in CURES for name in cure.questions}
