"""What the exam asks, and how it answers."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

Severity = Literal["silent", "stuck", "loss"]
SEVERITIES: dict[Severity, str] = {
    "silent": "the model is trained differently, and the run does not say so",
    "stuck": "somebody has to step in, or the whole run is at risk",
    "loss": "work or time is lost",
}
Answer = Literal["passed", "failed", "not applicable", "not run"]


class Question(NamedTuple):
    """One thing that resuming must do."""

    id: str
    title: str
    severity: Severity
    why: str  # what happens where it does not


# --8<-- [start:questions]
QUESTIONS = [
    Question(
        "repeat",
        "Two undisturbed runs with one seed end with the same weights",
        "silent",
        "Without it no difference after a restart can be told from chance.",
    ),
    Question(
        "batch", "A step trains on the global batch that was asked for",
        "silent",
        "If gradient accumulation is set and not done, the batch is too small.",
    ),
    Question(
        "reshuffled", "Each epoch has an order of its own", "silent",
        "An epoch number that is never passed on repeats one order forever.",
    ),
    Question(
        "ranks-differ", "Each rank draws its own dropout", "silent",
        "Ranks seeded alike drop the same units on all their samples.",
    ),
    Question(
        "uneven",
        "An epoch that the batch does not divide uses every sample once",
        "silent",
        "A sampler that pads repeats samples; one that cuts leaves some out.",
    ),
    Question(
        "goes-on", "A run continues from its newest checkpoint", "loss",
        "A launch that starts over, or ends without a step, wastes work.",
    ),
    Question(
        "length", "The resumed run ends at the planned step", "silent",
        "A loop that counts the steps of this launch alone trains too long.",
    ),
    Question(
        "exactly-once",
        "Every sample counts once per epoch, across the restart", "silent",
        "Replaying the epoch, or skipping too much, changes the data.",
    ),
    Question(
        "order", "The samples come in the order they would have had", "silent",
        "If the rest of the epoch is reshuffled, it is another training run.",
    ),
    Question(
        "rate", "The learning rate continues where it was", "silent",
        "A scheduler that is not restored warms up again.",
    ),
    Question(
        "optimizer", "The optimizer's state is restored", "silent",
        "Moments that are lost change the size of the next steps.",
    ),
    Question(
        "buffers", "The model's buffers are restored", "silent",
        "Running statistics that start over spoil evaluation.",
    ),
    Question(
        "random", "Each rank's random state is restored", "silent",
        "Otherwise dropout masks repeat, or all ranks get those of rank 0.",
    ),
    Question(
        "ema", "Averaged weights and other observed states are restored",
        "silent",
        "An average that starts over forgets the run so far.",
    ),
    Question(
        "end", "If nothing above differs, the final weights agree", "silent",
        "If they do not, something else that matters was not saved.",
    ),
    Question(
        "boundary", "The same end after a stop between two epochs", "silent",
        "Counters that reset there are easily off by one step, or one epoch.",
    ),
    Question(
        "kill", "The same end after SIGKILL at a random step", "silent",
        "A machine can be lost without warning.",
    ),
    Question(
        "twice", "The same end after two kills in one epoch", "silent",
        "Progress counted from the launch is wrong from the second restart on.",
    ),
    Question(
        "workers", "The same end with loader workers that fetch ahead",
        "silent",
        "Progress that counts what was fetched skips what was not trained.",
    ),
    Question(
        "scaler", "The gradient scaler is restored", "silent",
        "Back at its first scale, it skips steps that should have counted.",
    ),
    Question(
        "resize", "On another number of ranks every sample is still used once",
        "silent",
        "A position counted per rank points to other samples on more ranks.",
    ),
    Question(
        "micro-batch",
        "With other micro-batches and the same global batch every sample is"
        " still used once",
        "silent",
        "A position counted in micro-batches points to other samples.",
    ),
    Question(
        "torn",
        "After a kill during a save, the next launch works without help",
        "stuck",
        "The newest file is half a file, and every launch picks it.",
    ),
    Question(
        "disk", "A full disk loses only the checkpoint being written", "stuck",
        "Older checkpoints must survive a save that fails.",
    ),
    Question(
        "truncated", "A checkpoint that was cut short is noticed", "silent",
        "A copy may break off, and a file system may lose a file's end.",
    ),
    Question(
        "incomplete", "A checkpoint that lacks one of its files is noticed",
        "silent",
        "If each rank loads what it finds, ranks continue at different steps.",
    ),
    Question(
        "flipped", "A checkpoint with one flipped bit is noticed", "silent",
        "Storage makes errors, and a wrong weight looks like any other.",
    ),
    Question(
        "foreign", "A checkpoint of another run is refused", "silent",
        "With a wrong path, a run goes on from the weights of another.",
    ),
    Question(
        "pickle", "Loading a checkpoint runs no code out of it", "stuck",
        "Whoever can write a checkpoint owns the job that loads it.",
    ),
    Question(
        "sigterm", "SIGTERM saves and ends within 30 seconds", "loss",
        "A preempted machine gives notice; without a save, work is lost.",
    ),
    Question(
        "hang", "If a rank hangs, the job ends within a minute", "loss",
        "Until somebody looks, all GPUs wait and are paid for.",
    ),
    Question(
        "finished", "A finished run that is launched again is left as it is",
        "loss",
        "Job schedulers launch again; it must then neither train nor fail.",
    ),
]  # fmt: skip
# --8<-- [end:questions]
BY_ID = {question.id: question for question in QUESTIONS}


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
    danger: str = ""  # what may be wrong though nothing was seen to fail


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
