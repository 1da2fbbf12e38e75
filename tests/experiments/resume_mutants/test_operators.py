"""Random faults are planted where a seed says, one at a time."""

import ast
from textwrap import dedent

import pytest

from lockstep.experiments.resume_mutants.operators import (
    OPERATORS,
    edits,
    sample,
)
from lockstep.experiments.resume_mutants.planted import planted

SOURCE = dedent('''
    def save(self, step, files):
        """Save."""
        state = {"step": step, "files": files}
        if step == 4:
            barrier()
        self.rank = get_rank()
        self.part.load_state_dict(state)
        self.seen = self.rank
        return sorted(files, reverse=True)
''')
PLANTED = {
    "drop_entry": 'state = {"step": step}'.replace('"', "'"),
    "drop_key": "dict([*state.items()][1:])",
    "drop_statement": "        pass",
    "swap_statements": "self.part.load_state_dict(state)\n    self.rank =",
    "shift_counter": "(step + 1) == 4",
    "other_rank": "self.seen = (dist.get_world_size() - 1 - self.rank)",
    "reorder": "sorted(files, reverse=False)",
    "leave_flag": "(step != 4)",
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_each_operator_plants_its_fault(operator: str) -> None:
    """One of the faults of each kind is the one that its name says."""
    found = [
        edit.applied(SOURCE)
        for edit in edits(SOURCE, frozenset({"save"}))
        if edit.operator == operator
    ]
    assert any(PLANTED[operator] in text for text in found)
    for text in found:
        assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(SOURCE))


def test_an_unknown_function_is_refused() -> None:
    with pytest.raises(LookupError, match="no such function: lode"):
        edits(SOURCE, frozenset({"save", "lode"}))


def test_kinds_are_drawn_evenly() -> None:
    """As many faults of each kind as there are, up to an equal share."""
    found = {"m": edits(SOURCE, frozenset({"save"}))}
    drawn = [edit.operator for _, edit in sample(found, 8, seed=0)]
    assert sorted(drawn) == sorted(OPERATORS)
    everything = sample(found, 10_000, seed=0)
    assert len({*everything}) == len(everything) == len(found["m"])


def test_a_seed_draws_the_same_faults() -> None:
    """The campaign's faults follow from its seed, and none comes twice."""
    once, again, other = planted(30, 1), planted(30, 1), planted(30, 2)
    assert once == again != other
    assert len({(one.loop, one.diff) for one in once}) == 30
