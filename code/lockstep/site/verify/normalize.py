"""The one place that says which parts of an output may differ between runs.

`tidy` makes an output fit to publish: it says nothing of the machine it ran
on. `normalize` makes two outputs comparable.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?"

# Pattern, what stands in its place. They apply in this order.
RULES: tuple[tuple[str, str], ...] = (
    # A moment: ISO 8601 date and time, or a time of the day.
    (
        r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?"
        r"(?:Z|[+-]\d\d:?\d\d)?",
        "<time>",
    ),
    (r"\b\d?\d:\d\d:\d\d(?:[.,]\d+)?\b", "<time>"),
    (rf'("(?:time|timestamp|ts|started|ended)": ){_NUMBER}', r"\1<time>"),
    # A duration, or a rate over one.
    (rf'("[^"\s]*(?:_s|_ms|_us|_ns|seconds)": ){_NUMBER}', r"\1<duration>"),
    (rf"\b{_NUMBER} ?[\w-]+(?:/s| per second)(?!\w)", "<rate>"),
    (rf"\b{_NUMBER} ?(?:ns|[uµ]s|ms|s|sec|seconds|min)(?!\w)", "<duration>"),
    # pytest tells a run of more than a minute twice.
    (r"<duration> \(<time>\)", "<duration>"),
    # A process id.
    (r"(?i)(\bpid\b\W{1,3})\d+", r"\1<pid>"),
    # The release that ran.
    (r"(\btorch(?:_version)?\W{1,4})\d+\.\d+\.\d+[\w.+]*", r"\1<version>"),
    # A path that starts at the root of a machine or of a home.
    (r"(?<![\w./<~])~?/[\w@.+-]+(?:/[\w@.+-]+)+/?", "<path>"),
)
# How columns are padded follows the width of what stands in them.
_PADDING: tuple[tuple[str, str], ...] = (
    (r"(?m)[ \t]+$", ""),
    (r"(?<=\S) {2,}", " "),
)
# Commands that compute and measure nothing: all that they print stays as it is.
_COMPUTING = re.compile(r"(?:lockstep plan (?:[^\n]*\\\n)*[^\n]*\n?)+")

# A digest, whole or shortened. What the weights come to depends on how this
# build of torch orders its sums, so a digest gets a number in order of
# appearance: two that were equal must stay equal, two that were not, not.
_DIGEST = re.compile(r"\b(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{12,64}\b")


def normalize(text: str, commands: str = "") -> str:
    """Replace what may differ between two runs of `commands` by its name."""
    computed = _COMPUTING.fullmatch(commands)
    for pattern, replacement in (() if computed else RULES) + _PADDING:
        text = re.sub(pattern, replacement, text)
    seen: dict[str, str] = {}
    text = _DIGEST.sub(
        lambda m: seen.setdefault(m[0], f"<digest {len(seen) + 1}>"), text
    )
    return text.rstrip("\n")  # an include leaves out the last line's end


def tidy(text: str, scratch: Path) -> str:
    """Take the machine out of an output.

    Paths inside the directory that the commands ran in become relative, and a
    virtual environment and a home are named as everyone's are.
    """
    for found, shown in (
        (f"{scratch}/", ""),
        (str(scratch), "."),
        (sys.prefix, ".venv"),
        (str(Path.home()), "~"),
    ):
        text = text.replace(found, shown)
    return text
