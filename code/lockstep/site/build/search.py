"""MkDocs hook: an index that a browser reads a few kilobytes of.

The search plugin divides each page into sections. This hook counts their words
and writes the counts in chunks, in alphabetical order, so that a query fetches
only the chunks that hold its own words, and then the texts of the pages that it
shows. The theme's search worker is replaced by assets/search-worker.js, which
ranks pages by these counts.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from functools import cache
from hashlib import sha256
from html import unescape
from itertools import groupby, pairwise
from json import dumps, loads
from math import log
from pathlib import Path
from shutil import copyfile, rmtree
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority

# Words that say nothing about a subject. The worker leaves them out of a query.
STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        a about after all also am an and any are as at be been before but by can
        could did do does doing for from get gets give gives got had has have he
        her his how i if in into is it its just keep keeps let may me might more
        most my no nor not of off on only or other our out over own please she
        should so some such than that the their them then there these they this
        to too us use used using versus very vs was we were what when where
        which while who why will with would you your
        """,
    )
)
_WORD = re.compile(r"[a-z0-9_]+(?:-[a-z0-9_]+)*")
_CHUNK = 12_000  # characters: about 4 KB when compressed
# What a match weighs in a title, a tag or a heading of one word (a longer one
# gives each of its words less), and in a text, where a second match of a word
# adds less than the first.
_TITLE, _TAG, _HEADING, _SHARED = 60, 60, 30, 0.3
_TEXT, _SATURATION, _LENGTH = 22, 1.2, 0.6


def stem(word: str) -> str:
    """Return what a word shares with its plural, its past and its -ing form.
    The worker has the same rules."""
    if len(word) < 4 or not word.isalpha():
        return word
    if word.endswith("ies"):
        word = word[:-3] + "y"
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in "ing", "ed":
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            if word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


@cache
def _parts(whole: str) -> tuple[str, ...]:
    parts = [part for part in re.split("[-_]+", whole) if part]
    joined = [whole.replace("-", "")] if len(parts) > 1 else []
    found = joined + [stem(part) for part in parts]
    return tuple(word for word in found if word not in STOP_WORDS)


def words(text: str) -> list[str]:
    """Return the words of a text as the index has them. `all-reduce` is three
    (all, reduce, allreduce), and so is `no_sync`."""
    found = _WORD.findall(text.lower())
    return [word for whole in found for word in _parts(whole)]


def plain(html: str) -> str:
    """Return the text of a section without markup."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


@event_priority(-50)  # after the search plugin has written its index
def on_post_build(config: MkDocsConfig) -> None:
    """Replace the theme's index and its worker by ours."""
    site = Path(config.site_dir)
    folder = site / "search"
    file = folder / "search_index.json"
    written = loads(file.read_text("utf-8"))
    files = {
        name: dumps(content, ensure_ascii=False, separators=(",", ":"))
        for name, content in index(written["docs"]).items()
    }
    # A browser may keep a file: those of two builds don't mix.
    digest = sha256("".join(files.values()).encode()).hexdigest()[:8]
    rmtree(folder)
    (folder / digest).mkdir(parents=True)
    pages = loads(files.pop("pages"))
    for name, content in files.items():
        (folder / digest / f"{name}.json").write_text(content, "utf-8")
    settings = written["config"] | pages | {"folder": digest}
    file.write_text(dumps({"config": settings, "docs": []}), "utf-8")
    for worker in (site / "assets/javascripts/workers").glob("search.*.js"):
        copyfile(Path(config.docs_dir) / "assets/search-worker.js", worker)


def index(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Divide the search plugin's entries into files.

    Args:
        entries: each section's `location`, `title` and `text`, and its page's
            `tags` and `boost`.

    Returns:
        By name: `pages` has the address, title, boost and number of places of
        each page, and the first word of each chunk. `words-N` has each word's
        rarity, and its places with what it weighs there. `text-N` has the
        anchor, title and text of each section of a page. The places of a page
        are its sections and then its tags.
    """
    files: dict[str, Any] = {}
    pages: list[list[Any]] = []
    found: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    place = 0
    texts = [plain(entry["text"]) for entry in entries]
    counts = [Counter(words(text)) for text in texts]
    average = sum(each.total() for each in counts) / len(entries)
    sections = zip(entries, texts, counts, strict=True)
    for url, own in groupby(sections, lambda each: _page(each[0])):
        shown, weights = [], []
        for entry, text, counted in own:
            anchor = entry["location"].removeprefix(url)[1:]
            title = plain(entry["title"])
            shown.append([anchor, title, text])
            weights.append(_in_text(counted, average))
            _add(weights[-1], title, _HEADING if anchor else _TITLE)
        for tag in entry.get("tags", []):
            weights.append({})
            _add(weights[-1], tag, _TAG)
        for each in weights:
            for word, weight in each.items():
                found[word].append((place, round(weight), len(pages)))
            place += 1
        files[f"text-{len(pages)}"] = shown
        boost = entry.get("boost", 1)
        pages.append([url, shown[0][1], boost, len(weights)])
    starts: list[str] = []
    filled = _CHUNK
    for word in sorted(found):
        if filled >= _CHUNK:
            files[f"words-{len(starts)}"] = chunk = {}
            starts.append(word)
            filled = 0
        at, weigh, of = zip(*found[word], strict=True)
        rarity = round(log(1 + len(pages) / len(set(of))), 2)
        steps = [after - before for before, after in pairwise([0, *at])]
        chunk[word] = [rarity, steps, weigh]
        filled += len(word) + 6 * len(at)
    stop = sorted(STOP_WORDS)
    files["pages"] = {"pages": pages, "chunks": starts, "stop": stop}
    return files


def _page(entry: dict[str, Any]) -> str:
    return str(entry["location"]).partition("#")[0]


def _in_text(counts: Counter[str], average: float) -> dict[str, float]:
    size = 1 - _LENGTH + _LENGTH * counts.total() / average
    return {
        word: _TEXT * times / (times + _SATURATION * size)
        for word, times in counts.items()
    }


def _add(weights: dict[str, float], phrase: str, weight: float) -> None:
    own = set(words(phrase))
    for word in own:
        weights[word] = weights.get(word, 0) + weight / len(own) ** _SHARED
