"""Of what is written badly, the style check names the fault."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from lockstep.site.prose import faults, main, split

from .conftest import ROOT, Project

WORD = "word "
FRONT = "---\ncomputed: true\n---\n# Title\n\n"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (WORD * 26 + ".", "26 words: word"),
        (f"- {WORD * 26}.", "26 words: word"),
        (f"!!! note\n\n    {WORD * 26}.", "26 words: word"),
        ("A b. C d. E f. G h. I j.", "5 sentences: A b."),
        ("This is a Robust trainer.", "a banned word, 'Robust'"),
        ("It leverages all.", "a banned word, 'leverages'"),
        ("It is not just fast but right.", "a banned word, 'not just"),
        ('!!! quote "Say it"\n\n    ' + "One two. " * 23, "46 words to say"),
        ("## Two\n\n#### Four", "a level is skipped before: Four"),
    ],
)
def test_a_fault_is_named(text: str, fault: str) -> None:
    found = list(faults(FRONT + text + "\n"))
    assert any(one.startswith(fault) for one in found), found


def test_a_page_of_its_kind_has_a_length() -> None:
    text = f"# Title\n\n```python\n{WORD * 100}\n```\n" + "One two.\n\n" * 750
    [fault] = faults(text, "docs/concepts/page.md")
    assert fault == "1501 words, where 1500 are the most"
    assert list(faults(text, "docs/practice/page.md")) == []


@pytest.mark.parametrize(
    "text",
    [
        WORD * 25 + ".",
        "A b. C d. E f. G h.",
        "**Cause.** A b. C d. E f. G h.",
        "```bash\n" + WORD * 40 + "\n```",
        f"`{WORD * 40}`",
        "{{ plan(" + WORD * 40 + ") }} is {% set x = 1 %} here.",
        "| a | b |\n|---|---|\n" + f"| {WORD * 20} | {WORD * 20} |",
        f"[a link](https://a.org/{'robust/' * 40})",
        '!!! quote "Say it"\n\n    ' + "One two. " * 4,
        "On torch 2.13.0 it takes 9.0 s, i.e. nothing.",
    ],
)
def test_what_is_no_sentence_is_no_fault(text: str) -> None:
    assert list(faults(FRONT + text + "\n")) == []


def test_a_sentence_may_begin_with_code() -> None:
    assert len(split("It ends. code begins (so.) Is it? Yes.")) == 4


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


@pytest.mark.parametrize("word", ["behavior", "seperate", "utilization"])
def test_the_spelling_is_british_and_right(project: Project, word: str) -> None:
    page = project.write("page.md", f"The {word} of `{word}`.\n")
    lint = (ROOT / "Makefile").read_text("utf-8")
    (words,) = re.findall(r"codespell (-D - -D \S+)", lint)
    command = (sys.executable, "-m", "codespell_lib", *words.split(), page)
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode != 0
    assert found.stdout.count(f"{word} ==>") == 1, "code is not prose"
