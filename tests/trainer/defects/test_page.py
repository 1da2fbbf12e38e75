"""What the page of silent failures says of the tests is so."""

from pathlib import Path

from lockstep.site import proofs

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/reliability/silent-failures.md"


def section(number: int) -> str:
    """What the page says of one failure."""
    text = PAGE.read_text("utf-8")
    return text.partition(f"{{ #d{number:02} }}")[2].partition("\n## ")[0]


def test_every_failure_is_proven_by_a_test_of_the_trainer() -> None:
    """Each of the seventeen sections has a mark that names a test of the
    trainer's."""
    for number in range(1, 18):
        tests = proofs.cited(section(number), ROOT)
        assert any(t.path.startswith("tests/trainer/") for t in tests), number


def test_every_faulty_copy_is_on_the_page() -> None:
    copies = sorted((ROOT / "code/lockstep/exercises/silent").glob("d??_*.py"))
    assert len(copies) == 17
    for number, path in enumerate(copies, 1):
        assert f"{path.name}:copy" in section(number).partition("\n### ")[0]
