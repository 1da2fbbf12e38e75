"""What the exam asks, and how it answers."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

Severity = Literal["silent", "stuck", "loss"]
SEVERITIES: dict[Severity, str] = {
    "silent": "the run trains a different model and does not report it",
    "stuck": "a person has to step in, or the whole run is at risk",
    "loss": "work or time is lost",
}
Answer = Literal["passed", "failed", "not applicable", "not run"]


class Question(NamedTuple):
    """One thing that resuming must do."""

    id: str
    title: str
    severity: Severity
    why: str  # what happens if it does not


# --8<-- [start:questions]
QUESTIONS = [
    Question(
        "reproducible",
        "Two undisturbed runs with the same seed end with the same weights",
        "silent",
        "Otherwise any difference after a restart could be chance.",
    ),
    Question(
        "batch", "Each step trains on the requested global batch", "silent",
        "If accumulation is configured and never done, the batch is too small.",
    ),
    Question(
        "reshuffled", "Every epoch has a different order", "silent",
        "A sampler that never gets the epoch number repeats one order forever.",
    ),
    Question(
        "rank-seeds", "Each rank draws different dropout", "silent",
        "Ranks with the same seed drop the same units on all their samples.",
    ),
    Question(
        "partial-batch",
        "An epoch that ends with a partial batch uses every sample once",
        "silent",
        "A sampler that pads repeats samples; a sampler that drops loses some.",
    ),
    Question(
        "resumes-latest", "A launch resumes from the newest checkpoint", "loss",
        "A launch that starts over, or ends without a step, wastes work.",
    ),
    Question(
        "total-steps", "The resumed run ends at the planned step", "silent",
        "A loop that counts only this launch's steps trains too long.",
    ),
    Question(
        "exactly-once",
        "Every sample is used once per epoch, across the restart", "silent",
        "Replaying the epoch, or skipping too much, changes the data.",
    ),
    Question(
        "order",
        "The samples arrive in the same order as without the restart", "silent",
        "Reshuffling the rest of the epoch makes a different training run.",
    ),
    Question(
        "learning-rate", "The learning rate continues where it was", "silent",
        "A scheduler that isn't restored warms up again.",
    ),
    Question(
        "optimizer", "The optimizer's state is restored", "silent",
        "Lost moments change the size of the next steps.",
    ),
    Question(
        "buffers", "The model's buffers are restored", "silent",
        "Running statistics that start over spoil evaluation.",
    ),
    Question(
        "rng-state", "Each rank's RNG state is restored", "silent",
        "Otherwise dropout masks repeat, or all ranks draw rank 0's masks.",
    ),
    Question(
        "ema",
        "Averaged weights and other observed states are restored", "silent",
        "An average that starts over forgets the run so far.",
    ),
    Question(
        "final-weights",
        "If nothing else differs, the final weights are the same", "silent",
        "If they differ, something else that matters wasn't saved.",
    ),
    Question(
        "epoch-boundary",
        "The run ends the same after a stop between two epochs", "silent",
        "Counters that reset there are easily off by one step or one epoch.",
    ),
    Question(
        "kill",
        "The run ends the same after SIGKILL at a random step", "silent",
        "A machine can die without warning.",
    ),
    Question(
        "two-restarts",
        "The run ends the same after two kills in one epoch", "silent",
        "Progress counted from the launch is wrong from the second restart on.",
    ),
    Question(
        "loader-workers",
        "The run ends the same with loader workers that prefetch", "silent",
        "Progress that counts fetched samples skips samples never trained on.",
    ),
    Question(
        "scaler", "The gradient scaler's state is restored", "silent",
        "Back at its initial scale, it skips steps that should have counted.",
    ),
    Question(
        "world-size",
        "At a different world size, every sample is still used once", "silent",
        "A position counted per rank points to different samples there.",
    ),
    Question(
        "micro-batch",
        "With a different micro-batch and the same global batch, every sample"
        " is still used once",
        "silent",
        "A position counted in micro-batches points to different samples.",
    ),
    Question(
        "kill-during-save",
        "After a kill during a save, the next launch works without help",
        "stuck",
        "The newest file is half written, and every launch picks it.",
    ),
    Question(
        "full-disk",
        "A full disk loses only the checkpoint that is being written", "stuck",
        "Older checkpoints must survive a failed save.",
    ),
    Question(
        "truncated", "A truncated checkpoint is detected", "silent",
        "A copy can break off, and a file system can lose the end of a file.",
    ),
    Question(
        "missing-file",
        "A checkpoint with a missing file is detected", "silent",
        "If each rank loads what it finds, ranks resume at different steps.",
    ),
    Question(
        "flipped-bit",
        "A checkpoint with one flipped bit is detected", "silent",
        "Storage makes errors, and a wrong weight looks like any other.",
    ),
    Question(
        "wrong-run", "A checkpoint from a different run is refused", "silent",
        "With a wrong path, a run continues from another run's weights.",
    ),
    Question(
        "pickle", "Loading a checkpoint runs no code from it", "stuck",
        "Anybody who can write a checkpoint could run code in your job.",
    ),
    Question(
        "sigterm",
        "SIGTERM saves a checkpoint and ends the job within 30 seconds", "loss",
        "A preempted machine gets notice; without a save, work is lost.",
    ),
    Question(
        "hang", "If a rank hangs, the job ends within a minute", "loss",
        "Until somebody looks, all GPUs wait and cost money.",
    ),
    Question(
        "finished-run",
        "A finished run that is launched again stays as it is", "loss",
        "Job schedulers relaunch jobs; the run must neither train nor fail.",
    ),
]  # fmt: skip
# --8<-- [end:questions]
BY_ID = {question.id: question for question in QUESTIONS}
# Names that questions had until November 2026. Input still accepts them.
FORMER = {
    "repeat": "reproducible",
    "ranks-differ": "rank-seeds",
    "uneven": "partial-batch",
    "goes-on": "resumes-latest",
    "length": "total-steps",
    "rate": "learning-rate",
    "random": "rng-state",
    "end": "final-weights",
    "boundary": "epoch-boundary",
    "twice": "two-restarts",
    "workers": "loader-workers",
    "resize": "world-size",
    "torn": "kill-during-save",
    "disk": "full-disk",
    "incomplete": "missing-file",
    "flipped": "flipped-bit",
    "foreign": "wrong-run",
    "finished": "finished-run",
}


def current(name: str) -> str:
    """Return a question's name, given that or its former one."""
    return FORMER.get(name, name)


@dataclass
class Verdict:
    """The answer to a question."""

    answer: Answer
    said: str = ""  # what was seen, or why there is no answer
    # Where runs ended differently: the questions that ask for what differs, and
    # what was seen of each.
    because: dict[str, str] = field(default_factory=dict)
    where: str = ""  # what `said` begins with: of which file it is true
    at_the_end: bool = False  # it is how a run ended that is compared
    # What may still be wrong although the question has no answer.
    danger: str = ""

    @property
    def unanswered(self) -> bool:
        """Whether it was not run, or does not apply for a dangerous reason."""
        return self.answer == "not run" or bool(self.danger)


@dataclass
class Result:
    """A verdict, with what a person needs who doubts it."""

    question: Question
    verdict: Verdict
    same_as: tuple[str, ...] = ()  # failed questions that explain this one
    reproduced: str = ""  # "3 of 3"
    steps: list[str] = field(default_factory=list)  # how it was reached
    kept: str = ""  # where the run directories are

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            **self.question._asdict(),
            **asdict(self.verdict),
            "same_as": self.same_as,
            "reproduced": self.reproduced,
            "steps": self.steps,
            "kept": self.kept,
        }
