"""Print the test matrix, read from the files where its versions live."""

import json
import re
import tomllib
from pathlib import Path

PINS = Path("constraints.txt").read_text("utf-8")
COLAB = tomllib.loads(Path("tests/data/colab.toml").read_text("utf-8"))
PROJECT = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
PYTHON, NEWEST = "3.11", "3.14"  # what README says, and a test compares

(pinned,) = re.findall(r"^torch==[^ ]+", PINS, re.M)
NEEDED = PROJECT["optional-dependencies"]["train"]
(lowest,) = (d for d in NEEDED if d.startswith("torch>="))
rows = [
    {"name": "lowest", "torch": lowest.replace(">", "="), "python": PYTHON},
    {"name": "pinned", "torch": pinned, "python": PYTHON},
    {"name": "newest", "torch": "torch", "python": PYTHON},
    {"name": "newest Python", "torch": pinned, "python": NEWEST},
    {
        "name": "Colab",
        "torch": f"torch=={COLAB['torch']}",
        "python": COLAB["python"],
    },
]
print("include=" + json.dumps(rows))
