"""The command `lockstep explain`: the first fault in a run's logs."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from json import dumps
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

Paths = Annotated[tuple[str, ...], tyro.conf.arg(metavar="PATH …")]


def explain(
    paths: tyro.conf.Positional[Paths],
    json: bool = False,
    html: Path | None = None,
) -> int:
    """Name the first fault in the logs of a training run.

    Reads logs of one or all ranks, torchrun's log folders, kernel logs, flight
    recorder dumps and py-spy dumps, and tells the first fault from its echoes.

    Exit code 0: a first fault is named. 1: only echoes, or nothing known.
    2: no logs to read.

    Args:
        paths: Files and folders; - is the standard input.
        json: One JSON object instead of text.
        html: File for the verdict as one page.
    """
    from lockstep.explain import catalog, reading, report
    from lockstep.explain.dumps import DumpError
    from lockstep.explain.together import explained

    try:
        if not paths:
            raise reading.InputError("give a file, a folder, or - to read")
        files = reading.found(paths)
        with _bar(reading.size(files)) as progress:
            found = explained(files, catalog.index(), progress)
        if html:
            html.write_text(report.document(found), "utf-8")
    except (reading.InputError, DumpError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    print(dumps(found) if json else report.text(found))
    return 0 if found["known"] else 1


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], object]]:
    """Show progress on a terminal while more than 50 MB are read."""
    console = Console(stderr=True)
    if not console.is_terminal or total < 50_000_000:
        yield lambda read: None
        return
    columns = (
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("reading", total=total)
        yield lambda read: progress.advance(task, read)
