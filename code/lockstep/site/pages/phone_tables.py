"""Tables on a phone: a wide one can be stacked, since each cell knows its
column's name; a narrow one does not break the name that a row starts with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape, unescape

# Three columns fit on a phone of 360 px, unless they hold sentences.
FITTING, LONG = 3, 150  # columns; characters of a row, on average
_TABLE = re.compile(r"<table>.*?</table>", re.S)
_HEADER = re.compile(r"<th\b[^>]*>(.*?)</th>", re.S)
_ROW = re.compile(r"<tr\b.*?</tr>", re.S)
_NAME = re.compile(r"(<tr>\s*<td)(?=[^>]*>\s*<code>[^<]*</code>\s*</td>)")


def stackable(html: str) -> str:
    """Mark the tables that are too wide for a phone, and label their cells; in
    the others, mark the first cells that hold a name and nothing else."""
    return _TABLE.sub(lambda found: _marked(found[0]), html)


def _marked(table: str) -> str:
    head, _, body = table.partition("</thead>")
    names = [
        " ".join(unescape(re.sub(r"<[^>]+>", "", name)).split())
        for name in _HEADER.findall(head)
    ]
    rows = _ROW.findall(body)
    letters = sum(len(re.sub(r"<[^>]+>", "", row)) for row in rows)
    many = len(names) > FITTING
    if not many and (len(names) < FITTING or letters <= LONG * len(rows)):
        return _NAME.sub(r"\1 data-name", table)

    def labeled(row: re.Match[str]) -> str:
        labels: Iterator[str] = iter(names)
        return re.sub(
            r"<td\b",
            lambda _: f'<td data-label="{escape(next(labels, ""))}"',
            row[0],
        )

    head = head.replace("<table", "<table data-stack", 1)
    return f"{head}</thead>{_ROW.sub(labeled, body)}"
