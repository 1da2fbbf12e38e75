"""The command `lockstep audit`: proof of which samples a run trained on."""

import sys
from json import dumps
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table


def audit(run: tyro.conf.Positional[Path], json: bool = False) -> int:
    """Prove from a run's record that it trained on every sample exactly once.

    Exit code 0: proven. 1: not proven. 2: no run to read.

    Args:
        run: Run directory, as given to --run-dir.
        json: Report as JSON.
    """
    from lockstep.trainer.extensions.audit import NoRunError
    from lockstep.trainer.extensions.audit import audit as prove

    try:
        report = prove(run)
    except NoRunError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if json:
        print(dumps(report.as_json()))
    else:
        verdict = "proven" if report.proven else "NOT proven"
        table = Table(box=None)
        table.add_column("claim")
        table.add_column("found", justify="right")
        for name, value in report.as_json().items():
            if name not in ("proven", "findings"):
                said = "not read" if value is None else str(value).lower()
                table.add_row(name.replace("_", " "), said)
        console = Console()
        console.print(f"{run}: {verdict}", highlight=False, soft_wrap=True)
        console.print(table)
        for finding in report.findings:
            console.print(finding, highlight=False, soft_wrap=True)
    return 0 if report.proven else 1
