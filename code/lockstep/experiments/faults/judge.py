"""Whether a run with faults ended as it has to, from what it left behind."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lockstep.trainer.extensions.audit import NoRunError, audit
from lockstep.trainer.extensions.events import read_events
from lockstep.trainer.extensions.faults import Fault

Event = dict[str, Any]
# What each kind comes to. The first six end their attempt.
ENDS = {
    "kill": "the launcher restarts the ranks",
    "raise": "the launcher restarts the ranks",
    "hang": "the watchdog ends the rank, the launcher restarts all",
    "nan": "the step raises, the restart replays it",
    "sigterm": "all save and leave, and go on when launched again, if not done",
    "torn": "the restart finds no such checkpoint",
    "flip": "a restart sets it aside and takes the one before",
    "slow": "training goes on",
    "enospc": "a warning, and training goes on",
}
ENDING = "kill", "raise", "hang", "nan", "sigterm", "torn"


class Log:
    """The events of a run, by attempt and rank."""

    def __init__(self, run_dir: Path) -> None:
        self.files: dict[tuple[int, int], list[Event]] = {}
        for path in run_dir.glob("events/attempt-*-rank-*.jsonl"):
            _, attempt, _, rank = path.stem.split("-")
            self.files[int(attempt), int(rank)] = list(read_events(path))
        self.attempts = sorted({attempt for attempt, _ in self.files})

    def ranks(self, attempt: int) -> list[list[Event]]:
        """What each rank said in an attempt."""
        return [
            self.files[key] for key in sorted(self.files) if key[0] == attempt
        ]

    def later(self, attempt: int, *kinds: str) -> list[Event]:
        """Rank 0's events of these kinds, in later attempts."""
        return [
            event
            for key in sorted(self.files)
            if key[0] > attempt and key[1] == 0
            for event in self.files[key]
            if event["event"] in kinds
        ]

    def strike(self, fault: Fault) -> tuple[Event, list[Event]] | None:
        """The event of a fault, and what its rank said after it; None if it
        has not struck exactly once."""
        found = [
            (event, said[place + 1 :])
            for said in self.files.values()
            for place, event in enumerate(said)
            if event["event"] == "fault" and event["fault"] == str(fault)
        ]
        return found[0] if len(found) == 1 else None


def complaints(
    run_dir: Path, faults: list[Fault], weights_sha256: str
) -> Iterator[str]:
    """What is wrong with a run that had `faults`; `weights_sha256` is what it
    ends with where nothing happens to it."""
    try:
        log, report = Log(run_dir), audit(run_dir)
    except (NoRunError, OSError, ValueError) as error:
        yield str(error)
        return
    ends = [said[-1] for said in log.ranks(log.attempts[-1])]
    if any(end["event"] != "run_finished" for end in ends):
        yield "not finished"
    elif any(end["weights_sha256"] != weights_sha256 for end in ends):
        yield "other weights than undisturbed"
    yield from report.findings
    for fault in faults:
        if struck := log.strike(fault):
            if wrong := wrong_end(log, fault, *struck):
                yield f"{fault}: {wrong}"
        else:
            yield f"{fault}: did not strike once"


def wrong_end(
    log: Log, fault: Fault, event: Event, after: list[Event]
) -> str | None:
    """How the end of a fault differs from what its kind has to come to."""
    attempt, names = event["attempt"], [e["event"] for e in after]
    if fault.kind == "slow":
        return None if names else "nothing came after it"
    if fault.kind == "enospc":
        saying = [name for name in names if name.startswith("checkpoint_")]
        return None if saying[:1] == ["checkpoint_failed"] else "no warning"
    if fault.kind == "flip":
        return found_damaged(log, fault, attempt)
    if fault.kind == "sigterm":
        return left_together(log, attempt)
    watched = [name for name in names if name.startswith("hang")]
    if fault.kind == "hang" and not watched:
        return "no watchdog found it"
    if names != (watched if fault.kind == "hang" else []):
        return f"its rank went on: {', '.join(names)}"
    return None


def found_damaged(log: Log, fault: Fault, attempt: int) -> str | None:
    """The flipped byte has to be found, and its checkpoint set aside."""
    name = f"step-{fault.step:08d}"
    damaged = log.later(attempt, "checkpoint_damaged")
    found = any(event["checkpoint"].startswith(name) for event in damaged)
    return None if found else "nobody found it"


def left_together(log: Log, attempt: int) -> str | None:
    """All ranks have to stop at one step, and the next attempt go on there;
    or all have done their last step before all had heard."""
    ends = [said[-1] for said in log.ranks(attempt)]
    if all(end["event"] == "run_finished" for end in ends):
        return None
    stops = {
        end["step"] if end["event"] == "run_stopped" else 0 for end in ends
    }
    restored = log.later(attempt, "checkpoint_restored")
    went_on = {event["step"] for event in restored[:1]}
    return (
        None if stops == went_on else f"left at {stops}, went on at {went_on}"
    )


def recoveries(run_dir: Path, faults: list[Fault]) -> list[float]:
    """For each fault that ended its attempt, seconds from the strike, by its
    rank's clock, until rank 0 in a later attempt has done the step that was
    struck, or one beyond it."""
    log, took = Log(run_dir), []
    for fault in faults:
        if fault.kind in ENDING and (struck := log.strike(fault)):
            event, _ = struck
            done = log.later(event["attempt"], "step", "run_finished")
            ends = [e["time"] for e in done if e["step"] >= fault.step]
            if ends:  # none where a run was over before it could leave
                took.append(min(ends) - event["time"])
    return took
