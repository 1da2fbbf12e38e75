"""Where a trainer is examined: its run directory, and what was done in it."""

import fcntl
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from .adapter import Adapter, Launch
from .damage import files
from .env_vars import OVERFLOWS, SAMPLES, VARIANT
from .launching import Act, Ended, launching, shown
from .lineage import Lineage, lineage

# What a trainer may lack, beside what questions ask for.
STOP, SAVE_EVERY = "stop", "save_every"
MARK = ".lockstep-exam"  # a file in a folder that an exam may clear


class ExamError(Exception):
    """The exam cannot be held; the message says what would have to be."""


class Sandbox:
    """One run directory at a time, always at the same path, since a checkpoint
    may hold paths."""

    def __init__(
        self, adapter: Adapter, folder: Path, launch: Launch, limit: float
    ) -> None:
        """`limit`: seconds that a launch may take. ExamError if `folder` holds
        what no exam has put there, since it is cleared."""
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()) and not (folder / MARK).exists():
            raise ExamError(
                f"{folder} holds other files: an exam clears its folder, so"
                " give it one that is empty or new"
            )
        self.mark = (folder / MARK).open("w")
        try:
            fcntl.flock(self.mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ExamError(f"another exam is being held in {folder}") from None
        self.adapter, self.folder, self.limit = adapter, folder, limit
        self.launch = replace(launch, run_dir=folder / "run")
        self.steps: list[str] = []  # what was done, for whoever does it again
        self.ended: list[Ended] = []
        self.known: dict[str, Lineage] = {}  # undisturbed runs
        self.stopped = Ended([])  # the launch that left the snapshot
        self.repeats = True  # whether two undisturbed runs agree
        self.goes_on = False  # from that, at whatever step
        self.unlike: dict[str, str] = {}  # how going on from it differs
        self.last_save = 0  # the newest step that the finished run published
        self.found = False  # whether the adapter has found a checkpoint
        self.patient = True  # to wait for checkpoints
        self.clear()
        shutil.rmtree(folder / "failures", ignore_errors=True)  # of another

    def clear(self) -> None:
        """All but the run directories of failures."""
        for name in "run", "finished", "stopped":
            shutil.rmtree(self.folder / name, ignore_errors=True)

    @property
    def by_epochs(self) -> bool:
        """Whether the trainer saves after whole epochs only."""
        return SAVE_EVERY in self.adapter.lacks

    @property
    def middle(self) -> int:
        """The step at which runs are stopped, that of the second save."""
        return 2 * self.launch.save_every

    @property
    def run_dir(self) -> Path:
        """Of the run that is under exam now."""
        return self.launch.run_dir

    def begin(self, snapshot: str = "") -> None:
        """An empty run directory, or the copy of one; ExamError if there is
        none."""
        self.steps, self.ended = [], []
        shutil.rmtree(self.run_dir, ignore_errors=True)
        if snapshot:
            if not (self.folder / snapshot).exists():
                raise ExamError(f"there is no {snapshot} run to begin with")
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
        patience: float | None = None,
        overflows: int = 0,
        **settings: object,
    ) -> Ended:
        """Launch the trainer, and see it to its end: `patience` seconds after
        the first act it is ended. Its first `overflows` scaled losses become
        infinite. ExamError if it cannot be launched."""
        launch = replace(self.launch, **settings)  # type: ignore[arg-type]
        env = {
            SAMPLES: str(launch.samples),
            VARIANT: str(launch.variant),
            OVERFLOWS: str(overflows),
        }
        try:
            with launching(self.adapter, launch, [*acts], env) as under_way:
                under_way.patient = self.patient
                ended = under_way.wait(self.limit, patience)
        except OSError as error:
            raise ExamError(f"it cannot be launched: {error}") from None
        self.found = self.found or bool(ended.published)
        self.patient = under_way.patient or self.found
        self.ended.append(ended)
        self.steps.append(f"launched: {shown(ended.words)}")
        if overflows:
            self.steps.append(f"its first {overflows} scaled losses infinite")
        for act in acts:
            who = "each rank" if act.rank is None else f"rank {act.rank}"
            done = "" if act.do in ended.acted else " (which was never taken)"
            where = f" (before forward pass {act.before} of the next)"
            where = f"step {act.step}{where if act.before else ''} of {who}"
            self.steps.append(f"{act.do}, at {where}{done}")
        taken = {len(steps) for steps in ended.ranks.values()} or {0}
        count = " or ".join(map(str, sorted(taken)))  # of ranks that differ
        last = f"exit code {ended.code} after {count} steps"
        if ended.out_of_time:
            when = f"{self.limit:.0f} s after its launch"
            if ended.acted and patience:
                when = f"{patience:.0f} s later"
            last = f"ended by the examiner, {when}"
        self.steps.append(last)
        return ended

    def begun(
        self, *acts: Act, patience: float | None = None, **settings: Any
    ) -> Ended:
        """The first launch of a new run; ExamError if it takes no step."""
        self.begin()
        ended = self.run(*acts, patience=patience, **settings)
        if not ended.steps:
            raise ExamError(
                f"the first launch of a run took no step, {self.steps[-1]}:"
                f" {ended.last_words}"
            )
        return ended

    def undisturbed(self, **settings: Any) -> Lineage:
        """A run that nobody disturbs, once for each of its kinds; ExamError
        if there is none."""
        key = repr(sorted(settings.items()))
        if key not in self.known:
            self.begin()
            ended = self.run(**settings)
            if ended.code or ended.out_of_time:
                more = "; limit gives it more" if ended.out_of_time else ""
                raise ExamError(
                    "a run that nobody disturbed did not end well:"
                    f" {self.steps[-1]}{more}: {ended.last_words}"
                )
            if not ended.steps:
                raise ExamError(
                    "no step was seen: the trainer must train"
                    " lockstep.exam.task.Model, or call"
                    " lockstep.exam.observe.observe(model)"
                )
            if ended.world != self.launch.ranks:
                raise ExamError(
                    f"asked for {self.launch.ranks} ranks, it ran on"
                    f" {ended.world}: does its command pass `ranks` on?"
                )
            if len(ended.ranks) < ended.world:
                raise ExamError(
                    f"only {len(ended.ranks)} of {ended.world} ranks told of a"
                    " step: is observe called on every rank?"
                )
            self.known[key] = lineage(ended)
        return self.known[key]

    def newest(self) -> list[Path]:
        """The files of the newest checkpoint, the largest first. ExamError if
        there is none."""
        found = self.adapter.checkpoints(self.run_dir)
        if not found or not (inside := files(found[-1])):
            raise ExamError("the adapter's checkpoints(run_dir) finds none")
        return inside
