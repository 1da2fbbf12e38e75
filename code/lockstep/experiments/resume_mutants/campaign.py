"""Plant faults, confirm which of them matter, and examine those."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from lockstep.exam.adapter import Adapter, Launch, load
from lockstep.exam.examine import Exam, Progress, examine
from lockstep.exam.questions import Result
from lockstep.exam.sandbox import ExamError
from lockstep.experiments.provenance import revision

from .forked import starter
from .planted import EXAMPLES, LOOPS, Planted, planted
from .sound import VARIANTS
from .trials import LIMIT, UNDISTURBED, Trial, end, matters

Record = dict[str, Any]
Part = tuple[int, int]  # (k, n): every n-th from the k-th on


def adapter_of(loop: str, sources: dict[str, str]) -> Adapter:
    """Return the adapter of a loop that runs from these changed sources."""
    return replace(load(f"{EXAMPLES}{loop}_exam"), start=starter(sources))


def known(file: Path) -> dict[str, Record]:
    """Return what earlier parts of a campaign recorded, the newest for each
    fault; a line that was cut short is left out."""
    found: dict[str, Record] = {}
    if file.exists():
        for line in file.read_text("utf-8").splitlines():
            try:
                one = json.loads(line)
            except ValueError:
                continue
            found[one["name"]] = found.get(one["name"], {}) | one
    return found


def note(file: Path, record: Record) -> Record:
    """Append a record with the revision, and return it; it is on the disk
    when this returns."""
    record |= {"revision": revision(Path(__file__).parent)}
    with file.open("a") as out:
        out.write(json.dumps(record) + "\n")
        out.flush()
        os.fsync(out.fileno())
    return record


def names(faults: list[Planted]) -> Iterator[tuple[str, Planted]]:
    """Yield each fault with its name."""
    counts: Counter[str] = Counter()
    for one in faults:
        counts[one.loop] += 1
        yield f"{one.loop}-{counts[one.loop]:03d}", one


def confirm(
    file: Path, folder: Path, count: int, seed: int, part: Part
) -> Iterator[Record]:
    """Record of each fault that is not in `file` whether it matters.

    Args:
        file: JSON lines, one for each fault.
        folder: where trainers run; cleared.
        count: how many faults to plant.
        seed: of the draw.
        part: of the faults.
    """
    done = known(file)
    sound = {
        loop: end(adapter_of(loop, {}), folder, Trial("", ())).ids
        for loop in LOOPS
    }
    for name, one in [*names(planted(count, seed))][part[0] :: part[1]]:
        if name in done:
            continue
        adapter = adapter_of(one.loop, one.sources)
        shown = matters(adapter, folder, sound[one.loop])
        record = {
            "name": name, "loop": one.loop, "module": one.module,
            "operator": one.edit.operator, "diff": one.diff, "shows": shown,
        }  # fmt: skip
        yield note(file, record)


class Enough(Exception):
    """A question failed; the argument is its result."""


class UntilFailure(Progress):
    """Ends an exam at its first failure."""

    def answered(self, result: Result, number: int, left: float) -> None:
        """Raise Enough if this question failed."""
        if result.reproduced:
            raise Enough(result)


def verdict(adapter: Adapter, folder: Path) -> Record:
    """Examine a trainer until a question fails.

    Returns:
        `{"failed": question or "", "said": what was seen, "unanswered": {}}`,
        the last with the reason for each question without an answer.
    """
    try:
        exam: Exam = examine(
            adapter,
            folder,
            Launch(folder),
            progress=UntilFailure(),
            limit=LIMIT,
        )
    except Enough as enough:
        (result,) = enough.args
        said = result.verdict.said
        return {"failed": result.question.id, "said": said, "unanswered": {}}
    except ExamError as error:
        return {"failed": "exam", "said": str(error), "unanswered": {}}
    open_ = {one: exam.results[one].verdict.said for one in exam.unanswered}
    return {"failed": "", "said": "", "unanswered": open_}


def ask(
    file: Path,
    folder: Path,
    faults: dict[str, Planted],
    part: Part,
    again: frozenset[str] = frozenset(),
) -> Iterator[Record]:
    """Examine each fault of this part that matters and has no verdict in
    `file`, or is named in `again`."""
    matter = [one for one in known(file).values() if relevant(one)]
    for record in matter[part[0] :: part[1]]:
        name = record["name"]
        if "failed" in record and name not in again:
            continue
        one = faults[name]
        if one.diff != record["diff"]:
            raise ValueError(
                f"{name}: the loops have changed, confirm it again"
            )
        adapter = adapter_of(one.loop, one.sources)
        yield note(file, record | verdict(adapter, folder))


def relevant(record: Record) -> bool:
    """Whether a fault shows only after a restart: a trainer that does not run
    undisturbed needs no exam."""
    return bool(record["shows"]) and not shows_undisturbed(record)


def shows_undisturbed(record: Record) -> bool:
    """Whether a fault shows without a restart."""
    return record["shows"].startswith(f"{UNDISTURBED} ")


def report(faults: Path, sound: Path) -> str:
    """Return what the records say: counts of faults by kind, each miss, and
    each sound variant that failed."""
    planted_, variants = [*known(faults).values()], [*known(sound).values()]
    matter = [one for one in planted_ if relevant(one)]
    asked = [one for one in matter if "failed" in one]
    missed = [one["name"] for one in asked if not one["failed"]]
    whole = sum(not shows_undisturbed(one) for one in planted_)
    wrong = [one["name"] for one in variants if one["shows"] or one["failed"]]
    lines = [
        f"faults planted      {len(planted_):4}",
        f"  run undisturbed   {whole:4}",
        f"  matter            {len(matter):4}",
        f"  found by the exam {len(asked) - len(missed):4}",
        f"sound variants      {len(variants):4}",
        f"  failed by the exam{len(wrong):4}",
        "",
        "first failed question",
    ]
    by_question = Counter(one["failed"] for one in asked if one["failed"])
    lines += [f"{count:4}  {name}" for name, count in by_question.most_common()]
    return "\n".join([*lines, *(f"missed: {one}" for one in missed + wrong)])


def ask_sound(file: Path, folder: Path, part: Part) -> Iterator[Record]:
    """Confirm that each sound variant of this part is sound, and examine
    it."""
    done = known(file)
    for one in VARIANTS[part[0] :: part[1]]:
        name = f"{one.loop}: {one.name}"
        if name in done:
            continue
        adapter = adapter_of(one.loop, one.sources)
        runs = folder / "runs"  # an exam wants a folder of its own
        sound = end(adapter, runs, Trial("", ())).ids
        record = {
            "name": name, "shows": matters(adapter, runs, sound),
            **verdict(adapter, folder / "exam"),
        }  # fmt: skip
        yield note(file, record)
