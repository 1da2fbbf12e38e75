"""Mutants: what a diff replaces, and whether it still fits its source."""

import pytest

from lockstep.drills import Drill, drills
from lockstep.grading.mutants import Mutant, MutationError, replaced
from lockstep.labs import Lab, labs
from tests.grading.wrong_answers import wrong_answers

SOURCE = """\
import os

def first(x):
    y = x + 1
    return y

def second(x):
    if x:
        y = x + 1
    return x
"""
DIFF = """
-    y = x + 1
+    y = 2 * x
@@ the second function

 def second(x):
     if x:
+        print(x)
@@
+last = first
"""
MUTATED = """\
import os

def first(x):
    y = 2 * x
    return y

def second(x):
    if x:
        print(x)
        y = x + 1
    return x
last = first
"""


def test_a_diff_replaces_whole_lines_and_adds_to_the_end() -> None:
    """The first hunk's line is the end of a longer line further down."""
    mutant = Mutant.diff("doubled", {"sum"}, DIFF, seconds=3)
    assert (mutant.fails, mutant.seconds) == ({"sum"}, 3)
    assert mutant.mutated(SOURCE) == MUTATED


@pytest.mark.parametrize(("old", "count"), [("y = x + 1", 2), ("z", 0)])
def test_an_old_text_that_does_not_occur_once_is_an_error(
    old: str, count: int
) -> None:
    with pytest.raises(MutationError, match=f"occurs {count} times"):
        replaced(SOURCE, [(old, "")])


@pytest.mark.parametrize(
    "exercise", [*labs().values(), *drills().values()], ids=lambda one: one.name
)
def test_wrong_answers_fit_the_solution_and_can_be_compiled(
    exercise: Lab | Drill,
) -> None:
    for wrong in wrong_answers([exercise]):
        text = wrong.mutant.mutated(wrong.source)
        assert text != wrong.source
        if wrong.solution[0].suffix == ".py":
            compile(text, str(wrong), "exec")
