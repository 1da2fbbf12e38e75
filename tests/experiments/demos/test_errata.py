"""An erratum is one only if the arithmetic does not give what is printed."""

import pytest

from lockstep.experiments.demos.errata import (
    PAGES,
    PAPERS,
    Erratum,
    main,
    should_be,
)


@pytest.mark.parametrize("one", [*PAPERS, *PAGES], ids=lambda one: one.what)
def test_the_arithmetic_gives_another_figure(one: Erratum) -> None:
    printed = float(one.printed.removeprefix("below "))
    assert abs(should_be(one) / printed - 1) > 0.003


def test_each_has_its_derivation(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    said = capsys.readouterr().out
    assert "printed 5140, should be 5120\n  = 40 * 128" in said
    assert said.count("should be") == len(PAPERS) + len(PAGES)
