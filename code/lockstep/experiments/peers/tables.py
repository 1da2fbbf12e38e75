"""What the exam found of all peers, as sections that a page includes."""

import json
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from lockstep.exam.questions import QUESTIONS
from lockstep.experiments.tables import sections, table

# In the order in which the page tells of them.
ORDER = (
    "plain", "nanogpt", "accelerate", "transformers", "lightning", "fabric",
    "composer", "ray", "deepspeed", "torchtitan", "torchft", "cut", "lockstep",
)  # fmt: skip
SIGNS = {
    "passed": "✓",
    "failed": "✗",
    "not applicable": "–",
    "not run": "?",
}


class Upstream(BaseModel):
    """A public thread on what was seen."""

    url: str
    says: str


class Failure(BaseModel):
    """What a person found out of a failure."""

    question: str
    seen: str
    upstream: list[Upstream] = []
    mend: str
    mended: bool = False


class Notes(BaseModel):
    """What we say of a peer."""

    name: str
    short: str
    way: str
    docs: list[str] = []
    does_well: str
    failures: list[Failure] = []


class Peer(BaseModel):
    """A peer's notes, and what the exam found."""

    folder: str
    notes: Notes
    result: dict[str, Any] | None = None
    mended: dict[str, Any] | None = None

    def answers(self, ranks: int = 2, mended: bool = False) -> dict[str, Any]:
        """By question: the answer and what was seen."""
        found = (self.mended if mended else self.result) or {}
        asked = found.get(f"ranks {ranks}", {}).get("questions", [])
        return {one["id"]: one for one in asked}


def read(home: Path) -> list[Peer]:
    """All of them, in the page's order."""
    return [peer(home / name) for name in ORDER if (home / name).exists()]


def peer(folder: Path) -> Peer:
    """One of them."""
    notes = yaml.safe_load((folder / "notes.yml").read_text())

    def found(name: str) -> dict[str, Any] | None:
        path = folder / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else None

    return Peer(
        folder=folder.name,
        notes=Notes(**notes),
        result=found("result"),
        mended=found("mended"),
    )


def tables(peers: list[Peer]) -> str:
    """Every section, in one text."""
    found = {"peers": [one for one in peers if one.result]}
    return sections(found, summary, matrix, four, machine) + "\n".join(
        f"<!-- --8<-- [start:{one.folder}] -->\n{told(one)}"
        f"<!-- --8<-- [end:{one.folder}] -->\n"
        for one in peers
    )


def sign(one: dict[str, Any] | None) -> str:
    """An answer as a sign; in brackets, if another failure explains it."""
    if one is None:
        return " "
    said = SIGNS[one["answer"]]
    return f"({said})" if one["same_as"] else said


def summary(found: dict[str, Any]) -> str:
    """A row for each peer."""
    rows = []
    for one in found["peers"]:
        exam, said = one.result["ranks 2"], one.answers().values()
        signs = [sign(answer) for answer in said]
        mended = [sign(a) for a in one.answers(mended=True).values()]
        rows.append(
            [
                one.notes.short,
                ", ".join(
                    f"{name} {number}"
                    for name, number in one.result["versions"].items()
                    if name not in ("Python", "numpy")
                ),
                str(signs.count("✓")),
                str(signs.count("✗")),
                str(mended.count("✗")) if mended else "",
                f"{exam['seconds'] / 60:.0f}",
                one.result["date"],
            ]
        )
    head = [
        "trainer", "versions", "passed", "failures", "failures, mended",
        "minutes", "examined",
    ]  # fmt: skip
    return table(head, rows)


def matrix(found: dict[str, Any]) -> str:
    """A row for each question, a column for each peer."""
    peers = found["peers"]
    rows = [
        [question.title, *(sign(p.answers().get(question.id)) for p in peers)]
        for question in QUESTIONS
    ]
    return table(["question", *(p.notes.short for p in peers)], rows)


def four(found: dict[str, Any]) -> str:
    """What was asked on four ranks."""
    peers = [p for p in found["peers"] if p.answers(4)]
    asked = [q for q in QUESTIONS if any(q.id in p.answers(4) for p in peers)]
    rows = [
        [question.title, *(sign(p.answers(4).get(question.id)) for p in peers)]
        for question in asked
    ]
    return table(["question", *(p.notes.short for p in peers)], rows)


def machine(found: dict[str, Any]) -> str:
    """Where each was examined."""
    said = {
        f"{p.result['machine']['processor']}, {p.result['machine']['cores']}"
        f" cores, {p.result['machine']['memory']}, revision"
        f" `{p.result['revision']}`": 0
        for p in found["peers"]
    }
    return "".join(f"- {line}\n" for line in said)


def told(one: Peer) -> str:
    """A peer's section."""
    notes = one.notes
    links = ", ".join(f"[{k}]({url})" for k, url in enumerate(notes.docs, 1))
    lines = [
        f"**How it was examined.** {notes.way}"
        + (f" Its documentation: {links}." if links else ""),
        f"**What it does well.** {notes.does_well}",
    ]
    for failure in notes.failures:
        title = next(q.title for q in QUESTIONS if q.id == failure.question)
        upstream = " ".join(f"[{u.says}]({u.url})." for u in failure.upstream)
        state = "Passes then." if failure.mended else ""
        lines.append(
            f'??? failure "{title}"\n\n'
            f"    {failure.seen} {upstream}\n\n"
            f"    {failure.mend} {state}\n\n"
            f"    To see it: `make exam PEER={one.folder}"
            f" ONLY={failure.question}`"
        )
    return "\n\n".join(line.rstrip() for line in lines) + "\n"
