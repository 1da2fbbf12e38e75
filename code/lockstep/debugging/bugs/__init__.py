"""Find the bug: broken trainers, each the interview cut with a defect planted.

A bug is two lists of replacements. `REWRITTEN` writes the cut in another way,
sound as before; `PLANTED` breaks that. So the fix is known, and so is a trainer
that differs from the broken one by the bug alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.grading.exercise import Exercise, found
from lockstep.grading.mutants import replaced

if TYPE_CHECKING:
    from .grading import Graded

COST = 5  # points for a hint
CUT = Path(__file__).parents[2] / "interview.py"
# In a shell: `train 2 --max-steps 20` is two processes.
RUN = (
    'train() { torchrun --standalone --nproc-per-node=$1 trainer.py "${@:2}"; }'
)
COMPLAINT = """\
# {title}

{complaint}

```console
{log}
```

`trainer.py` is the trainer; with `--help` it lists its settings. Other tools
rely on these, in every version of it:

- its functions and classes, by name and by what they are called with;
- its flags, and the fields of its events: `run_started`, `step`,
  `checkpoint_saved`, `checkpoint_restored`, `run_finished`;
- the phases of a step: `load`, `h2d`, `forward`, `backward`, `sync`,
  `optimizer`, `checkpoint`;
- `loss` in a `step` is the mean over the global batch, on every rank;
- an incompatible restore ends the process with an error;
- `torch.load` never runs code that comes with a file.
"""


class Bug(Exercise):
    """A module `bug_NN` of this package: COMPLAINT, LOG, HINTS, ELSE, OTHER,
    PLANTED by the number of the defect, and perhaps REWRITTEN. Its title is
    what somebody saw."""

    @property
    def defects(self) -> list[str]:
        """Those that it has, by the numbers of the page."""
        return list(self.module.PLANTED)

    @property
    def grader(self) -> str:
        """The module that grades it."""
        return f"{__name__}.grading"

    @property
    def brings(self) -> list[str]:
        """The modules that its notebook has beside the grader."""
        others = f"answers.{self.name}", f"bug_{self.constant('OTHER')}"
        return super().brings + [f"{__name__}.{one}" for one in others]

    @property
    def answer(self) -> Path:
        """One that gets full marks, beside the sound trainer."""
        return Path(__path__[0], "answers", f"{self.name}.py")

    def sound(self) -> str:
        """Return the trainer without the bug."""
        rewritten = getattr(self.module, "REWRITTEN", ())
        return replaced(plain(CUT.read_text("utf-8")), rewritten)

    def broken(self, *defects: str) -> str:
        """Return the trainer with the bug, or with some of its defects."""
        return with_defects(self.sound(), self, defects or self.defects)

    def otherwise_broken(self) -> str:
        """Return the sound trainer with a different bug, which a proof must not
        find."""
        other = bugs()[self.module.OTHER]
        return with_defects(self.sound(), other, other.defects)

    def fix(self) -> str:
        """From the broken trainer to the sound one, as a diff."""
        before, after = self.broken(), self.sound()
        lines = unified_diff(
            before.splitlines(), after.splitlines(), "broken", "sound", n=1
        )
        return "\n".join(line.rstrip() for line in lines)

    def strong(self) -> str:
        """Return an answer's code, without its title."""
        return self.answer.read_text("utf-8").partition("\n\n")[2].strip()

    def solution(self) -> dict[str, str]:
        """Return the files that get full marks, by name."""
        answer = self.answer.read_text("utf-8")
        return {"trainer.py": self.sound(), "answer.py": answer}

    def starter(self) -> dict[str, str]:
        """Return the files that a reader starts from, by name."""
        template = Path(__path__[0], "template.py").read_text("utf-8")
        return {
            "trainer.py": self.broken(),
            "COMPLAINT.md": COMPLAINT.format(
                title=self.title[0].upper() + self.title[1:],
                complaint=self.constant("COMPLAINT").strip(),
                log=f"$ {RUN}\n{self.constant('LOG').strip()}",
            ),
            "answer.py": template.replace("NN", self.number),
        }

    def story(self) -> str:
        """For whoever has solved it: a strong answer, the fix, and what else
        could have been the cause."""
        other = self.constant("ELSE").strip()
        return (
            f"A strong answer:\n\n{self.strong()}\n\nThe fix:\n\n{self.fix()}"
            f"\n\nWhat else it could have been:\n\n{other}"
        )

    def constant(self, name: str) -> Any:
        """Return the value of a constant of the module."""
        return getattr(self.module, name)

    def graded(self, file: Path, hints: int = 0) -> Graded:
        """Grade the answer in `file` and the fix next to it, with that many
        hints taken.

        Raises:
            CannotGradeError: the files cannot be graded; one line says why.
        """
        from lockstep.grading.criteria import CannotGradeError

        from .grading import grade

        try:
            return grade(self, file, hints)
        except CannotGradeError:
            raise
        except Exception as error:  # a reader is shown no traceback
            why = f"the grader failed: {type(error).__name__}: {error}"
            raise CannotGradeError(why.partition("\n")[0]) from error


def with_defects(trainer: str, bug: Bug, defects: Iterable[str]) -> str:
    """Return the source of a trainer with some of a bug's defects."""
    for number in defects:
        trainer = replaced(trainer, bug.module.PLANTED[number])
    return trainer


def bugs() -> dict[str, Bug]:
    """All bugs, by number."""
    return found(Bug)


def plain(text: str) -> str:
    """Return the cut as a separate file, without marks for pages."""
    text = re.sub(r"^# --8<-- .*\n", "", text, flags=re.M)
    text = re.sub(r" *--8<-- \[start:\w+\]", "", text)
    return text.replace(" interview.py ", " trainer.py ")
