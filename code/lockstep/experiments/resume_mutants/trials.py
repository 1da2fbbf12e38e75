"""Runs with up to three restarts, whose ends show whether a fault matters.

They don't ask the exam's questions. A fault matters if a run with restarts
ends with other weights or samples than an undisturbed run with the same fault,
or does not end by itself.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from types import MappingProxyType
from typing import Any, NamedTuple

from lockstep.exam.adapter import Adapter, Launch
from lockstep.exam.launching import Act, Ended, launching

NOTHING: Mapping[str, Any] = MappingProxyType({})
UNDISTURBED = "undisturbed"
LIMIT = 40.0  # seconds that a launch may take


class Trial(NamedTuple):
    """A run: settings of all launches, and what disturbs each but the last."""

    name: str
    disturbed: tuple[Act | int, ...]  # an act, or the step to stop after
    settings: Mapping[str, Any] = NOTHING
    last: Mapping[str, Any] = NOTHING  # settings of the last launch alone


TRIALS = [
    Trial("stopped", (8,)),
    Trial("stopped at the ends of two epochs", (6, 12)),
    Trial("killed three times", tuple(Act(k, "kill") for k in (7, 5, 6))),
    Trial("told to end twice", (Act(7, "terminate"), Act(4, "terminate"))),
    Trial("killed with loader workers", (Act(10, "kill"),), {"workers": 2}),
    Trial("stopped in half precision", (8,), {"precision": "fp16"}),
    Trial("killed while saving", (Act(7, "tear", None, 5000),)),
    Trial("continued on four ranks", (8,), last={"ranks": 4}),
]


class End(NamedTuple):
    """How a run ended."""

    code: int
    weights: tuple[str, ...]  # digest of each rank's last weights
    ids: Counter[int]  # how often each sample was trained on
    text: str  # what the last launch printed


def launched(adapter: Adapter, launch: Launch, *acts: Act) -> Ended:
    """Return how a launch with these acts ended."""
    with launching(adapter, launch, [*acts], {}) as under_way:
        return under_way.wait(LIMIT)


def end(adapter: Adapter, folder: Path, trial: Trial) -> End:
    """Run a trial in `folder`, which is cleared; return how it ended. Samples
    of steps that a kill undoes count as well."""
    rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    launch = Launch(folder, **trial.settings)
    weights: tuple[str, ...] = ()
    ids: Counter[int] = Counter()
    for one in (*trial.disturbed, None):
        if one is None:
            ended = launched(adapter, replace(launch, **trial.last))
        elif isinstance(one, Act):
            ended = launched(adapter, launch, one)
        else:
            ended = launched(adapter, replace(launch, stop_at=one))
        last = [steps[-1] for _, steps in sorted(ended.ranks.items()) if steps]
        weights = tuple(step.after for step in last) or weights
        for steps in ended.ranks.values():
            ids.update(i for step in steps for i in step.ids)
    return End(ended.code, weights, ids, ended.text)


def matters(adapter: Adapter, folder: Path, sound: Counter[int]) -> str:
    """Return the first way in which a fault shows; empty if none does.

    Args:
        adapter: of the trainer with the fault.
        folder: where it runs; cleared.
        sound: how often an undisturbed run without the fault trains on each
            sample.
    """
    known: dict[str, End] = {}
    for trial in TRIALS:
        kind = str(dict(trial.settings))
        if kind not in known:
            was = end(adapter, folder, Trial("", (), trial.settings))
            if was.code or not was.weights:
                return f"{UNDISTURBED} {kind}: exit code {was.code}"
            if was.ids != sound:
                return f"{UNDISTURBED} {kind}: other samples"
            known[kind] = was
        now, was = end(adapter, folder, trial), known[kind]
        if now.code:
            return f"{trial.name}: exit code {now.code} of the last launch"
        if trial.last and now.ids != was.ids:
            return f"{trial.name}: other samples"
        if not trial.last and now.weights != was.weights:
            return f"{trial.name}: other final weights"
    return ""
