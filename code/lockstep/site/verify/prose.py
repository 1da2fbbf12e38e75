"""Check how pages, questions, docstrings and messages are written.

    python -m lockstep.site.verify.prose [--shrink]

Prints one line for each fault and exits 1 if there are any. A page's text is
what Markdown makes of it: code, diagrams and figures don't count.

`voice.txt` counts each file's faults against the project's voice: words of
`VOICE`, docstrings that begin with a word of `FRAGMENT`, and proof notes that
aren't sentences. A count may only shrink: more is a fault, and `--shrink`
writes down a smaller count.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import markdown
from bs4 import BeautifulSoup, Tag

from lockstep.site.pages import proof_marks

SAY_IT = 75  # words that are spoken in half a minute
BANNED = re.compile(
    r"\b(crucial|robust|seamless|leverag|powerful)\w*"
    r"|\bnot just\b.{1,80}\bbut\b",
    re.I,
)
# What an American engineer wouldn't write, and what to write instead.
VOICE = {
    r"is no (?!longer|more|less|better|worse|fewer|other)": "isn't a",
    r"of (?:its|their|our|your|his|her) own": "its own, or separate",
    r"whoever": "the person or the process",
    r"mend(?:s|ed|ing)?": "fix",
    r"anew": "again",
    r"amid": "during, or among",
    r"beside": "next to, or compared with",
    r"but for": "without, or except",
    r"seldom": "rarely",
    r"alike": "the same way, or equally",
    r"in earnest": "really",
    r"by lot": "at random",
    r"err(?:s|ed|ing)?": "fail",
    r"(?:go|goes|going|gone|went) on": "resume, or continue",
    r"whereof|thereby": "so",
    r"we(?: would|['’]d)": "a command",
    r"random states?": "RNG state",
    r"network cards?": "NIC",
    r"matrix (?:products?|multiplications?)": "matmul",
}
_VOICE = re.compile(
    r"\b(?:" + "|".join(f"({words})" for words in VOICE) + r")\b", re.I
)
# With these a docstring or a proof note begins as a fragment.
FRAGMENT = re.compile(r"(?:Of|By|As|What)\b")
_NOTE = re.compile(r"[A-Z0-9`].*[.?]", re.S)
_COUNTS = "code/lockstep/site/verify/voice.txt"
# The text of a question or a data file: what is not code and no address.
_QUOTED = re.compile(r"`[^`]*`|https?://\S+|\]\([^)]*\)|\[✓[^]]*\]")
_EXTENSIONS = (
    "admonition",
    "attr_list",
    "footnotes",
    "md_in_html",
    "tables",
    "pymdownx.details",
    "pymdownx.superfences",
    "pymdownx.tabbed",
)
_TABBED = {"pymdownx.tabbed": {"alternate_style": True}}
_FRONT = re.compile(r"\A---\n.*?\n---\n", re.S)
_FIGURE = re.compile(r"\{\{.*?\}\}", re.S)
_STATEMENT = re.compile(r"\{%.*?%\}|\{#-.*?-#\}", re.S)
_COMMENT = re.compile(r"<!--.*?-->", re.S)
_FENCED = re.compile(r"^( *)(`{3,}).*?^\1\2 *$", re.M | re.S)
# A page names what holds a sentence by a mark, which proof_marks.py reads.
_MARK = re.compile(r"\[✓[^\]]*\]")
_TEST = re.compile(r"`[^`\n]*\b(?:tests/[\w/]+|test_\w+)[^`\n]*`")
_LEFT_OUT = "pre, .footnote-backref, .md-button, script, style"


def faults(text: str, path: str = "") -> Iterator[str]:
    """Yield the faults in the text of a page, in Markdown.

    Args:
        path: its address below the root; a page in `docs/` names no test.
    """
    page = _rendered(text)
    if path.startswith("docs/"):
        for found in _TEST.finditer(_MARK.sub("", _FENCED.sub("", text))):
            yield f"a test in running text, where a mark would do: {found[0]}"
    yield from _headings(page)
    for quote in page.select(".admonition"):
        title = quote.select_one(".admonition-title")
        if title is not None and title.get_text().strip() == "Say it":
            title.decompose()
            if (count := _count(_plain(quote))) > SAY_IT:
                yield f"{count} words to say: {_start(_plain(quote))}"
    for block in page.select("p, li, td, dd"):
        written = _own(block)
        for found in BANNED.finditer(written):
            yield f"a banned word, {found[0]!r}: {_start(written)}"


def voice(text: str, path: str) -> Iterator[str]:
    """Yield each use of a word of `VOICE`, with what to write instead.

    Args:
        path: the file's path: a Markdown page, a Python module, or data.
    """
    for written in _written(text, path):
        for found in _VOICE.finditer(written):
            instead = [*VOICE.values()][(found.lastindex or 1) - 1]
            start = max(0, found.start() - 30)
            around = _start(written[start : found.end() + 30])
            yield f"{found[0]!r}: write {instead}: … {around} …"
    if path.endswith(".py"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                said = ast.get_docstring(node) or ""
                if begins := FRAGMENT.match(said):
                    yield f"{node.name}: a docstring begins with {begins[0]}"


def notes(root: Path) -> dict[str, list[str]]:
    """Return the faults of proof notes, by the file of the noted tests."""
    marked = [
        *root.glob("docs/**/*.md"),
        *root.glob("code/lockstep/practice/**/*.yml"),
    ]
    tests = {
        test
        for page in marked
        for test in proof_marks.cited(page.read_text("utf-8"), root)
    }
    found: dict[str, list[str]] = {}
    for test in sorted(tests, key=lambda test: test.id):
        said = test.asserts
        if FRAGMENT.match(said) or not _NOTE.fullmatch(said):
            fault = f"{test.name}: its note isn't a sentence: {said}"
            found.setdefault(test.path, []).append(fault)
    return found


def _written(text: str, path: str) -> Iterator[str]:
    """Yield the prose of a file: a page's blocks, a module's strings, or all
    data."""
    if path.endswith(".md"):
        for block in _rendered(text).select("p, li, td, dd, h1, h2, h3, h4"):
            yield _own(block)
    elif path.endswith(".py"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield _QUOTED.sub("code", node.value)
    else:
        yield _QUOTED.sub("code", text)


def files(root: Path) -> Iterator[str]:
    """Yield the path of each file whose words are counted, below the root."""
    for pattern in (
        "*.md",
        "docs/**/*.md",
        "code/lockstep/**/*.py",
        "code/lockstep/practice/**/*.yml",
        "code/lockstep/site/pages/*.yml",
    ):
        for path in sorted(root.glob(pattern)):
            yield path.relative_to(root).as_posix()


def counts(root: Path) -> dict[str, int]:
    """Return how many words of `VOICE` each file may have."""
    path = root / _COUNTS
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    pairs = (line.split() for line in lines if not line.startswith("#"))
    return {name: int(count) for name, count in pairs}


def grown(root: Path, shrink: bool = False) -> Iterator[str]:
    """Yield each fault of a file with more or fewer words than its count.

    Args:
        shrink: write smaller counts down instead.
    """
    allowed, left, noted = counts(root), {}, notes(root)
    for path in [*files(root), *noted]:
        found = noted.get(path) or [
            *voice((root / path).read_text("utf-8"), path)
        ]
        most = allowed.get(path, 0)
        if len(found) > most:
            for fault in found:
                yield f"{path}: {fault}"
            yield f"{path}: {len(found)} such faults, where {most} are allowed"
        elif len(found) < most and not shrink:
            yield f"{path}: has {len(found)} of {most} faults: run --shrink"
        if least := min(len(found), most):
            left[path] = least
    if shrink:
        head = "# Faults of the voice by file, for prose.py: may only shrink."
        lines = [head, *(f"{path} {count}" for path, count in left.items())]
        (root / _COUNTS).write_text("\n".join(lines) + "\n", "utf-8")


def _rendered(text: str) -> BeautifulSoup:
    text = _FRONT.sub("", text)
    for unseen, shown in ((_FIGURE, "9"), (_STATEMENT, ""), (_COMMENT, "")):
        text = unseen.sub(shown, text)
    html = markdown.markdown(
        text, extensions=_EXTENSIONS, extension_configs=_TABBED
    )
    page = BeautifulSoup(html, "html.parser")
    for element in page.select(_LEFT_OUT):
        element.decompose()
    for code in page.select("code"):
        code.string = "code"  # one word, whatever is in it
    return page


def _headings(page: BeautifulSoup) -> Iterator[str]:
    last = 0
    for heading in page.select("h1, h2, h3, h4, h5, h6"):
        level = int(heading.name[1])
        if level > last + 1:
            yield f"a level is skipped before: {heading.get_text()}"
        last = level


def _own(block: Tag) -> str:
    """Return a block's text without that of the blocks in it."""
    inner = {id(b) for b in block.select("p, li, td, dd, ul, ol, table, div")}
    return "".join(
        text
        for text in block.find_all(string=True)
        if not any(id(parent) in inner for parent in text.parents)
    ).strip()


def _plain(element: Tag) -> str:
    return " ".join(element.get_text(" ").split())


def _count(text: str) -> int:
    """Words, as a reader counts them: a number with its unit is two."""
    return len(re.findall(r"[^\W_][\w'’.,/×·%-]*", text))


def _start(text: str) -> str:
    return " ".join(text.split())


def main() -> int:
    """Check the pages in the current directory."""
    root = Path.cwd()
    pages = [*sorted(root.glob("*.md")), *sorted(root.glob("docs/**/*.md"))]
    found = [
        f"{path}: {fault}"
        for path in (page.relative_to(root).as_posix() for page in pages)
        for fault in faults((root / path).read_text("utf-8"), path)
    ]
    found += grown(root, "--shrink" in sys.argv[1:])
    for fault in found:
        print(fault)
    print(f"{len(found)} faults in how {len(pages)} pages are written")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
