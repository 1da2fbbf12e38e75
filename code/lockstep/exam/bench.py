"""Where a trainer is examined: its run directory, and what was done in it."""

import random
import shutil
from dataclasses import replace
from pathlib import Path

from .adapter import Adapter, Launch
from .damage import files
from .launching import Act, Ended, launching, shown
from .lineage import Lineage, lineage
from .names import SAMPLES, VARIANT

LIMIT = 120.0  # seconds that a launch may take


class ExamError(Exception):
    """The exam cannot be held; the message says what would have to be."""


class Bench:
    """One run directory at a time, always at the same path, since a checkpoint
    may hold paths."""

    def __init__(self, adapter: Adapter, folder: Path, launch: Launch) -> None:
        self.adapter, self.folder = adapter, folder
        self.launch = replace(launch, run_dir=folder / "run")
        self.random = random.Random(launch.seed)
        self.steps: list[str] = []  # what was done, for whoever does it again
        self.ended: list[Ended] = []
        self.known: dict[str, Lineage] = {}  # undisturbed runs

    @property
    def run_dir(self) -> Path:
        """Of the run that is under exam now."""
        return self.launch.run_dir

    def begin(self, snapshot: str = "") -> None:
        """An empty run directory, or the copy of one."""
        self.steps, self.ended = [], []
        shutil.rmtree(self.run_dir, ignore_errors=True)
        if snapshot:
            shutil.copytree(self.folder / snapshot, self.run_dir, symlinks=True)
            self.steps.append(f"the run directory as it was when {snapshot}")
        else:
            self.run_dir.mkdir(parents=True)

    def keep(self, snapshot: str) -> None:
        """A copy of the run directory, to begin with again."""
        target = self.folder / snapshot
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.run_dir, target, symlinks=True)

    def set_aside(self, name: str) -> Path:
        """The run directory, and what its launches printed, for a person."""
        target = self.folder / "failures" / name
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(self.run_dir, target, symlinks=True)
        for k, ended in enumerate(self.ended):
            (target / f"exam-launch-{k}.txt").write_text(ended.text)
        return target

    def run(
        self,
        *acts: Act,
        limit: float = LIMIT,
        variant: int = 0,
        **settings: object,
    ) -> Ended:
        """Launch the trainer, and see it to its end."""
        launch = replace(self.launch, **settings)  # type: ignore[arg-type]
        env = {SAMPLES: str(launch.samples), VARIANT: str(variant)}
        with launching(self.adapter, launch, list(acts), env) as under_way:
            ended = under_way.wait(limit)
        self.ended.append(ended)
        self.steps.append(f"launched: {shown(ended.words)}")
        for act in acts:
            who = "each rank" if act.rank is None else f"rank {act.rank}"
            done = "" if act.do in ended.acted else " (which was never taken)"
            self.steps.append(f"{act.do}, at step {act.step} of {who}{done}")
        taken = {len(steps) for steps in ended.ranks.values()} or {0}
        count = " or ".join(map(str, sorted(taken)))  # of ranks that differ
        last = f"exit code {ended.code} after {count} steps"
        if ended.out_of_time:
            last = f"ended by the examiner after {limit:.0f} s"
        self.steps.append(last)
        return ended

    def undisturbed(self, **settings: object) -> Lineage:
        """A run that nobody disturbs, once for each of its kinds; ExamError
        if there is none."""
        key = repr(sorted(settings.items()))
        if key not in self.known:
            self.begin()
            ended = self.run(**settings)  # type: ignore[arg-type]
            if ended.code or ended.out_of_time:
                raise ExamError(
                    f"a run that nobody disturbed ended with"
                    f" {self.steps[-1]}: {ended.last_words}"
                )
            if not ended.steps:
                raise ExamError(
                    "no step was seen: the trainer must train"
                    " lockstep.exam.task.Model, or call"
                    " lockstep.exam.observe.observe(model)"
                )
            self.known[key] = lineage(ended)
        return self.known[key]

    def newest(self, back: int = 0) -> list[Path]:
        """The files of the newest checkpoint, the largest first; or of an
        earlier one. Empty if there is none."""
        found = self.adapter.checkpoints(self.run_dir)
        return files(found[-1 - back]) if len(found) > back else []
