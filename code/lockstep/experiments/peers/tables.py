"""What the exam found of all peers, as sections that a page includes."""

import ast
import json
import re
import textwrap
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from lockstep.exam.questions import QUESTIONS, SEVERITIES
from lockstep.experiments.tables import sections, table

# In the order in which the page tells of them, and their columns' heads.
SHORT = {
    "plain": "torchdata, DCP",
    "nanogpt": "nanoGPT style",
    "accelerate": "Accelerate",
    "transformers": "HF Trainer",
    "lightning": "Lightning",
    "fabric": "Fabric",
    "composer": "Composer",
    "ray": "Ray Train",
    "deepspeed": "DeepSpeed",
    "torchtitan": "torchtitan's parts",
    "torchft": "torchft",
    "cut": "our cut",
    "lockstep": "Lockstep",
}
OURS = "cut", "lockstep"
SILENT = re.compile(r"silent failure (\d+)")
SIGNS = {
    "passed": "✓",
    "failed": "✗",
    "follows": "○",  # from another failure
    "not applicable": "–",
    "not run": "?",
}
THREAD = re.compile(r"https://github.com/[^/]+/([^/]+)/(?:issues|pull)/(\d+)")


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
    on_cpu_only: bool = False


class Notes(BaseModel):
    """What we say of a peer."""

    name: str
    way: str
    script: str = ""  # what the trainer leaves to its user, and ours does
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
    folders = [home / name for name in SHORT]
    return [peer(f) for f in folders if (f / "notes.yml").exists()]


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


def tables(home: Path) -> str:
    """Every section, in one text."""
    peers, campaign = read(home), home / "faults.json"
    examined = [one for one in peers if one.result]
    found = {
        "peers": examined,
        "others": [one for one in examined if one.folder not in OURS],
        "told": told_faults(home / "broken/train.py"),
        "faults": json.loads(campaign.read_text())["faults"],
    }
    parts = questions, exact, summary, often, matrix, four, faults, machine
    return sections(found, *parts) + "\n".join(
        f"<!-- --8<-- [start:{one.folder}] -->\n{told(one)}"
        f"<!-- --8<-- [end:{one.folder}] -->\n"
        for one in peers
    )


def sign(one: dict[str, Any] | None, on_cpu_only: bool = False) -> str:
    """An answer as a sign."""
    if one is None:
        return " "
    said = SIGNS["follows" if one["same_as"] else one["answer"]]
    return f"{said}*" if said == "✗" and on_cpu_only else said


def questions(_: dict[str, Any]) -> str:
    """What the exam asks, the gravest first."""
    lines = []
    for severity, meaning in SEVERITIES.items():
        asked = [q for q in QUESTIONS if q.severity == severity]
        rows = [[q.title, f"`{q.id}`", q.why] for q in asked]
        lines.append(f"If it fails, {meaning}:\n\n")
        head = ["question", "name", "why it is asked"]
        lines.append(table(head, rows, "---"))
        lines.append("\n")
    return "".join(lines)


def summary(found: dict[str, Any]) -> str:
    """A row for each peer."""
    rows = []
    for one in found["peers"]:
        signs = [sign(answer) for answer in one.answers().values()]
        mended = [sign(a) for a in one.answers(mended=True).values()]
        rows.append(
            [
                f"[{SHORT[one.folder]}](#{one.folder})",
                versions(one),
                *(str(signs.count(s)) for s in "✓○✗"),
                str(signs.count("–") + signs.count("?")),
                str(mended.count("✗")) if mended else "",
                one.result["date"],
            ]
        )
    head = [
        "trainer", "versions", "✓ passed", "○ follow", "✗ failed", "not asked",
        "✗ after cures", "examined",
    ]  # fmt: skip
    return table(head, rows, "---")


def told_faults(script: Path) -> dict[str, str]:
    """What each fault is, by the question that it is made for. The script is
    not imported, since that would break the trainer."""
    found = {}
    for node in ast.parse(script.read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            (mark,) = node.decorator_list
            assert isinstance(mark, ast.Call)
            (question,) = mark.args
            assert isinstance(question, ast.Constant)
            found[question.value] = ast.get_docstring(node) or ""
    return found


def faults(found: dict[str, Any]) -> str:
    """What our trainer fails with each of its faults."""
    rows = []
    for name, words in found["told"].items():
        if one := found["faults"].get(name):
            linked = SILENT.sub(
                lambda n: f"[{n[0]}](silent-failures.md#d{int(n[1]):02})", words
            )
            failed = ", ".join(f"`{q}`" for q in one["failed"])
            rows.append([linked, failed, str(len(one["explained"]))])
    return table(["fault", "fails", "follow from it"], rows, "---")


def versions(one: Peer) -> str:
    """Of what was examined."""
    found = (one.result or {})["versions"]
    return ", ".join(
        f"{name} {number.partition('+')[0]}"
        for name, number in found.items()
        if name not in ("Python", "numpy")
    )


def label(url: str) -> str:
    """A page's site and name."""
    address, _, anchor = url.removeprefix("https://").partition("#")
    site, *path = address.rstrip("/").removesuffix(".html").split("/")
    name = anchor or (path[-1] if path else "")
    return f"{site}: {name.rpartition('.')[0] or name}" if name else site


def exact(found: dict[str, Any]) -> str:
    """Who goes on exactly in the middle of an epoch, in a sentence."""
    others = found["others"]
    names = [
        SHORT[p.folder] for p in others if sign(p.answers().get("kill")) == "✓"
    ]
    ends = "ends" if len(names) == 1 else "end"
    return (
        f"Without a change, as documented, {len(names)} of the {len(others)}"
        f" {ends} exactly as an undisturbed run does after a kill in the middle"
        f" of an epoch (`kill`): {', '.join(names)}.\n"
    )


def often(found: dict[str, Any]) -> str:
    """Which questions most of the others' trainers fail, by causes of their
    own, and of how many that were asked."""
    others = found["others"]
    rows = []
    for q in QUESTIONS:
        signs = [sign(p.answers().get(q.id)) for p in others]
        asked = sum(s in "✓○✗" for s in signs)
        if fail := signs.count("✗"):
            rows.append([f"{q.title} (`{q.id}`)", str(fail), str(asked)])
    rows.sort(key=lambda row: -int(row[1]))
    return table(["question", "fail it", "of"], rows[:10])


def matrix(found: dict[str, Any]) -> str:
    """A row for each question, by severity; a column for each peer. As HTML:
    its head stands upright, so that a page has room for all columns."""
    peers = found["peers"]
    heads = "".join(
        f'<th scope="col"><span>{SHORT[p.folder]}</span></th>' for p in peers
    )
    lines = [
        '<div class="matrix-scroll" tabindex="0"><table class="matrix">',
        f'<thead><tr><th scope="col">question</th>{heads}</tr></thead><tbody>',
    ]
    for severity, meaning in SEVERITIES.items():
        lines.append(
            f'<tr><th scope="colgroup" colspan="{len(peers) + 1}">If it fails,'
            f" {meaning}:</th></tr>"
        )
        lines += [
            f'<tr><th scope="row"><code>{q.id}</code></th>'
            + "".join(f"<td>{marked(cell(p, q.id))}</td>" for p in peers)
            + "</tr>"
            for q in QUESTIONS
            if q.severity == severity
        ]
    return "\n".join([*lines, "</tbody></table></div>"]) + "\n"


def marked(said: str) -> str:
    """A sign in HTML, a failure in bold."""
    return f"<b>{said}</b>" if "✗" in said else said


def cell(one: Peer, question: str) -> str:
    """An answer of a peer."""
    on_cpu_only = any(
        f.on_cpu_only for f in one.notes.failures if f.question == question
    )
    return sign(one.answers().get(question), on_cpu_only)


def four(found: dict[str, Any]) -> str:
    """What was asked on four ranks."""
    peers = [p for p in found["peers"] if p.answers(4)]
    asked = [q for q in QUESTIONS if any(q.id in p.answers(4) for p in peers)]
    rows = [
        [f"`{q.id}`", *(sign(p.answers(4).get(q.id)) for p in peers)]
        for q in asked
    ]
    head = ["question", *(SHORT[p.folder] for p in peers)]
    return table(head, rows, ":---:")


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
    links = ", ".join(f"[{label(url)}]({url})" for url in notes.docs)
    where = f" What it follows: {links}." if links else ""
    lines = []
    if one.result:
        lines.append(
            f"*{versions(one)}; examined on {one.result['date']}, revision"
            f" `{one.result['revision']}`.*"
        )
    lines.append(f"**How it was set up.** {notes.way.strip()}{where}")
    if notes.script:
        lines.append(f"**What the script does itself.** {notes.script.strip()}")
    if notes.does_well:
        lines.append(f"**What it does well.** {notes.does_well.strip()}")
    return (
        "\n\n".join([*lines, *(failure(one, f) for f in notes.failures)]) + "\n"
    )


def failure(one: Peer, what: Failure) -> str:
    """A folded paragraph: what was seen, the threads, and the cure."""
    title = next(q.title for q in QUESTIONS if q.id == what.question)
    answer = one.answers().get(what.question)
    said = ""
    if answer:
        seen = textwrap.shorten(
            answer["said"].rstrip(" ."), 160, placeholder=" …"
        )
        said = f"*The exam saw:* {seen}."
        if answer["answer"] == "not run":
            title += " (failed in some tries)"
    if what.on_cpu_only:
        title += " (on CPUs only)"
    threads = " ".join(thread(u) for u in what.upstream)
    paragraphs = [
        what.seen.strip(),
        said,
        threads and f"*Threads:* {threads}",
        f"*Cure:* {what.mend.strip()} {tried(one, what)}",
        f"`make exam PEER={one.folder} ONLY={what.question}`",
    ]
    body = "".join(f"\n\n    {p}" for p in paragraphs if p)
    return f'??? failure "{title}"{body}'


def tried(one: Peer, what: Failure) -> str:
    """What became of the cure."""
    answer = one.answers(mended=True).get(what.question)
    if what.mend.strip().startswith("None"):
        return ""
    if answer is None:
        return "*Not tried yet.*"
    return {
        "passed": "*Tried: it passes.*",
        "failed": "*Tried: it does not pass.*",
    }.get(answer["answer"], f"*Tried: no answer ({answer['said']}).*")


def thread(one: Upstream) -> str:
    """A link, named for the project and number, and what it says."""
    says = one.says.strip().rstrip(".")
    if found := THREAD.match(one.url):
        says = re.sub(rf"^[\w .-]*#{found[2]}\W*", "", says)
        return f"[{found[1]} #{found[2]}]({one.url}): {says}."
    return f"[{label(one.url)}]({one.url}): {says}."


def changes(was: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What is answered otherwise, after what else is of another version."""
    found = [
        f"- {name}: {was['versions'].get(name)}, now {number}"
        for name, number in now["versions"].items()
        if was["versions"].get(name) != number
    ]
    answers = []
    for ranks in ("ranks 2", "ranks 4"):
        old = {q["id"]: q for q in was.get(ranks, {}).get("questions", [])}
        for one in now.get(ranks, {}).get("questions", []):
            before = old.get(one["id"], {}).get("answer", "not asked")
            if before != one["answer"]:
                answers.append(
                    f"- {one['title']} ({ranks}): {before}, now"
                    f" {one['answer']}. {one['said']}"
                )
    return [*found, *answers] if answers else []
