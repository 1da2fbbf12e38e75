"""Drill 5: what a whiteboard must show, as nodes and edges."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from lockstep.grading.criteria import (
    CannotGradeError,
    Criterion,
    Outcome,
    Report,
)

# As Mermaid has them, once what is quoted cannot be taken for syntax.
_SHAPE = r"(?:@\{[^}]*\}|\s*[\[({>]+[^\])}]*[\])}]+)?(?::::\w+)?"
_NODES = re.compile(rf"\s*\w+{_SHAPE}(?:\s*&\s*\w+{_SHAPE})*\s*")
_LINK = re.compile(
    r"(?:\w+@)?(?P<back><)?(?:"
    r"(?:--|==|-\.)(?![-=.>])\s*(?P<inside>[^|>]+?)\s*(?:-{2,}|={2,}|\.+-)"
    r"|-{2,}|={2,}|-\.+-)(?P<to>>)?\s*(?:\|(?P<between>[^|]*)\|)?"
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
    quoted: list[str] = []

    def kept(found: re.Match[str]) -> str:
        quoted.append(" ".join(found[1].split()))
        return f'"{len(quoted) - 1}"'

    plain = re.sub(r"(?m)^\s*%%.*$", "", block[1])
    plain = re.sub(r'"([^"]*)"', kept, plain)
    edges = []
    for line in re.split(r"[\n;]", plain):
        for one, two, label in linked(line):
            said = re.sub(r'"(\d+)"', lambda at: quoted[int(at[1])], label)
            edges.append((one, two, said.strip()))
    return Diagram(edges)


def linked(line: str) -> Iterator[tuple[str, str, str]]:
    """The arrows of one statement, which may be a chain: from, to, label."""
    nodes = _NODES.match(line)
    while nodes and (link := _LINK.match(line, nodes.end())):
        sources, nodes = names(nodes[0]), _NODES.match(line, link.end())
        targets = names(nodes[0]) if nodes else []
        label = link["inside"] or link["between"] or ""
        for one, two in product(sources, targets):
            if link["to"]:
                yield one, two, label
            if link["back"]:
                yield two, one, label


def names(nodes: str) -> list[str]:
    """Of `one["text"] & two`, without shapes."""
    return re.findall(r"\w+", re.sub(rf"(?<=\w){_SHAPE}", "", nodes))


def unattended(board: Diagram) -> None:
    """At night nobody sits at the notebook."""
    looks = "metrics", "artifacts"  # there, nobody waits
    ends = [(one, two) for one, two, _ in board.edges]
    into = [a for a, b in ends if b == "notebook" and a not in looks]
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
    board.asks("launcher", "trainer", "command", "rank", "world", "torchrun")


def resumes(board: Diagram) -> None:
    """State goes out and comes back."""
    words = "checkpoint", "state", "snapshot"
    board.asks("trainer", "artifacts", *words)
    board.asks("artifacts", "trainer", *words)


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
    words = "budget", "limit", "at most", "cap", "max", "up to"
    board.asks("policy", "launcher", *words)
    past = board.labels("policy", "trainer")
    assert not past, "the policy restarts ranks past the launcher"


def notice(board: Diagram) -> None:
    """A machine is taken back, and the trainer hears of it."""
    words = "sigterm", "notice", "preempt", "signal", "evict", "reclaim"
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
