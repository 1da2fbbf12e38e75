"""What the exam asks, and how it answers."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

Severity = Literal["silent", "stuck", "loss"]
SEVERITIES: dict[Severity, str] = {
    "silent": "the model is trained otherwise, and nothing says so",
    "stuck": "a person has to come, or the whole run is at risk",
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
        "Accumulation that stands in the settings alone changes the training.",
    ),
    Question(
        "reshuffled", "Each epoch has an order of its own", "silent",
        "An epoch number that is never passed on repeats one order for ever.",
    ),
    Question(
        "ranks-differ", "Each rank draws its own dropout", "silent",
        "Ranks seeded alike drop the same units on all their samples.",
    ),
    Question(
        "uneven", "An epoch that the batch does not divide has every sample"
        " once", "silent",
        "A sampler that pads repeats samples; one that cuts leaves some out.",
    ),
    Question(
        "goes-on", "A run goes on from its newest checkpoint", "loss",
        "A launch that begins anew, or ends without a step, is paid twice.",
    ),
    Question(
        "length", "It ends after the step at which it would have ended",
        "silent",
        "Steps counted from the launch train too long, or not at all.",
    ),
    Question(
        "exactly-once", "Every sample once an epoch, across the restart",
        "silent",
        "Replaying the epoch, or skipping too much, changes the data.",
    ),
    Question(
        "order", "The samples come in the order they would have had",
        "silent",
        "Shuffled anew, the rest of the epoch is another training run.",
    ),
    Question(
        "rate", "The learning rate goes on", "silent",
        "A scheduler that is not restored warms up again.",
    ),
    Question(
        "optimizer", "The optimizer's state goes on", "silent",
        "Moments that begin at zero make the next steps too large.",
    ),
    Question(
        "buffers", "The model's buffers go on", "silent",
        "Running statistics that begin anew spoil evaluation.",
    ),
    Question(
        "random", "Each rank's random state goes on", "silent",
        "Otherwise dropout repeats itself, or all ranks get rank 0's.",
    ),
    Question(
        "ema", "Averaged weights and other observed states go on", "silent",
        "An average that begins anew forgets the run.",
    ),
    Question(
        "end", "With all of these alike, the last weights are alike",
        "silent",
        "Something else that decides the training is not saved.",
    ),
    Question(
        "boundary", "The same end after a stop between two epochs", "silent",
        "An epoch is repeated or left out by one.",
    ),
    Question(
        "kill", "The same end after SIGKILL at a random step", "silent",
        "A machine is lost without a last word.",
    ),
    Question(
        "twice", "The same end after two kills in one epoch", "silent",
        "Progress counted from the launch is wrong from the second on.",
    ),
    Question(
        "workers", "The same end with loader workers that fetch ahead",
        "silent",
        "Progress that counts what was fetched skips what was not trained.",
    ),
    Question(
        "scaler", "The gradient scaler goes on", "silent",
        "From its first scale again it skips steps that were not skipped.",
    ),
    Question(
        "resize", "On another world size every sample still comes once",
        "silent",
        "Positions counted by rank mean other samples for other ranks.",
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
        "A copy that broke off, or a file system that lost its tail.",
    ),
    Question(
        "incomplete", "A checkpoint of which a file is missing is noticed",
        "silent",
        "Ranks that each pick what they have go on from different steps.",
    ),
    Question(
        "flipped", "A checkpoint with one flipped bit is noticed", "silent",
        "Storage errs, and a wrong weight looks like any other.",
    ),
    Question(
        "foreign", "A checkpoint of another run is refused", "silent",
        "A wrong path, and the run trains on weights of other data.",
    ),
    Question(
        "pickle", "Loading a checkpoint runs no code out of it", "stuck",
        "Whoever can write a checkpoint owns the job that loads it.",
    ),
    Question(
        "sigterm", "SIGTERM saves and ends within 30 seconds", "loss",
        "A preempted machine gives a notice, and work is lost without it.",
    ),
    Question(
        "hang", "A rank that hangs ends the job in a minute", "loss",
        "Where nobody notices, all GPUs wait until somebody looks.",
    ),
    Question(
        "finished", "A finished run that is launched again is left as it is",
        "loss",
        "Schedulers launch again; it must neither train on nor fail.",
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
