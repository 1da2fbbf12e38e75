"""What the page of silent failures says of the tests is so."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/reliability/silent-failures.md"


def test_the_page_names_tests_that_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text("utf-8")))
    there = {
        name
        for path in (ROOT / "tests/trainer").rglob("test_*.py")
        for name in re.findall(
            r"^def (test_\w+)", path.read_text("utf-8"), re.M
        )
    }
    assert len(named) >= 17
    assert named <= there, named - there


def test_every_faulty_copy_is_on_the_page() -> None:
    text = PAGE.read_text("utf-8")
    copies = sorted((ROOT / "code/lockstep/exercises/silent").glob("d??_*.py"))
    assert len(copies) == 17
    for number, path in enumerate(copies, 1):
        section = text.partition(f"{{ #d{number:02} }}")[2].partition("\n## ")[
            0
        ]
        assert f"{path.name}:copy" in section.partition("\n### ")[0]
