"""The box on the site: paste the last lines of a log, and read the verdict.

The reader's browser runs this in MicroPython; nothing leaves the page.
"""

import json

from .patterns import Index
from .report import html
from .scan import Scan
from .verdict import judge

LARGEST = 1 << 20  # bytes of a paste
# What a browser gets: the other modules read files.
FILES = (
    "__init__.py",
    "case.py",
    "causes.py",
    "collectives.py",
    "deaths.py",
    "finding.py",
    "folders.py",
    "lines.py",
    "network.py",
    "order.py",
    "owners.py",
    "page.py",
    "patterns.py",
    "peers.py",
    "progress.py",
    "report.py",
    "scan.py",
    "signals.py",
    "silence.py",
    "unknown.py",
    "verdict.py",
)


def box() -> str:
    """Return the form, which the site's build puts into a page."""
    return (
        '<form class="explain">'
        '<label for="explain-log">Paste the last lines of your log</label>'
        '<textarea id="explain-log" rows="8" spellcheck="false"'
        ' autocomplete="off" autocapitalize="off"'
        ' placeholder="One rank or all ranks. Keep prefixes and timestamps."'
        "></textarea>"
        '<p class="explain-row"><button type="submit"'
        ' class="md-button">Explain</button>'
        " <small>At most 1 MB. Nothing leaves this page: your browser"
        " parses it.</small></p>"
        '<div class="explain-answer" aria-live="polite"></div></form>'
    )


def explained(index: Index, text: str) -> dict:
    """Return the verdict on pasted lines.

    Args:
        index: messages to look for.
        text: the lines.
    """
    scan = Scan(index)
    scan.begin("your paste")
    data = text.encode()
    for start in range(0, len(data), 1 << 17):
        scan.feed(data[start : start + (1 << 17)])
    scan.end()
    return judge(scan)


def live(entries: str, text: str, site: str) -> str:
    """For the browser: JSON in, JSON out.

    Args:
        entries: JSON of the messages.
        text: the pasted lines.
        site: address of the site's root.

    Returns:
        JSON of `html`, and of `known`; or of `failed`, a line for the reader.
    """
    if not text.strip():
        return json.dumps({"failed": "paste some lines of a log first"})
    if len(text) > LARGEST:
        return json.dumps(
            {"failed": "that is more than 1 MB; paste the last lines only"}
        )
    found = explained(Index(json.loads(entries)), text)
    return json.dumps({"html": html(found, site), "known": found["known"]})
