"""The command `lockstep exam`: whether a trainer resumes correctly."""

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
    batch: int = 16,
    seed: int = 0,
    python: str = sys.executable,
    limit: float = LIMIT,
    folder: Path = Path("exam"),
    json: bool = False,
    html: Path | None = None,
    badge: Path | None = None,
) -> int:
    """Examine whether a trainer resumes correctly, as a black box.

    Each verdict appears on stderr as it arrives, and the report on stdout at
    the end. Ctrl-C and SIGTERM end the exam and print the report so far.

    Exit code 0: everything that applies passed. 1: a question failed, if only
    in one of its tries. 2: the trainer could not be examined. 3: nothing
    failed, but a question was not run, or does not apply for a reason that
    hides a danger. 130 or 143: Ctrl-C or SIGTERM ended the exam.

    Args:
        adapter: Python file or module that says how to launch the trainer.
        only: Questions to ask, together with their prerequisites.
        ranks: Processes that train.
        batch: Samples of each step, over all ranks.
        seed: Seed for the runs and for the exam's random choices.
        python: Interpreter of the trainer's environment.
        limit: Seconds that each launch may take.
        folder: Folder for the runs. An earlier exam's folder is cleared. Run
            directories of failed questions stay there.
        json: Results as JSON.
        html: File for an HTML report.
        badge: File for an SVG badge.
    """
    from lockstep.exam import report
    from lockstep.exam.adapter import AdapterError, Launch, load
    from lockstep.exam.examine import examine
    from lockstep.exam.sandbox import ExamError

    told = Console(stderr=True, highlight=False, soft_wrap=True)
    launch = Launch(
        Path(), ranks=ranks, global_batch=batch, seed=seed, python=python
    )
    # As Ctrl-C does, SIGTERM ends the launch that is under way.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        for written in html, badge:
            if written:
                written.parent.mkdir(parents=True, exist_ok=True)
        with told.status("…") as status:
            progress = report.Streamed(
                lambda line: told.print(line, markup=False),
                status.update if told.is_terminal else lambda _: None,
            )
            try:
                found = examine(
                    load(adapter),
                    folder.resolve(),
                    launch,
                    frozenset(only),
                    progress,
                    limit,
                )
            except (KeyboardInterrupt, SystemExit) as signaled:
                if not progress.exam:
                    raise
                found = progress.exam
                found.interrupted = (
                    128 + signal.SIGTERM
                    if isinstance(signaled, SystemExit)
                    else 128 + signal.SIGINT
                )
    except (AdapterError, ExamError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if json:
        code = {"exit_code": found.exit_code, "unanswered": found.unanswered}
        print(dumps(code | found.as_json()))
    else:
        said = Console(highlight=False, soft_wrap=True)
        said.print(report.conclusion(found), markup=False)
        Console(highlight=False).print(report.table(found))
        for line in report.failures(found):
            said.print(line, markup=False)
        said.print(report.summary(found), markup=False)
    if html:
        html.write_text(report.page(found))
    if badge:
        badge.write_text(report.badge(found))
    return found.exit_code
