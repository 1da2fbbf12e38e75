"""Of what is written badly, the style check names the fault."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from lockstep.site.verify.prose import faults, main, notes, voice

from .conftest import ROOT, Project

WORD = "word "
FRONT = "---\ncomputed: true\n---\n# Title\n\n"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("This is a Robust trainer.", "a banned word, 'Robust'"),
        ("It leverages all.", "a banned word, 'leverages'"),
        ("It is not just fast but right.", "a banned word, 'not just"),
        ('!!! quote "Say it"\n\n    ' + "One two. " * 38, "76 words to say"),
        ("## Two\n\n#### Four", "a level is skipped before: Four"),
    ],
)
def test_a_fault_is_named(text: str, fault: str) -> None:
    found = list(faults(FRONT + text + "\n"))
    assert any(one.startswith(fault) for one in found), found


@pytest.mark.parametrize(
    "named",
    [
        "`test_it_holds`",
        "`tests/site/test_style.py::test_it_holds`",
        "`::test_it_holds[a-1]`",
        "`tests/site`",
    ],
)
def test_a_page_names_its_tests_by_marks(named: str) -> None:
    """In running text of a page a test's path stops the reader; elsewhere, in
    code and in a mark it does not."""
    [fault] = faults(f"# Title\n\nIt holds ({named}).\n", "docs/page.md")
    assert fault.endswith(named)
    assert list(faults(f"# Title\n\nRun {named}.\n", "CONTRIBUTING.md")) == []
    fenced = f"# Title\n\n```bash\necho {named}\n```\n\nSo. [✓ test_it_holds]\n"
    assert list(faults(fenced, "docs/page.md")) == []


@pytest.mark.parametrize(
    "text",
    [
        WORD * 60 + ".",
        "A b. C d. E f. G h. I j. K l. M n.",
        "```bash\n" + WORD * 40 + "\n```",
        f"`{WORD * 40}`",
        "{{ plan(" + WORD * 40 + ") }} is {% set x = 1 %} here.",
        "| a | b |\n|---|---|\n" + f"| {WORD * 20} | {WORD * 20} |",
        f"[a link](https://a.org/{'robust/' * 40})",
        '!!! quote "Say it"\n\n    ' + "One two. " * 37,
        "On torch 2.13.0 it takes 9.0 s, i.e. nothing.",
    ],
)
def test_what_is_no_sentence_is_no_fault(text: str) -> None:
    assert list(faults(FRONT + text + "\n")) == []


def test_a_faulty_page_fails_with_its_name(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(project.root)
    assert main() == 0
    project.page("A seamless page.")
    assert main() == 1
    assert "docs/index.md: a banned word, 'seamless'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "path", "uses"),
    [
        ("# It is no page\n\nIt seldom goes on.\n", "docs/page.md", 3),
        ("`anew` is no longer code.\n\n```\nmend\n```\n", "docs/page.md", 0),
        ('def f():\n    """Mend it anew."""\n', "code/lockstep/f.py", 2),
        ("mended = 1  # whoever\n", "code/lockstep/f.py", 0),
        ("say: whoever errs, `mend`\n", "code/lockstep/practice/f.yml", 2),
        ('def f():\n    """What it is."""\n', "code/lockstep/f.py", 1),
    ],
)
def test_words_of_the_voice_are_counted(
    text: str, path: str, uses: int
) -> None:
    assert len(list(voice(text, path))) == uses


@pytest.mark.parametrize(
    ("note", "fault"),
    [
        ("Two ranks save at one step, and one file remains.", False),
        ("By the exit code alone.", True),
        ("One file remains", True),
        ("what a rank finds there.", True),
    ],
)
def test_a_proof_note_is_a_sentence(
    project: Project, note: str, fault: bool
) -> None:
    text = f'def test_it() -> None:\n    """{note}"""\n'
    project.write("tests/test_it.py", text)
    project.page("It holds. [✓ test_it]")
    assert bool(notes(project.root)) is fault


def test_counted_words_may_only_shrink(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A new word is a fault, a removed word lowers the file's count with
    `--shrink`, and `--shrink` raises no count."""
    monkeypatch.chdir(project.root)
    count = project.root / "code/lockstep/site/verify/voice.txt"
    count.parent.mkdir(parents=True, exist_ok=True)
    count.write_text("docs/index.md 2\n")
    monkeypatch.setattr(sys, "argv", ["prose"])
    project.page("Mend it anew.")
    assert main() == 0
    project.page("Mend it anew, by lot.")
    assert main() == 1
    assert "3 such faults, where 2 are allowed" in capsys.readouterr().out
    project.page("Mend it.")
    assert main() == 1
    assert "run --shrink" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["prose", "--shrink"])
    assert main() == 0
    assert count.read_text().splitlines()[1:] == ["docs/index.md 1"]
    project.page("Mend it anew.")
    assert main() == 1


MISSPELLED = [
    "behaviour",  # codespell:ignore
    "utilisation",  # codespell:ignore
    "seperate",
    "time-out",  # codespell:ignore
]


@pytest.mark.parametrize("word", MISSPELLED)
def test_the_spelling_is_american(project: Project, word: str) -> None:
    page = project.write("page.md", f"The {word} of `{word}`.\n")
    lint = (ROOT / "Makefile").read_text("utf-8")
    words = re.findall(r"codespell (--builtin \S+)", lint)[0]
    command = (sys.executable, "-m", "codespell_lib", *words.split(), page)
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode != 0
    assert found.stdout.count(f"{word} ==>") == 1, "code is not prose"
