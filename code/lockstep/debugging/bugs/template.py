"""Your answer to bug NN. Fix `trainer.py`, which lies beside this file.

    python answer.py                  # tries your proof on trainer.py
    lockstep bug check NN answer.py

The proof is run on trainers with the bug and without it. So it may rely on what
COMPLAINT.md says other tools rely on, and on nothing that you have changed.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from lockstep.debugging.bugs.rig import RunFailed, launch  # noqa: F401

SYMPTOM = ""  # one line: what does the trainer do, or not do?


def prove(trainer: Path, folder: Path) -> None:
    """Raise AssertionError, with the values that prove it, on a trainer that
    has the bug; return on one that has not.

    `folder` is empty, and yours. To run the trainer on two processes:

        run = launch(trainer, folder / "run", world=2, max_steps=20)
        run.of("run_finished")   # events of rank 0; of("step", 1) of rank 1
        run.ids                  # samples trained on; run.samples[3] of step 3

    Launched into the same folder again, the run goes on. A rank that fails
    raises RunFailed. `watch=f` calls f(module) on each rank before the run: it
    may replace or count what it likes, and `run.seen` has what it returned.
    """
    raise NotImplementedError


if __name__ == "__main__":
    with TemporaryDirectory() as name:
        prove(Path(__file__).with_name("trainer.py"), Path(name))
    print("the proof finds nothing")
