"""Read a scenario, and your answer beside its rubric:

    python -m lockstep.labs.lab_09_interview_scenarios [ID [FILE]]

Without an ID it lists the scenarios, and with `--first-moves` what to do first
in each.
"""

import runpy
import sys
from collections.abc import Iterator
from textwrap import fill

from .scenario import PARTS, Answer, Scenario, close, parts, shown
from .scenarios import SCENARIOS


def listed(first_moves: bool = False) -> Iterator[str]:
    """All scenarios, or what to do first in each."""
    for one in SCENARIOS.values():
        yield f"{one.id}  {one.first if first_moves else one.topic}"


def told(one: Scenario) -> Iterator[str]:
    """What is asked."""
    yield f"{one.id}: {one.topic}\n"
    yield fill(one.told(one.situation), 80, break_on_hyphens=False)
    yield "\nnumbers:"
    for name, words in one.numbers.items():
        yield f"  {name:16} {words}"
    wanted = "dp, tp, pp, cp, ep, zero_stage, …" if one.cluster else "none"
    yield f"layout: {wanted}"


def reviewed(one: Scenario, answer: Answer) -> Iterator[str]:
    """The reader's answer beside the rubric, and a strong one."""
    yield from told(one)
    yield "\nyour numbers:"
    for name in one.numbers:
        yield number(one, name, answer)
    if one.cluster:
        yield layout(one, answer)
    rubric = parts(one.rubric)
    for part in PARTS:
        complete, _, missing = rubric[part].partition(" | ")
        yield f"\n{part.replace('_', '-')}"
        yield line("you", answer.text(part) or "nothing")
        yield line("complete", complete)
        if answer.score.get(part) != 2:
            yield line("missing?", missing)
    yield f"\na strong answer: {one.first}"
    for part in PARTS:
        yield line(part.replace("_", "-"), one.answer.text(part))
    yield "\nwhence the numbers:"
    for name, plan in one.asks.items():
        yield f"  {name:13} {plan}"


def number(one: Scenario, name: str, answer: Answer) -> str:
    """What the reader has, what it is, and how that comes about."""
    found, expected = answer.numbers.get(name), one.values[name]
    judged = "right" if close(found, expected) else f"it is {expected:.4g}"
    return line(name, f"{shown(found)} · {judged} · {one.figures[name]}")


def layout(one: Scenario, answer: Answer) -> str:
    """What the planner says to the reader's."""
    said = one.illegal(answer)
    said = said or one.too_big(answer) or one.too_slow(answer)
    return line("layout", said or "legal, fits, in time")


def line(name: str, text: str) -> str:
    """A text beside its name."""
    return fill(
        f"  {name:13} {text}",
        80,
        subsequent_indent=" " * 16,
        break_on_hyphens=False,
    )


def main(args: list[str]) -> int:
    """Exit code 2 for an ID or an answer that is not there."""
    if not args or args == ["--first-moves"]:
        print("\n".join(listed(bool(args))))
        return 0
    name, *files = args
    if name not in SCENARIOS:
        print(f"error: there is no scenario {name}", file=sys.stderr)
        return 2
    one = SCENARIOS[name]
    if not files:
        print("\n".join(told(one)))
        return 0
    answers = runpy.run_path(files[0])["ANSWERS"]
    if name not in answers:
        print(f"error: {files[0]} has no answer to {name}", file=sys.stderr)
        return 2
    found = answers[name]
    answer = found if isinstance(found, Answer) else Answer(**found)
    print("\n".join(reviewed(one, answer)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
