"""What the exam found of all peers, as sections that a page includes."""

import ast
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel

from lockstep.exam.cures import CURES
from lockstep.exam.questions import BY_ID, QUESTIONS, SEVERITIES
from lockstep.experiments.markdown import sections, table

# In the order in which the page tells of them, and their columns' heads.
SHORT = {
    "plain": "torchdata with DCP",
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
SILENT_PAGE = "../silent-failures/in-depth.md"
SIGNS = {
    "passed": "✓",
    "failed": "✗",
    "follows": "●",  # from other failures
    "dropout": "○",  # from failures of random states alone
    "not applicable": "–",
    "not run": "?",
}
DROPOUT = frozenset({"rng-state", "rank-seeds"})
# What a user may need: the questions that ask for it, and the failures from
# which theirs may follow all the same.
ANY = frozenset(BY_ID)
NEEDS = {
    "resumes with the right samples": (
        ("exactly-once", "order", "epoch-boundary", "two-restarts",
         "loader-workers"), DROPOUT,
    ),
    "restores each rank's own RNG state": (
        ("rank-seeds", "rng-state"), frozenset(),
    ),
    "restarts after a kill during a save": (
        ("kill-during-save", "full-disk"), ANY,
    ),
    "detects a damaged checkpoint": (
        ("truncated", "missing-file", "flipped-bit"), frozenset(),
    ),
    "refuses another run's checkpoint": (("wrong-run",), frozenset()),
    "runs no code from a checkpoint": (("pickle",), frozenset()),
    "resumes on twice the ranks": (("world-size",), DROPOUT),
    "saves at SIGTERM": (("sigterm",), DROPOUT),
    "ends when a rank hangs": (("hang",), frozenset()),
}  # fmt: skip
# What goes wrong, in kinds, and the questions that show it.
KINDS = {
    "newest": ("kill-during-save", "full-disk"),
    "believed": ("flipped-bit", "missing-file", "wrong-run", "pickle"),
    "random": ("rng-state", "rank-seeds"),
    "place": (
        "exactly-once", "order", "epoch-boundary", "two-restarts",
        "loader-workers", "world-size",
    ),
    "uneven": ("partial-batch",),
    "listens": ("sigterm", "hang"),
}  # fmt: skip
OFTEN = 4  # trainers that fail a question
# On the GPU the exam took a step that the scaler had skipped just before a stop
# for one that is lost. It does so no more, and was not asked there again.
MISJUDGED = {("lightning", "scaler", "gpu_mended")}
PEERS = "code/lockstep/experiments/peers"
REPOSITORY = "https://github.com/lockstep-handbook/lockstep"
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
    follows: str = ""  # another question, whose failure has the same cause
    on_cpu_only: bool = False
    # Its documentation or its authors, or those of what it builds on, say so.
    documented: bool = False

    @property
    def uncured(self) -> bool:
        """Whether nothing was found that mends it."""
        return self.mend.strip().startswith("None")


class Advice(BaseModel):
    """What its users should know first, in words."""

    question: str  # the failure that is the worst
    worst: str
    first: str  # the changes to make first


class Notes(BaseModel):
    """What we say of a peer."""

    name: str
    way: str
    script: str = ""  # what the trainer leaves to its user, and ours does
    docs: dict[str, str] = {}  # pages that it follows, by their titles
    does_well: str
    advice: Advice | None = None
    failures: list[Failure] = []


class Peer(BaseModel):
    """A peer's notes, and what the exam found."""

    folder: str
    notes: Notes
    result: dict[str, Any] | None = None
    mended: dict[str, Any] | None = None
    one: dict[str, Any] | None = None
    gpu: dict[str, Any] | None = None
    gpu_mended: dict[str, Any] | None = None

    def of_one_rank(self, where: str) -> dict[str, str]:
        """By question: the answer of one rank; `where`: one, on a CPU, gpu or
        gpu_mended."""
        found = getattr(self, where) or {}
        return {
            q["id"]: "not run"
            if (self.folder, q["id"], where) in MISJUDGED
            else q["answer"]
            for q in found.get("ranks 1", {}).get("questions", [])
        }

    def answers(self, ranks: int = 2, mended: bool = False) -> dict[str, Any]:
        """By question: the answer and what was seen."""
        found = (self.mended if mended else self.result) or {}
        asked = found.get(f"ranks {ranks}", {}).get("questions", [])
        return {one["id"]: one for one in asked}

    def answer(self, question: str, mended: bool = False) -> Any:
        """On two ranks; after all cures, if it was asked then."""
        one = self.answers().get(question)
        return self.answers(mended=True).get(question, one) if mended else one

    def note(self, question: str) -> Failure | None:
        """What a person found out of its failure."""
        of_it = (f for f in self.notes.failures if f.question == question)
        return next(of_it, None)

    def sign(self, question: str, mended: bool = False) -> str:
        """An answer as a sign, as the notes understand it."""
        one, note = self.answer(question, mended), self.note(question)
        if note and note.uncured:  # whatever the other cures make of it
            return sign(self.answer(question))
        if note and not mended and one and one["answer"] == "failed":
            return SIGNS["follows" if note.follows else "failed"]
        return sign(one)

    def gives(self, need: str) -> str:
        """Return how it gives one of `NEEDS`: as documented, after changes in
        its user's script, not, or not applicable."""
        if self.has(need):
            return "documented"
        if self.has(need, mended=True):
            return "changed"
        none = asked(self, NEEDS[need][0]) == "nothing"
        return "not applicable" if none else "not"

    def has(self, need: str, mended: bool = False) -> bool:
        """Whether it gives one of `NEEDS`."""
        names, but = NEEDS[need]
        signs = {name: self.sign(name, mended) for name in names}
        for name, shown in signs.items():
            follows = (
                shown in "○●" and {*self.answer(name, mended)["same_as"]} <= but
            )
            if shown not in "✓–" and not follows:
                return False
        return not {*"✓○●"}.isdisjoint(signs.values())


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
        one=found("one"),
        gpu=found("gpu"),
        gpu_mended=found("gpu-mended"),
    )


def tables(home: Path) -> str:
    """Every section, in one text."""
    peers, campaign = read(home), home / "faults.json"
    examined = [one for one in peers if one.result]
    found = {
        "peers": examined,
        "others": [one for one in examined if one.folder not in OURS],
        "told": variants(home / "broken"),
        "faults": json.loads(campaign.read_text())["faults"],
    }
    parts = (
        questions, cures, exact, choose, advice, summary, often, matrix, after,
        kinds,
        four, on_gpu, gpu, faults, machine,
    )  # fmt: skip
    return sections(found, *parts) + "\n".join(
        f"<!-- --8<-- [start:{one.folder}] -->\n{told(one)}"
        f"<!-- --8<-- [end:{one.folder}] -->\n"
        for one in peers
    )


def sign(one: dict[str, Any] | None) -> str:
    """An answer as a sign."""
    if one is None:
        return " "
    if causes := {*one["same_as"]}:
        return SIGNS["dropout" if causes <= DROPOUT else "follows"]
    if one.get("danger"):
        return SIGNS["not run"]  # a reason that may hide a failure
    return SIGNS[one["answer"]]


def questions(_: dict[str, Any]) -> str:
    """What the exam asks, the gravest first."""
    lines = []
    for severity, meaning in SEVERITIES.items():
        asked = [q for q in QUESTIONS if q.severity == severity]
        rows = [[q.title, f"`{q.id}`", q.why] for q in asked]
        lines.append(f"If one of these fails, {meaning}:\n\n")
        head = ["question", "name", "why it is asked"]
        lines.append(table(head, rows, "---"))
        lines.append("\n")
    return "".join(lines)


def cures(_: dict[str, Any]) -> str:
    """The usual cause of each failure, and the piece that cures it."""
    rows = [
        [", ".join(f"`{q}`" for q in cure.questions if q in BY_ID), cure.cause,
         cure.piece]
        for cure in CURES
        if {*cure.questions} & {*BY_ID}
    ]  # fmt: skip
    return table(["fails", "usual cause", "cure"], rows, "---")


def summary(found: dict[str, Any]) -> str:
    """A row for each peer."""
    rows = []
    usual = versions(found["peers"][0]).partition(", ")[0]  # of torch
    for one in found["peers"]:
        signs = [one.sign(name) for name in BY_ID]
        failed = {name for name in BY_ID if one.sign(name) == "✗"}
        mended = [one.sign(name, mended=True) for name in BY_ID]
        rows.append(
            [
                f"[{SHORT[one.folder]}](#{one.folder})",
                f"{versions(one).removeprefix(f'{usual}, ')};"
                f" {one.result['date']}",
                str(signs.count("✓")),
                f"{signs.count('○')} / {signs.count('●')}",
                f"{len(failed)} / {len(failed - DROPOUT)}"
                + f" / {mended.count('✗')}" * bool(one.mended),
                f"{signs.count('–')} / {signs.count('?')}",
            ]
        )
    head = [
        "trainer", "versions, and when examined", "✓", "○ / ●",
        "✗ / without dropout / after cures", "– / ?",
    ]  # fmt: skip
    return table(head, rows, "---")


class Variant(NamedTuple):
    """A trainer with a fault, or a sound one that an exam could misjudge."""

    adapter: Path
    name: str  # in LOCKSTEP_FAULT
    question: str  # that it fails; "" if it is sound
    words: str


# Scripts with variants, their adapters, and what their variants' names begin
# with in a record.
BROKEN = {
    "": ("train", "adapter"),
    "own-style:": ("own_style", "own_style_exam"),
}


def variants(folder: Path) -> dict[str, Variant]:
    """Return the variants of the trainers in `folder`, by their names in a
    record. The scripts are not imported, since that would break the trainer."""
    found = {}
    for prefix, (script, adapter) in BROKEN.items():
        for node in ast.parse((folder / f"{script}.py").read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.decorator_list:
                (mark,) = node.decorator_list
                assert isinstance(mark, ast.Call)
                assert isinstance(mark.func, ast.Name)
                said = [ast.literal_eval(word) for word in mark.args]
                question = "" if mark.func.id == "sound" else said[0]
                words = " ".join((ast.get_docstring(node) or "").split())
                path = folder / f"{adapter}.py"
                one = Variant(path, said[-1], question, words)
                found[prefix + one.name] = one
    return found


def faults(found: dict[str, Any]) -> str:
    """What our trainer fails with each of its faults."""
    rows = []
    for name, variant in found["told"].items():
        one = found["faults"].get(name)
        if one and variant.question:
            linked = SILENT.sub(
                lambda n: f"[{n[0]}]({SILENT_PAGE}#d{int(n[1]):02})",
                variant.words,
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
    """Say which trainers end exactly after a kill in the middle of an epoch."""
    others = found["others"]
    killed = {SHORT[p.folder]: p.answers()["kill"] for p in others}
    names = [name for name, one in killed.items() if sign(one) == "✓"]
    random = [n for n, one in killed.items() if one["same_as"] == ["rng-state"]]
    ends = "ends" if len(names) == 1 else "end"
    return (
        f"After a kill in the middle of an epoch, {len(names)} of the"
        f" {len(others)} trainers {ends} exactly like an undisturbed run if you"
        f" follow the documentation: {', '.join(names)}. Another {len(random)}"
        f" would if the model had no dropout: {', '.join(random)}.\n"
    )


def choose(found: dict[str, Any]) -> str:
    """Name the trainers that give what a user may need: a row for each need."""
    rows = []
    for need, (questions, _) in NEEDS.items():
        names: dict[str, list[str]] = {}
        for one in found["others"]:
            name = SHORT[one.folder]
            if asked(one, questions) == "a part":
                name += "\\*"
            names.setdefault(one.gives(need), []).append(name)
        columns = "documented", "changed", "not applicable"
        every = [name for found in names.values() for name in found]
        rows.append([need, *(listed(names.get(x, []), every) for x in columns)])
    head = ["need", "as documented", "after our changes", "doesn't apply to"]
    return table(head, rows, "---")


def listed(names: list[str], every: list[str]) -> str:
    """Return these names, or those of all names that are missing if they are
    one or two."""
    left = [name for name in every if name not in names]
    if len(left) > 2 or any(name.endswith("*") for name in names):
        return ", ".join(names) or "none"
    return f"all except {' and '.join(left)}" if left else "all"


def advice(found: dict[str, Any]) -> str:
    """Return a row for each trainer: its worst failure and the changes that
    its users should make first."""
    rows = [
        [
            f"[{SHORT[one.folder]}](in-depth.md#{one.folder})",
            one.notes.advice.worst.strip(),
            one.notes.advice.first.strip(),
        ]
        for one in found["others"]
        if one.notes.advice
    ]
    head = ["trainer", "worst fault", "change first"]
    return table(head, rows, "---")


def asked(one: Peer, questions: Iterable[str]) -> str:
    """How much of these questions applies to a peer."""
    apply = [one.sign(name) != "–" for name in questions]
    return "all" if all(apply) else "a part" if any(apply) else "nothing"


def kinds(found: dict[str, Any]) -> str:
    """Count the failures that fit one of the patterns."""
    failed = [
        name for p in found["others"] for name in BY_ID if p.sign(name) == "✗"
    ]
    known = {name for names in KINDS.values() for name in names}
    of_a_kind = sum(name in known for name in failed)
    return (
        f"The {len(found['others'])} trainers have {len(failed)} failures that"
        f" don't follow from another failure, and {of_a_kind} of them fit these"
        f" {len(KINDS)} patterns. Check these first if your trainer isn't"
        " here.\n"
    )


def often(found: dict[str, Any]) -> str:
    """Which questions most of the others' trainers fail, by causes of their
    own, and of how many that were asked."""
    others = found["others"]
    rows = []
    for q in QUESTIONS:
        signs = [p.sign(q.id) for p in others]
        answered = sum(s in "✓○●✗" for s in signs)
        if (fail := signs.count("✗")) >= OFTEN:
            rows.append([f"{q.title} (`{q.id}`)", str(fail), str(answered)])
    rows.sort(key=lambda row: -int(row[1]))
    return table(["question", "fail it", "of"], rows)


def matrix(found: dict[str, Any]) -> str:
    """What each answers to each question."""
    return grid(found["peers"], cell)


def after(found: dict[str, Any]) -> str:
    """The same with all cures of each, where there are any."""
    cured = [one for one in found["peers"] if one.mended]
    return grid(cured, lambda p, question: p.sign(question, mended=True))


def grid(peers: list[Peer], shown: Callable[[Peer, str], str]) -> str:
    """A row for each question that was asked, by severity; a column for each
    peer. As HTML: its head stands upright, so that a page has room for all."""
    heads = "".join(
        f'<th scope="col"><span>{SHORT[p.folder]}</span></th>' for p in peers
    )
    lines = [
        '<div class="matrix-scroll" tabindex="0"><table class="matrix">',
        f'<thead><tr><th scope="col">name</th>{heads}<th scope="col">'
        "question</th></tr></thead><tbody>",
    ]
    for severity, meaning in SEVERITIES.items():
        rows = []
        for q in QUESTIONS:
            signs = [shown(p, q.id) for p in peers]
            if q.severity == severity and any(map(str.strip, signs)):
                cells = "".join(f"<td>{marked(s)}</td>" for s in signs)
                rows.append(
                    f'<tr><th scope="row"><code>{q.id}</code></th>{cells}'
                    f"<td>{q.title}</td></tr>"
                )
        if rows:
            lines.append(
                f'<tr><th scope="colgroup" colspan="{len(peers) + 2}">If it'
                f" fails, {meaning}:</th></tr>"
            )
            lines += rows
    return "\n".join([*lines, "</tbody></table></div>"]) + "\n"


def marked(said: str) -> str:
    """A sign in HTML, a failure in bold."""
    return f"<b>{said}</b>" if "✗" in said else said


def cell(one: Peer, question: str) -> str:
    """An answer of a peer, and what is to be known of a failure."""
    said, note = one.sign(question), one.note(question)
    if note and said == "✗":
        said += "*" * note.on_cpu_only + "†" * note.documented
    return said


def four(found: dict[str, Any]) -> str:
    """What was asked on four ranks."""
    peers = [p for p in found["peers"] if p.answers(4)]
    return grid(peers, lambda p, question: sign(p.answers(4).get(question)))


def on_gpu(found: dict[str, Any]) -> str:
    """Whether a rank on a GPU answers as a rank on a CPU does."""
    rows = []
    for one in found["peers"]:
        here, cured = one.of_one_rank("gpu"), one.of_one_rank("gpu_mended")
        if not here and not cured:
            continue
        cpu, both = one.of_one_rank("one"), {"passed", "failed"}
        asked = [n for n in here if {here[n], cpu.get(n)} <= both]
        other = [n for n in asked if here[n] != cpu[n]]
        rows.append(
            [
                SHORT[one.folder],
                f"{len(asked) - len(other)} of {len(asked)}"
                if here
                else "not finished",
                ", ".join(f"`{n}`: {here[n]}" for n in other)
                or ("none" if here else "not finished"),
                cures_hold(cured) if cured else "has none",
            ]
        )
    head = [
        "trainer", "as on a CPU", "otherwise",
        "passed on the GPU with our cures",
    ]  # fmt: skip
    return table(head, rows, "---")


def cures_hold(answers: dict[str, str]) -> str:
    """How many questions pass, of those that apply; and which has no answer."""
    apply = [n for n, a in answers.items() if a != "not applicable"]
    passed = [n for n in apply if answers[n] == "passed"]
    left = ", ".join(f"`{n}`" for n in apply if n not in passed)
    told = f" (no answer: {left})" * bool(left)
    return f"{len(passed)} of {len(apply)}{told}"


def gpu(found: dict[str, Any]) -> str:
    """On which, with what."""
    records = [r for p in found["peers"] if (r := p.gpu or p.gpu_mended)]
    versions = {name: v for r in records for name, v in r["versions"].items()}
    packages = ", ".join(f"{name} {v}" for name, v in versions.items())
    said = dict.fromkeys(
        f"{r['gpu']['name']} with CUDA {r['gpu']['cuda']}; {packages};"
        f" {r['date']}, revision `{r['revision']}`"
        for r in records
    )
    return "; ".join(said) + ".\n"


def machine(found: dict[str, Any]) -> str:
    """Where each was examined."""
    machines = [p.result["machine"] for p in found["peers"]]
    said = dict.fromkeys(
        f"{m['processor']}, {m['cores']} cores, {m['memory']}, {m['system']}"
        for m in machines
    )
    return "; ".join(said) + ".\n"


def told(one: Peer) -> str:
    """A peer's section."""
    notes = one.notes
    links = ", ".join(f"[{name}]({url})" for name, url in notes.docs.items())
    where = f" It follows: {links}." if links else ""
    lines = []
    if one.result:
        lines.append(
            f"*{versions(one)}; examined on {one.result['date']} at this"
            f" handbook's revision `{one.result['revision']}`.*"
            f" [Its scripts]({REPOSITORY}/tree/main/{PEERS}/{one.folder})"
        )
    lines.append(f"**How it was set up.** {notes.way.strip()}{where}")
    if notes.script:
        lines.append(f"**What the script does itself.** {notes.script.strip()}")
    if notes.does_well:
        lines.append(f"**What it does well.** {notes.does_well.strip()}")
    lines += [failure(one, f) for f in notes.failures]
    return "\n\n".join([*lines, *rest(one)]) + "\n"


def rest(one: Peer) -> Iterator[str]:
    """What is neither passed nor told of by `failure`, in a fold."""
    told_of = {f.question for f in one.notes.failures}
    lines = []
    for name, answer in one.answers().items():
        if name in told_of or answer["answer"] == "passed":
            continue
        said = textwrap.shorten(answer["said"].rstrip(" ."), 160)
        lines.append(f"    - {one.sign(name)} `{name}`: {said}.")
    if lines:
        yield "\n".join(
            ['??? abstract "The other signs: ○, ●, –, ?"', "", *lines]
        )


def failure(one: Peer, what: Failure) -> str:
    """A folded paragraph: what was seen, the threads, and the cure."""
    title = next(q.title for q in QUESTIONS if q.id == what.question)
    answer = one.answers().get(what.question)
    said, how = "", "Follows" if what.follows else "Failed"
    if answer:
        seen = textwrap.shorten(
            answer["said"].rstrip(" ."), 160, placeholder=" …"
        )
        said = f"*The exam saw:* {seen}."
        if answer["answer"] == "not run":
            how += " in some tries"
    if what.on_cpu_only:
        how += " on CPUs only"
    if what.documented:
        how += " (documented)"
    threads = " ".join(thread(u) for u in what.upstream)
    paragraphs = [
        what.seen.strip(),
        said,
        threads and f"*Threads:* {threads}",
        f"*Cure:* {what.mend.strip()} {tried(one, what)}",
        f"`make exam PEER={one.folder} ONLY={what.question}`",
    ]
    body = "".join(f"\n\n    {p}" for p in paragraphs if p)
    return f'??? failure "{how}: {title}"{body}'


def tried(one: Peer, what: Failure) -> str:
    """What became of the cure."""
    answer = one.answers(mended=True).get(what.question)
    if what.uncured:
        return ""
    on_gpu = one.of_one_rank("gpu"), one.of_one_rank("gpu_mended")
    if [a.get(what.question) for a in on_gpu] == ["failed", "passed"]:
        return "*Tried, on one GPU as well: it passes.*"
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
        named = f"[{found[1]} #{found[2]}]({one.url})"
        return f"{named}: {says}." if says else f"{named}."
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
