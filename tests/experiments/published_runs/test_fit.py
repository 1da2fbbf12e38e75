"""The planner's constants are those that the published runs give."""

import re
from math import exp, log

import pytest

from lockstep.experiments.published_runs import fit, fitted
from lockstep.planner.constants import CONSTANTS, FITTED, HULL, VALUES, WIDTHS
from lockstep.planner.figures import plain
from lockstep.planner.seconds import timed


@pytest.fixture(scope="module")
def every() -> list[fit.Run]:
    return fit.runs()


def timing(every: list[fit.Run]) -> list[fit.Run]:
    return [run for run in every if run.speed is not None]


def sized(every: list[fit.Run]) -> list[fit.Run]:
    return [
        run for run in every if run.memory and run.name not in fit.NOT_MEMORY
    ]


def test_every_constant_is_cited_or_fitted_within_its_bounds() -> None:
    fitted = {name for name in CONSTANTS if CONSTANTS[name][1] == FITTED}
    assert fitted == {*fit.PLAUSIBLE, *fit.PLAUSIBLE_MEMORY}
    for name, (least, most, _, _) in fit.PLAUSIBLE.items():
        assert least <= VALUES[name] <= most


def test_constants_of_time_are_a_minimum(every: list[fit.Run]) -> None:
    """A constant that changes by a tenth makes the fit no better, but for the
    rounding to three digits."""

    def cost(constants: dict[str, float]) -> float:
        errors = [fit.off(run, constants) for run in timing(every)]
        errors += [
            fit.WEIGHT * (constants[name] - usual) / spread
            for name, (_, _, usual, spread) in fit.PLAUSIBLE.items()
        ]
        scale = fit.ROBUST
        return sum(
            2 * scale**2 * ((1 + (one / scale) ** 2) ** 0.5 - 1)
            for one in errors
        )

    best = {name: VALUES[name] for name in fit.PLAUSIBLE}
    least = cost(best)
    for name in best:
        for factor in (0.9, 1.1):
            assert cost(best | {name: best[name] * factor}) > 0.995 * least


def test_the_fit_computes_the_planners_time(every: list[fit.Run]) -> None:
    """Compiled formulas with other constants give what the planner gives."""
    other = {name: 1.1 * VALUES[name] for name in fit.PLAUSIBLE}
    for run in timing(every):
        found = timed(run.answer | other)
        for name, value in fit.again(run, other).items():
            if name in found:
                assert value == pytest.approx(plain(found[name]), rel=1e-12)


def test_constants_of_memory_are_fitted(every: list[fit.Run]) -> None:
    found = fit.fitted_memory(sized(every))
    for name, value in found.items():
        assert VALUES[name] == pytest.approx(value, rel=0.05)


def test_the_planners_constants_meet_the_targets(every: list[fit.Run]) -> None:
    """Half of all runs are within 10 % and 80 % within 20 %; memory's median
    ratio is within 5 % of 1; each kind's interval holds most of its rows."""
    errors = {run.name: fit.off(run, {}) for run in timing(every)}
    sizes = sorted(abs(exp(one) - 1) for one in errors.values())
    assert sizes[len(sizes) // 2] <= 0.1
    assert sum(size <= 0.2 for size in sizes) >= 0.8 * len(sizes)
    inside = [
        abs(errors[run.name]) <= log(WIDTHS[run.answer["kind"]][0])
        for run in timing(every)
    ]
    assert sum(inside) >= 0.82 * len(inside)
    memory = sorted(
        run.answer["total_bytes"] / run.memory
        for run in sized(every)
        if run.memory
    )
    assert 0.95 <= memory[len(memory) // 2] <= 1.05


def test_the_hull_is_what_the_runs_span(every: list[fit.Run]) -> None:
    for name, ends in HULL.items():
        values = [run.answer[name] for run in every]
        assert (min(values), max(values)) == ends


def test_a_width_covers_nine_of_ten_and_one_more() -> None:
    errors = [0.01 * (-1) ** one * one for one in range(1, 20)]
    assert fit.width(errors) == pytest.approx(exp(0.18))  # the 18th of 19
    assert fit.width([0.1, 0.2]) == pytest.approx(exp(0.2))


def test_the_record_is_of_the_planners_constants_and_widths() -> None:
    """The fit on record has the constants and the widths that the planner
    uses, rounded, and names a missing table."""
    text = fitted.FILE.read_text("utf-8")
    for name, (value, source, _) in CONSTANTS.items():
        if source == FITTED:
            [line] = re.findall(rf"^{name} .*$", text, re.M)
            assert float(line.split()[2]) == pytest.approx(value, rel=5e-3)
    title = "half-width of the 90 % interval, as a factor"
    widths = {kind: float(factor) for kind, factor, _ in fitted.block(title)}
    used = {kind: factor for kind, (factor, _) in WIDTHS.items()}
    assert widths == pytest.approx(used, rel=2e-3)
    with pytest.raises(ValueError, match="no table 'speed'"):
        fitted.block("speed")
