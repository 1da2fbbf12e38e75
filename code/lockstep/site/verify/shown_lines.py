"""Every statement that a page shows is run by a test, of those under coverage.

    python -m lockstep.site.verify.shown_lines

reads the report of `coverage json` and names page, file and lines of whatever
no test ran. A line that only a GPU runs ends in `# gpu`; it counts when
`tests/gpu_coverage.json` has it, which is written on such a machine by

    python -m lockstep.site.verify.shown_lines --record

The record keeps the text of lines, so a line that is edited no longer counts.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from lockstep.site.pages.blocks import pages
from lockstep.site.pages.snippets import (
    Include,
    includes,
    sections,
    site_config,
)

REPORT = Path(".cache/coverage/report.json")
GPU_RECORD = Path("tests/gpu_coverage.json")
MARK = "# gpu"

Lines = dict[Path, set[int]]


def unrun(
    root: Path,
    report: Path,
    gpu_record: Path,
    only: Iterable[tuple[Path, Include]] | None = None,
) -> Iterator[str]:
    """Name each shown statement that neither a test nor a GPU's record ran.

    Args:
        root: the folder of `mkdocs.yml`.
        report: what `coverage json` wrote.
        gpu_record: what `record` wrote on a GPU; it may be absent.
        only: the includes that are asked about, each with its page; all of
            the site if that is None.
    """
    ran, missed = read_report(root, report)
    on_gpu = (
        json.loads(gpu_record.read_text("utf-8"))["lines"]
        if gpu_record.exists()
        else {}
    )
    for page, include in shown(root) if only is None else only:
        source = root / include.path
        place = f"{page.relative_to(root)}: {include}"
        if source not in ran:
            yield f"{place} is in no coverage report"
            continue
        counted = _recorded(source, on_gpu.get(include.path, []))
        lines = span(include, root) & missed[source] - counted
        if lines:
            yield f"{place} shows lines that no test ran: {_ranges(lines)}"


def shown(root: Path) -> Iterator[tuple[Path, Include]]:
    """Each include of a Python file of the package, with its page."""
    docs = Path(site_config(root).docs_dir)
    for page in pages(root):
        if page.is_relative_to(docs):
            for include in includes(page.read_text("utf-8")):
                path = Path(include.path)
                if path.parts[0] == "code" and path.suffix == ".py":
                    yield page, include


def span(include: Include, root: Path) -> set[int]:
    """Return the line numbers that an include shows."""
    source = root / include.path
    if include.section:
        return set(sections(source)[include.section])
    return set(range(1, len(source.read_text("utf-8").splitlines()) + 1))


def read_report(root: Path, report: Path) -> tuple[Lines, Lines]:
    """Lines that ran and lines that did not, by file.

    A line that coverage was told to leave out has not run either.
    """
    ran: Lines = {}
    missed: Lines = {}
    for name, found in json.loads(report.read_text("utf-8"))["files"].items():
        path = (root / name).resolve()
        ran[path] = set(found["executed_lines"])
        left_out = {*found["missing_lines"], *found["excluded_lines"]}
        missed[path] = left_out - ran[path]
    return ran, missed


def gpu_lines(source: Path) -> dict[int, str]:
    """Return the lines marked as run by a GPU alone: number and text."""
    lines = enumerate(source.read_text("utf-8").splitlines(), 1)
    return {n: text.strip() for n, text in lines if text.endswith(MARK)}


def record(
    root: Path, report: Path, gpu_record: Path, about: dict[str, str]
) -> int:
    """Write which marked lines ran here; return how many.

    Raises:
        ValueError: none did, so this is no machine to record on.
    """
    ran, _ = read_report(root, report)
    lines: dict[str, list[str]] = {}
    for source in sorted((root / "code").rglob("*.py")):
        executed = ran.get(source.resolve(), set())
        found = [t for n, t in gpu_lines(source).items() if n in executed]
        if found:
            lines[source.relative_to(root).as_posix()] = found
    if not lines:
        raise ValueError(f"no line marked `{MARK}` ran here")
    text = json.dumps(about | {"lines": lines}, indent=2, ensure_ascii=False)
    gpu_record.write_text(text + "\n", encoding="utf-8")
    return sum(map(len, lines.values()))


def _recorded(source: Path, texts: Iterable[str]) -> set[int]:
    """Return marked lines whose text ran on a GPU as often as it is here."""
    marked = gpu_lines(source)
    standing, ran = Counter(marked.values()), Counter(texts)
    return {n for n, text in marked.items() if ran[text] >= standing[text]}


def _ranges(lines: Iterable[int]) -> str:
    spans: list[list[int]] = []
    for line in sorted(lines):
        if spans and line == spans[-1][1] + 1:
            spans[-1][1] = line
        else:
            spans.append([line, line])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans)


def _about(hardware: str | None, revision: str | None) -> dict[str, str]:
    import torch  # only where a GPU is recorded

    if revision is None:
        describe = ["git", "describe", "--always", "--dirty", "--abbrev=40"]
        revision = subprocess.check_output(describe, text=True).strip()
    return {
        "revision": revision,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "hardware": hardware or torch.cuda.get_device_name(0),
        "torch": torch.__version__,
    }


def main(arguments: list[str] | None = None) -> int:
    """Check the site in the current directory, or record on a GPU."""
    parser = argparse.ArgumentParser(description="Shown lines are run lines")
    parser.add_argument("report", type=Path, nargs="?", default=REPORT)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--hardware", help="device; default: what torch names")
    parser.add_argument("--revision", help="revision; default: what git names")
    options = parser.parse_args(arguments)
    root = Path.cwd()
    if not options.report.is_file():
        parser.error(f"{options.report} is missing: run `coverage json`")
    if options.record:
        about = _about(options.hardware, options.revision)
        try:
            count = record(root, options.report, GPU_RECORD, about)
        except ValueError as error:
            parser.error(str(error))
        print(f"{GPU_RECORD}: {count} lines, {about['hardware']}")
        return 0
    found = sorted(set(unrun(root, options.report, root / GPU_RECORD)))
    for problem in found:
        print(problem)
    print(f"{len(found)} includes show lines that no test ran")
    if found:
        print("A test that runs them is to be named in tests/covering.txt.")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
