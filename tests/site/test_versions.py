"""What a page says of a version is what the project pins."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_pages_name_the_torch_that_is_pinned() -> None:
    pins = (ROOT / "constraints.txt").read_text()
    (pinned,) = re.findall(r"^torch==([\d.]+)$", pins, re.MULTILINE)
    for page, sentence in {
        "index.md": r"runs on torch ([\d.]+), which this project pins",
        "handbook.md": r"with gloo, on torch ([\d.]+)\. What is said",
    }.items():
        (said,) = re.findall(sentence, (ROOT / "docs" / page).read_text())
        assert f"{pinned}.".startswith(f"{said}."), page
