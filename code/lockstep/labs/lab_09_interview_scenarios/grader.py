"""Lab 09: what answers must hold. Nobody judges their prose but the reader."""

from collections.abc import Callable, Iterator
from types import ModuleType

from lockstep.grading.criteria import Criterion

from .scenario import PARTS, Answer, Scenario
from .scenarios import SCENARIOS


def answered(answer: ModuleType) -> Iterator[tuple[Scenario, Answer]]:
    """Each scenario with its answer, in order. NotImplementedError for none."""
    found = getattr(answer, "ANSWERS", None)
    if not found:
        raise NotImplementedError
    unknown = ", ".join(str(name) for name in found if name not in SCENARIOS)
    assert not unknown, f"there is no scenario {unknown}"
    for name, scenario in SCENARIOS.items():
        if name in found:
            one = found[name]
            yield scenario, one if isinstance(one, Answer) else Answer(**one)


def none(wrong: list[str]) -> None:
    """AssertionError, if there is one."""
    assert not wrong, "; ".join(wrong)


def five_parts(answer: ModuleType) -> None:
    """Of each answer."""
    none(
        [
            f"{scenario.id} has no {part}"
            for scenario, one in answered(answer)
            for part in PARTS
            if not one.text(part)
        ]
    )


def numbers(group: str) -> Callable[[ModuleType], None]:
    """A check of all numbers of a group, once all of it is answered."""

    def check(answer: ModuleType) -> None:
        found = [
            (scenario, one)
            for scenario, one in answered(answer)
            if scenario.id.startswith(group)
        ]
        none([told for s, one in found for told in s.wrong_numbers(one)])
        if len(found) < sum(name.startswith(group) for name in SCENARIOS):
            raise NotImplementedError

    return check


def laid_out(answer: ModuleType) -> list[tuple[Scenario, Answer]]:
    """Answers to scenarios that ask for a layout."""
    found = [(s, one) for s, one in answered(answer) if s.cluster]
    if not found:
        raise NotImplementedError
    return found


def legal(answer: ModuleType) -> None:
    """The planner refuses no layout."""
    none([told for s, one in laid_out(answer) if (told := s.illegal(one))])


def fit(answer: ModuleType) -> None:
    """Legal layouts leave room in memory."""
    found = [(s, one) for s, one in laid_out(answer) if not s.illegal(one)]
    none([told for s, one in found if (told := s.too_big(one))])
    if not found:
        raise NotImplementedError


def in_time(answer: ModuleType) -> None:
    """Layouts that fit are not much slower than the strong answer's."""
    found = [
        (s, one)
        for s, one in laid_out(answer)
        if not s.illegal(one) and not s.too_big(one)
    ]
    none([told for s, one in found if (told := s.too_slow(one))])
    if not found:
        raise NotImplementedError


def scored(answer: ModuleType) -> None:
    """Each part of each answer has the reader's own mark."""
    none(
        [
            f"{scenario.id} has no mark of 0, 1 or 2 for its {part}"
            for scenario, one in answered(answer)
            for part in PARTS
            if one.score.get(part) not in (0, 1, 2)
        ]
    )


CRITERIA = [
    Criterion(
        "five parts",
        9,
        "Write what you would say; a part left out is a question asked.",
        five_parts,
        world=1,
    ),
    Criterion(
        "numbers on memory",
        16,
        "All of group A, within 5 %, in decimal units.",
        numbers("A"),
        world=1,
    ),
    Criterion(
        "numbers on bytes",
        16,
        "All of group B, within 5 %: bytes that one rank sends.",
        numbers("B"),
        world=1,
    ),
    Criterion(
        "numbers on time",
        16,
        "All of group C, within 5 %; a share is of all time, unless it says.",
        numbers("C"),
        world=1,
    ),
    Criterion(
        "legal layouts",
        13,
        "`lockstep plan run` says what it refuses; the cluster is given.",
        legal,
        world=1,
    ),
    Criterion(
        "layouts fit",
        13,
        "Parameters, gradients, optimizer, activations and logits in 90 % of"
        " the GPU.",
        fit,
        world=1,
    ),
    Criterion(
        "layouts in time",
        8,
        "Compare exposed communication, the bubble, and what is recomputed.",
        in_time,
        world=1,
    ),
    Criterion(
        "own score",
        9,
        "Show your answer beside the rubric, and mark each part.",
        scored,
        world=1,
    ),
]
