"""Every bug: the trainer has it, a strong answer finds and fixes it, and an
answer that is wrong loses what it should."""

import ast
import json
import re
from pathlib import Path

import pytest

from lockstep.cli import main
from lockstep.debugging.bugs import Bug, bugs, grading, plain
from lockstep.debugging.bugs.checks import (
    CHECKS,
    Trainer,
    examined,
    first_failure,
)
from lockstep.debugging.bugs.grading import POINTS, grade
from lockstep.debugging.bugs.record import recorded
from lockstep.grading.criteria import CannotGradeError
from lockstep.grading.mutants import replaced
from tests import ranks
from tests.conftest import daily

pytestmark = pytest.mark.timeout(300)
BUGS = bugs()
EACH = [
    pytest.param(bug, defect, id=f"{bug.number}-{defect}")
    for bug in BUGS.values()
    for defect in bug.defects
]
every_bug = pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)


def written(folder: Path, files: dict[str, str]) -> Path:
    """An answer of these files."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder / "answer.py"


def wrong_with(
    trainer: str, bug: Bug, folder: Path, defects: list[str] | None = None
) -> tuple[str, str]:
    """What the hidden tests say of a trainer: of the bug; of anything else."""
    mine = written(folder / "mine", {"trainer.py": trainer})
    sound = written(folder / "sound", {"trainer.py": bug.sound()})
    files = (path.with_name("trainer.py") for path in (mine, sound))
    job = *files, folder / "runs", defects or bug.defects
    return ranks.run_ranks(1, examined, *job, timeout=240)[0]


# The bugs


@every_bug
def test_each_replacement_applies_and_leaves_python(bug: Bug) -> None:
    sound, broken, other = bug.sound(), bug.broken(), bug.otherwise_broken()
    assert len({sound, broken, other}) == 3
    for text in sound, broken, other, *map(bug.broken, bug.defects):
        ast.parse(text)
        assert max(map(len, text.splitlines())) <= 80
        assert "--8<--" not in text


def test_all_defects_are_there() -> None:
    alone = [b.defects[0] for b in BUGS.values() if len(b.defects) == 1]
    assert alone == sorted(CHECKS) == [f"{n:02}" for n in range(1, 18)]
    assert len(BUGS) >= 19


@every_bug
def test_a_complaint_is_short_and_shows_a_log(bug: Bug) -> None:
    text = " ".join(bug.constant("COMPLAINT").split())
    assert 2 <= len(re.findall(r"[.?!](?: |$)", text)) <= 7
    log = bug.constant("LOG").splitlines()
    assert max(map(len, log)) <= 80
    assert any(line and not line.startswith("$") for line in log)
    assert 2 <= len(bug.constant("HINTS")) <= 3
    assert bug.constant("ELSE").strip()


# Those with a stand-in; `lockstep.debugging.bugs.record` runs all of them.
@pytest.mark.parametrize("number", daily(["11", "14"], "11"))
def test_a_log_is_what_its_commands_print(number: str) -> None:
    assert recorded(BUGS[number]) == BUGS[number].constant("LOG").strip()


@pytest.mark.parametrize(("bug", "defect"), EACH)
def test_the_check_finds_the_defect(
    bug: Bug, defect: str, tmp_path: Path
) -> None:
    """The check for each of the seventeen defects finds it in a whole trainer
    that differs from a sound one by this defect alone."""
    own, _ = wrong_with(bug.broken(defect), bug, tmp_path, [defect])
    assert own


def test_a_check_that_fails_without_a_message_names_itself() -> None:
    def steps_are_whole(trainer: Trainer) -> None:
        raise AssertionError  # as `assert` does, where pytest rewrites none

    trainer = Trainer(Path(), Path(), Path())
    assert first_failure([steps_are_whole], trainer) == "not: steps are whole"


# Answers that are right


@pytest.mark.parametrize("number", daily(BUGS, "01", "09", "18"))
def test_a_strong_answer_gets_full_marks(
    number: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bug", "solution", number, str(tmp_path)]) == 0
    file = capsys.readouterr().out.strip()
    assert main(["bug", "check", number, file, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["bug"] == number
    assert report["score"] == report["full"] == 100
    assert {c["status"] for c in report["criteria"]} == {"passed"}


@pytest.mark.parametrize("number", ["01", "02"])
def test_a_fix_of_another_shape_is_one(number: str, tmp_path: Path) -> None:
    """The cut as it was, before anything was rewritten or planted."""
    cut = plain(Path("code/lockstep/interview.py").read_text())
    assert cut != BUGS[number].sound()
    assert wrong_with(cut, BUGS[number], tmp_path) == ("", "")


# Answers that are not


@every_bug
def test_the_template_scores_nothing(
    bug: Bug, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bug", "start", bug.number, str(tmp_path)]) == 0
    file = capsys.readouterr().out.strip()
    assert main(["bug", "check", bug.number, file, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["score"] == 0
    found = {c["status"] for c in report["criteria"]}
    assert found == {"not attempted", "blocked"}


BUG = BUGS["07"]
BEGIN = 'from lockstep.debugging.bugs.rig import launch\nSYMPTOM = "it is"\n'
BOTH = """from lockstep.debugging.bugs.answers import bug_08, bug_19
    bug_19.bug_07.prove(trainer, folder / "7")
    bug_08.prove(trainer, folder / "8")"""
READS = "assert 'nullcontext():' not in trainer.read_text(), 'it is there'"
MISSES = "assert 'nullcontext() if' in trainer.read_text(), 'it is missing'"


def proof(body: str) -> dict[str, str]:
    """An answer with this proof, and nothing fixed."""
    text = f"{BEGIN}def prove(trainer, folder):\n    {body}\n"
    return {"answer.py": text, "trainer.py": BUG.broken()}


def fix(trainer: str) -> dict[str, str]:
    """An answer with no proof, and this trainer."""
    return proof("raise NotImplementedError") | {"trainer.py": trainer}


def waiting(trainer: str) -> str:
    """A trainer that does not end, and takes no time of others."""
    return replaced(
        trainer, [("while step < stop:", "while not time.sleep(1):")]
    )


ANOTHER = "proof passes another bug"
WRONG: dict[str, tuple[dict[str, str], set[str]]] = {
    "fails always": (
        proof("assert False, 'it is broken'"),
        {"proof passes what is sound", ANOTHER},
    ),
    "fails never": (proof("launch(trainer, folder, max_steps=1)"), {"proof"}),
    "says nothing": (proof("assert False"), {"proof"}),
    "raises another error": (proof("{}['phases']"), {"proof"}),
    "hangs": (proof("while not __import__('time').sleep(1): pass"), {"proof"}),
    "is of two bugs": (proof(BOTH), {ANOTHER}),
    "reads the bug": (proof(READS), {"proof"}),
    "misses the fix": (
        proof(MISSES),
        {"proof passes what is sound", ANOTHER},
    ),
    "mends nothing": (fix(BUG.broken() + "# mended\n"), {"fix"}),
    "mends and breaks": (
        fix(BUG.otherwise_broken()),
        {"nothing else changed"},
    ),
    "hangs in training": (fix(waiting(BUG.sound())), {"fix"}),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_loses_what_it_should(name: str, tmp_path: Path) -> None:
    """Each kind of wrong answer loses exactly the criteria that it breaks, and
    gets a hint for each."""
    files, lost = WRONG[name]
    seconds = 8 if "hangs" in name else 60
    report = grade(BUG, written(tmp_path / "answer", files), seconds=seconds)
    failed = {c.name: c.hint for c in report.criteria if c.status == "failed"}
    assert failed.keys() == lost
    assert all(failed.values())
    assert not report.solved


def test_every_criterion_is_the_only_one_that_some_answer_loses() -> None:
    lost = [names for _, names in WRONG.values()]
    # Any line is a symptom, and what raises on a sound trainer raises on all.
    others = POINTS.keys() - {"symptom", "proof passes what is sound"}
    assert all({name} in lost for name in others)


def part(number: str, *chosen: slice) -> str:
    """The sound trainer with some of a bug's replacements."""
    bug = BUGS[number]
    planted = bug.constant("PLANTED")[number]
    return replaced(bug.sound(), [p for some in chosen for p in planted[some]])


def changed(number: str, *replacements: tuple[str, str]) -> str:
    """The sound trainer with replacements that are no part of the bug."""
    return replaced(BUGS[number].sound(), replacements)


TRUST = '"cpu", weights_only=False)'
HALF = {
    "03 trusts pickles": replaced(
        BUGS["03"].broken(),
        [
            (f'{name}.pt", "cpu")', f'{name}.pt", {TRUST}')
            for name in ("rank-0", "rank-{r.rank}")
        ],
    ),
    "06 evaluates padding": part("06", slice(4, None)),
    "06 trains on padding": part("06", slice(4)),
    "08 never autocasts": changed("08", ("dtype is not None)", "False)")),
    "09 seeds apart": part("09", slice(1, None)),
    "09 restores its own": part("09", slice(1)),
    "11 waits for the device": part("11", slice(1, None)),
    "11 waits at every step": changed("11", (" and self.timing", "")),
    "11 reads once": part("11", slice(1)),
    "15 times the load": part("15", slice(1, None)),
    "16 logs on all ranks": part("16", slice(2, None)),
    "16 logs the global loss": part("16", slice(2)),
}


@pytest.mark.parametrize("name", HALF)
def test_half_a_fix_is_none(name: str, tmp_path: Path) -> None:
    own, _ = wrong_with(HALF[name], BUGS[name[:2]], tmp_path)
    assert own


# The command


def test_hints_cost_points(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bug", "hint", "7", "2"]) == 0
    assert capsys.readouterr().out.strip() == BUG.constant("HINTS")[1]
    file = str(written(tmp_path / "answer", BUG.solution()))
    assert main(["bug", "check", "7", file, "--hints", "2"]) == 1
    said = capsys.readouterr().out
    assert "90 of 100 (2 x 5 for hints)" in said
    assert "your proof says: updates in one step" in said
    assert BUG.fix() in said  # all is passed, so the story is told
    assert BUG.constant("ELSE").strip() in said


def test_bugs_are_listed_by_what_was_seen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["bug", "list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["bug"] for one in found] == list(BUGS)
    assert all(one["title"] for one in found)
    assert main(["bug", "list"]) == 0
    assert capsys.readouterr().out.startswith(f"01  {BUGS['01'].title}\n")


def test_a_start_shows_what_a_colleague_would(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bug", "start", "7", str(tmp_path)]) == 0
    folder = Path(capsys.readouterr().out.strip()).parent
    names = {path.name for path in folder.iterdir()}
    assert names == {"trainer.py", "COMPLAINT.md", "answer.py"}
    complaint = (folder / "COMPLAINT.md").read_text()
    assert BUG.constant("LOG").strip() in complaint
    assert main(["bug", "start", "7", str(tmp_path)]) == 2
    assert "already exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("start 99", "unknown bug 99; choose from 01"),
        ("hint 7 9", "bug 07 has hints 1 to 3"),
        ("check 7 nothing.py", "nothing.py: No such file or directory"),
        ("check 7 nothing.py --hints 9", "bug 07 has 3 hints"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    args: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bug", *args.split()]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error


OWN = 'from lockstep.debugging.bugs import bugs\nexec(bugs()["07"].sound())\n'
LOADED = 'import importlib\nimportlib.import_module("lockstep.interview")\n'
STRONG = "from lockstep.debugging.bugs.answers.bug_07 import *\n"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("trainer.py", OWN, "lockstep.debugging.bugs.bugs"),
        ("trainer.py", LOADED, "lockstep.interview"),
        ("answer.py", STRONG, "lockstep.debugging.bugs.answers.bug_07"),
    ],
    ids=["its own trainer", "by its name", "its own proof"],
)
def test_an_answer_that_lockstep_has_written_is_refused(
    name: str, text: str, said: str, tmp_path: Path
) -> None:
    """A fix that imports a trainer from Lockstep, and a proof that imports the
    strong answer, are refused in one line."""
    taken = BUG.solution() | {name: text}
    with pytest.raises(CannotGradeError) as error:
        BUG.graded(written(tmp_path / "answer", taken))
    assert f"{name} takes {said} from Lockstep" in str(error.value)
    assert "\n" not in str(error.value)


def test_an_error_of_the_grader_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """When the grader itself raises, the command prints one line and no
    traceback."""
    monkeypatch.setattr(grading, "can_be_loaded", None)
    monkeypatch.setattr(grading, "Ranks", None)
    monkeypatch.setattr(grading, "imported", lambda *_: "it is")
    file = str(written(tmp_path / "answer", BUG.solution()))
    assert main(["bug", "check", "7", file]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "the grader failed: TypeError" in said


def test_a_trainer_in_another_encoding_is_graded(tmp_path: Path) -> None:
    files = fix("# coding: latin-1\n# caf\u00e9\n" + BUG.sound())
    answer = written(tmp_path / "answer", files)
    text = files["trainer.py"].encode("latin-1")
    answer.with_name("trainer.py").write_bytes(text)
    report = BUG.graded(answer)
    status = {c.name: c.status for c in report.criteria}
    assert status["fix"] == "passed"


@pytest.mark.parametrize("name", ["answer.py", "trainer.py"])
def test_what_cannot_be_imported_cannot_be_graded(
    name: str, tmp_path: Path
) -> None:
    broken = BUG.solution() | {name: "def f(:\n"}
    with pytest.raises(CannotGradeError, match=f"{name} .*SyntaxError"):
        grade(BUG, written(tmp_path / "answer", broken))
