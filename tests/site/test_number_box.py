"""The number box shows a figure with its limits and its proof."""

from __future__ import annotations

import pytest

from lockstep.site.pages.number_box import number_box
from lockstep.site.pages.proofs import marked

TEST = "test_the_rule_of_tokens_is_where_the_gather_begins_to_hide"


def test_a_number_box_has_its_figure_its_limits_and_a_mark() -> None:
    box = number_box("**1,600 tokens** per GPU.", "For dense models.", TEST)
    assert box.startswith('!!! abstract "The number to keep"\n\n    **1,600')
    assert "\n\n    For dense models.\n" in box
    assert TEST not in (page := marked(box, "x").partition("<details")[0])
    assert 'class="proof"' in page


@pytest.mark.parametrize(
    ("number", "applies", "proof", "message"),
    [
        ("Many tokens.", "Dense models.", TEST, "without a figure"),
        ("1,600 tokens.", " ", TEST, "say what the number applies to"),
        ("1,600 tokens.", "Dense models.", "", "without a proof or source"),
        ("1,600 tokens.", "Dense models.", " ; ", "without a proof or source"),
    ],
)
def test_a_number_box_refuses_a_figure_that_nothing_holds(
    number: str, applies: str, proof: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        number_box(number, applies, proof)


def test_a_number_box_names_a_proof_that_exists() -> None:
    box = number_box("1,600 tokens.", "Dense models.", "test_of_nothing")
    with pytest.raises(ValueError, match="test_of_nothing"):
        marked(box, "x")
