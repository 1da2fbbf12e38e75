"""The page of biotech's hard questions has them all, under their titles."""

import re
from pathlib import Path

from lockstep.practice.bank import admitted

PAGE = Path(__file__).parents[2] / "docs" / "biotech" / "hard-questions.md"
LINK = re.compile(r"\[([^][]+)\]\(\.\./practice/questions/(bio-[\w-]+)\.md\)")


def links(text: str) -> list[tuple[str, str]]:
    return [(i, " ".join(title.split())) for title, i in LINK.findall(text)]


def test_each_question_stands_under_one_subject_by_its_title() -> None:
    bank = {i: one.title for i, one in admitted().items() if one.topic == "bio"}
    first, subjects = PAGE.read_text("utf-8").split("## Splits", 1)
    assert dict(links(first)).items() <= bank.items()
    assert sorted(links(subjects)) == sorted(bank.items())
