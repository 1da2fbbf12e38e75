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
        "repeat", "Two undisturbed runs of one seed end alike", "silent",
        "Without it no difference after a restart can be told from chance.",
    ),
    Question(
        "batch", "A step trains on the global batch that was asked for",
        "silent",
        "If accumulation is set and not carried out, the batch is too small.",
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
        "uneven", "An epoch that the batch does not divide uses every sample"
        " once", "silent",
        "A sampler that pads repeats samples; one that cuts leaves some out.",
    ),
    Question(
        "goes-on", "A run goes on from its newest checkpoint", "loss",
        "A launch that starts over, or ends without a step, wastes work.",
    ),
    Question(
        "length", "It ends after the step at which it would have ended",
        "silent",
        "A loop that counts the steps of this launch alone trains too long.",
    ),
    Question(
        "exactly-once",
        "Every sample is used once per epoch, across the restart", "silent",
        "Replaying the epoch, or skipping too much, changes the data.",
    ),
    Question(
        "order", "The samples come in the order they would have had",
        "silent",
        "Shuffled again, the rest of the epoch is another training run.",
    ),
    Question(
        "rate", "The learning rate goes on", "silent",
        "A scheduler that is not restored warms up again.",
    ),
    Question(
        "optimizer", "The optimizer's state goes on", "silent",
        "Moments that are lost change the size of the next steps.",
    ),
    Question(
        "buffers", "The model's buffers go on", "silent",
        "Running statistics that start over spoil evaluation.",
    ),
    Question(
        "random", "Each rank's random state goes on", "silent",
        "Otherwise dropout repeats itself, or every rank gets rank 0's.",
    ),
    Question(
        "ema", "Averaged weights and other observed states go on", "silent",
        "An average that starts over forgets the run so far.",
    ),
    Question(
        "end", "With all of these alike, the last weights are alike",
        "silent",
        "Something else that decides the training is not saved.",
    ),
    Question(
        "boundary", "The same end after a stop between two epochs", "silent",
        "Counters that turn over there are off by one, or by an epoch.",
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
        "scaler", "The gradient scaler goes on", "silent",
        "Back at its initial scale, it skips steps that were not skipped.",
    ),
    Question(
        "resize", "On another number of ranks every sample is still used once",
        "silent",
        "A rank's own count points elsewhere when there are more ranks.",
    ),
    Question(
        "torn", "Killed in the middle of a save, it starts again by itself",
        "stuck",
        "The newest file is half a file, and every launch picks it.",
    ),
    Question(
        "disk", "A full disk costs no more than the checkpoint", "stuck",
        "What was saved before must not be lost for what cannot be saved.",
    ),
    Question(
        "truncated", "A checkpoint that was cut short is noticed", "silent",
        "A copy may break off, and a file system may lose a file's end.",
    ),
    Question(
        "incomplete", "A checkpoint of which a file is missing is noticed",
        "silent",
        "Ranks that each load what they find go on from different steps.",
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
        "hang", "A rank that hangs ends the job in a minute", "loss",
        "Until somebody looks, all GPUs wait and are paid for.",
    ),
    Question(
        "finished", "A finished run that is launched again is left as it is",
        "loss",
        "Schedulers launch again, and it must neither train on nor fail.",
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
