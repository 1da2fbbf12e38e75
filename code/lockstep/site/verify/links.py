"""Every address outside the site that a text names, and when it last answered.

    python -m lockstep.site.verify.links            check all, note the date
    python -m lockstep.site.verify.links --collect  add new links, drop old ones

Prints one line for each dead link and exits 1 when there is one; without a
network it exits 2 and changes nothing.
"""

from __future__ import annotations

import argparse
import datetime
import re
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
import requests
import yaml
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

KNOWN = Path("code/lockstep/site/verify/links.yml")
HEADER = """\
# Every external link of the pages, the README and the notebooks, with the day
# on which it last answered. null: not checked yet. `make links` writes it.
"""
_FENCE = re.compile(r"^([ \t]*)```.*?^\1```", re.M | re.S)
_ADDRESS = re.compile(r"https?://[^\s<>\"'`\]|]+")
_GONE = (404, 410)
_BUSY = (429, 502, 503)
_SECONDS = (5, 20)  # to connect, and to answer

Dates = dict[str, datetime.date | None]


def addresses(text: str) -> set[str]:
    """Return the external addresses of a Markdown text, outside of its code."""
    text = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", text))
    return {_balanced(found[0]) for found in _ADDRESS.finditer(text)}


def linked(root: Path) -> dict[str, set[str]]:
    """Of each text below `root` that has any: its external addresses."""
    found = {
        path.relative_to(root).as_posix(): addresses(_text(path))
        for path in _texts(root)
    }
    return {name: links for name, links in found.items() if links}


def known(root: Path) -> Dates:
    """Return what the file below `root` knows of each address."""
    return yaml.safe_load((root / KNOWN).read_text("utf-8")) or {}


def collect(root: Path) -> Dates:
    """Return the addresses that texts name now, with their known dates."""
    dates = known(root)
    now = set().union(*linked(root).values())
    return {address: dates.get(address) for address in sorted(now)}


def write(root: Path, dates: Dates) -> None:
    """Write the file again."""
    lines = (f"{link}: {day or 'null'}\n" for link, day in dates.items())
    (root / KNOWN).write_text(HEADER + "".join(lines), "utf-8")


def check(links: Iterable[str]) -> dict[str, int | None]:
    """Return the status of each address, or None if it does not answer."""
    links = sorted(links)
    with requests.Session() as session, ThreadPoolExecutor(8) as pool:
        # Only what may pass is tried again, and as late as the server asks.
        again = Retry(3, connect=0, backoff_factor=1, status_forcelist=_BUSY)
        for scheme in ("https://", "http://"):
            session.mount(scheme, HTTPAdapter(max_retries=again))
        session.headers["User-Agent"] = "lockstep-links"
        answers = pool.map(lambda link: _status(session, link), links)
        return dict(zip(links, answers, strict=True))


def _status(session: requests.Session, link: str) -> int | None:
    status = None
    for method in ("HEAD", "GET"):  # not every server answers the shorter one
        try:
            with session.request(
                method,
                link,
                timeout=_SECONDS,
                allow_redirects=True,
                stream=True,  # the body is not wanted
            ) as answer:
                status = answer.status_code
        except requests.RequestException:
            continue
        if status < 400:
            break
    return status


def _texts(root: Path) -> Iterator[Path]:
    yield from sorted(root.glob("*.md"))
    yield from sorted((root / "docs").rglob("*.md"))
    yield from sorted((root / "labs").glob("*.ipynb"))


def _text(path: Path) -> str:
    text = path.read_text("utf-8")
    if path.suffix != ".ipynb":
        return text
    cells = nbformat.reads(text, as_version=4).cells
    return "\n\n".join(c.source for c in cells if c.cell_type == "markdown")


def _balanced(address: str) -> str:
    """Cut where Markdown's closing parenthesis, or a sentence's end, is."""
    depth = 0
    for place, character in enumerate(address):
        depth += (character == "(") - (character == ")")
        if depth < 0:
            address = address[:place]
            break
    return address.rstrip(".,;:!?*")


def main() -> int:
    """Check the links of the texts in the current directory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collect", action="store_true")
    only_collect = parser.parse_args().collect
    root = Path.cwd()
    dates = collect(root)
    if only_collect:
        write(root, dates)
        return 0
    hosts = {urlsplit(address).netloc: address for address in dates}
    if not any(check([*hosts.values()][:8]).values()):
        print("no address answers: is there a network? Nothing is changed")
        return 2
    answers = check(dates)
    places = linked(root)
    dead = 0
    for address, status in answers.items():
        if status and status < 400:
            dates[address] = datetime.date.today()
            continue
        where = ", ".join(n for n, found in places.items() if address in found)
        if status is None or status in _GONE:
            dead += 1
            print(f"dead: {address} ({status or 'no answer'}) in {where}")
        else:  # many a server refuses programs, and only them
            print(f"unclear: {address} ({status}) in {where}")
    write(root, dates)
    print(f"{len(answers)} links, {dead} dead")
    return bool(dead)


if __name__ == "__main__":
    sys.exit(main())
