"""Drill 5: what a whiteboard must show, as nodes and edges."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from lockstep.grading.criteria import (
    CannotGradeError,
    Criterion,
    Outcome,
    Report,
)

_NODE = r"(\w+)(?:\s*[\[({]+[^\])}]*[\])}]+)?"
_EDGE = re.compile(
    rf"^{_NODE}\s*(?:[-=.]+>\s*(?:\|\s*\"?(.*?)\"?\s*\|)?"
    rf"|--\s+\"?(.*?)\"?\s+-->)\s*{_NODE}$"
)


@dataclass(frozen=True)
class Diagram:
    """Edges, as (from, to, label)."""

    edges: list[tuple[str, str, str]]

    def labels(self, source: str, target: str) -> str:
        """What crosses from one box to another; "" without an arrow."""
        return "; ".join(
            label or "no label"
            for one, two, label in self.edges
            if (one, two) == (source, target)
        )

    def asks(self, source: str, target: str, *words: str) -> None:
        """AssertionError, unless an arrow's label has one of the words."""
        found = self.labels(source, target)
        assert found, f"no arrow goes from {source} to {target}"
        assert any(word in found.lower() for word in words), (
            f"the arrow from {source} to {target} says: {found}"
        )


def drawn(text: str) -> Diagram:
    """The diagram of a Markdown file; CannotGradeError where there is none."""
    block = re.search(r"```mermaid\n(.*?)```", text, re.S)
    if not block:
        raise CannotGradeError("there is no block that begins with ```mermaid")
    edges = []
    for line in re.split(r"[\n;]", block[1]):
        if found := _EDGE.match(line.strip()):
            source, one, two, target = found.groups()
            edges.append((source, target, (one or two or "").strip()))
    return Diagram(edges)


def unattended(board: Diagram) -> None:
    """At night nobody sits at the notebook."""
    into = [one for one, two, _ in board.edges if two == "notebook"]
    assert not into, f"{', '.join(into)} waits for a person at the notebook"
    found = board.labels("notebook", "launcher")
    assert not found, "each launch waits for a person at the notebook"


def labels(board: Diagram) -> None:
    """An arrow is an interface."""
    bare = [f"{a} to {b}" for a, b, label in board.edges if not label]
    assert not bare, f"nothing is said of {', '.join(bare)}"


def image(board: Diagram) -> None:
    """What was rehearsed is what runs."""
    board.asks("notebook", "trainer", "image", "digest", "file", "package")


def launch(board: Diagram) -> None:
    """The launcher starts ranks."""
    board.asks("launcher", "trainer", "command", "rank", "world")


def resumes(board: Diagram) -> None:
    """State goes out and comes back."""
    board.asks("trainer", "artifacts", "checkpoint", "state")
    board.asks("artifacts", "trainer", "checkpoint", "state")


def configures(board: Diagram) -> None:
    """The config comes from the service, and nobody's notebook."""
    board.asks("artifacts", "trainer", "config")
    found = board.labels("launcher", "trainer").lower()
    assert "config" not in found, "the config has two sources"


def observes(board: Diagram) -> None:
    """Every rank speaks for itself."""
    board.asks("trainer", "metrics", "rank")


def closes(board: Diagram) -> None:
    """What is measured decides, within a budget."""
    found = board.labels("metrics", "policy")
    assert found, "no arrow goes from metrics to policy"
    board.asks("policy", "launcher", "budget", "limit", "at most", "cap")
    past = board.labels("policy", "trainer")
    assert not past, "the policy restarts ranks past the launcher"


def notice(board: Diagram) -> None:
    """A machine is taken back, and the trainer hears of it."""
    words = "sigterm", "notice", "preempt", "signal"
    board.asks("launcher", "trainer", *words)


def grade(file: Path) -> Report:
    """What the board shows now; nothing of an empty one is attempted.

    Raises:
        CannotGradeError: no file, or no diagram in it.
    """
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise CannotGradeError(f"{file}: {error.strerror}") from None
    board = drawn(raw.decode("utf-8", "replace"))
    outcomes = []
    for one in CRITERIA:
        status, hint = "passed", ""
        try:
            one.check(board)
        except AssertionError as wrong:
            status, hint = "failed", f"{wrong}. {one.hint}"
        if not board.edges:
            status, hint = "not attempted", one.hint
        outcomes.append(Outcome(one.name, one.points, status, hint))
    return Report("5", outcomes, hashlib.sha256(raw).hexdigest())


CRITERIA = [
    Criterion(
        "unattended",
        10,
        "What does a retry at night need a person for?",
        unattended,
    ),
    Criterion("labels", 10, "Say what crosses each arrow.", labels),
    Criterion(
        "image",
        10,
        "The same file runs in both places; what pins it?",
        image,
    ),
    Criterion("launch", 10, "Who tells a rank which one it is?", launch),
    Criterion(
        "resume",
        15,
        "What is saved has to come back to another machine.",
        resumes,
    ),
    Criterion(
        "config",
        10,
        "One place says what a run is, and a retry reads it again.",
        configures,
    ),
    Criterion("every rank", 10, "Whose events are they?", observes),
    Criterion(
        "policy",
        15,
        "It acts on what is measured, through the launcher, and not for ever.",
        closes,
    ),
    Criterion("notice", 10, "Who tells the trainer that it must go?", notice),
]
