"""What a page says of a version is what the project pins."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_pages_name_the_torch_that_is_pinned() -> None:
    pins = (ROOT / "constraints.txt").read_text()
    (pinned,) = re.findall(r"^torch==([\d.]+) ", pins, re.MULTILINE)
    for page, sentence in {
        "practice/index.md": r"runs on torch ([\d.]+), which this project pins",
        "handbook.md": r"with gloo, on torch ([\d.]+)\. Claims about",
    }.items():
        (said,) = re.findall(sentence, (ROOT / "docs" / page).read_text())
        assert f"{pinned}.".startswith(f"{said}."), page


def test_readme_names_the_pythons_that_ci_runs() -> None:
    versions = ROOT / ".github" / "workflows" / "versions.py"
    done = subprocess.run(
        [sys.executable, versions],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    rows = json.loads(done.stdout.removeprefix("include="))
    ran = {row["python"] for row in rows}
    readme = (ROOT / "README.md").read_text("utf-8")
    [said] = re.findall(r"^Python (3\.\d+.*?), make and git", readme, re.M)
    told = re.findall(r"3\.\d+", said)
    assert {told[0], told[-1]} <= ran <= {*told}
