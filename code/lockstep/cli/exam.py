"""The command `lockstep exam ADAPTER`: how a trainer resumes."""

import signal
import sys
from json import dumps
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from lockstep.exam.adapter import LIMIT

Only = Annotated[tuple[str, ...], tyro.conf.arg(metavar="QUESTION …")]


def exam(
    adapter: tyro.conf.Positional[str],
    only: Only = (),
    ranks: int = 2,
    seed: int = 0,
    python: str = sys.executable,
    limit: float = LIMIT,
    folder: Path = Path("exam"),
    json: bool = False,
    html: Path | None = None,
    badge: Path | None = None,
) -> int:
    """Examine how a trainer resumes: on real processes, as a black box.

    Exit code 0: nothing failed. 1: something did, if only in one of its tries.
    2: it could not be examined.

    Args:
        adapter: a Python file, or a module, that says how it is launched.
        only: ask these questions, and those that they stand on.
        ranks: how many processes train.
        seed: of the runs, and of what is drawn at random.
        python: the interpreter of the trainer's environment.
        limit: seconds that one launch of it may take.
        folder: where it is run, a new one, or that of an earlier exam, which is
            cleared; what failed is left there.
        json: print the results for machines.
        html: write a report as one page.
        badge: write a badge as an SVG.
    """
    from lockstep.exam import report
    from lockstep.exam.adapter import AdapterError, Launch, load
    from lockstep.exam.bench import ExamError
    from lockstep.exam.examine import examine

    told, said = Console(stderr=True), Console(highlight=False, soft_wrap=True)
    launch = Launch(Path(), ranks=ranks, seed=seed, python=python)
    # As Ctrl-C does: it ends the launch that is under way.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        for written in html, badge:
            if written:
                written.parent.mkdir(parents=True, exist_ok=True)
        with told.status("…") as status:

            def tell(asked: str) -> None:
                if told.is_terminal:
                    status.update(asked)
                else:
                    print(asked, file=sys.stderr)

            found = examine(
                load(adapter),
                folder.resolve(),
                launch,
                frozenset(only),
                tell,
                limit,
            )
    except (AdapterError, ExamError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if json:
        print(dumps(found.as_json()))
    else:
        Console(highlight=False).print(report.table(found))
        for line in report.failures(found):
            said.print(line, markup=False)
        said.print(report.summary(found))
    if html:
        html.write_text(report.page(found))
    if badge:
        badge.write_text(report.badge(found))
    return 0 if found.sound else 1
