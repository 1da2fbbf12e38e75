"""A peer's formula is its own: it gives the integers that its code gives."""

import pytest

from lockstep.probes.peers import FLOPS, STATE, Peer, found, main

# What the projects' functions returned for this question, at those commits.
RETURNED = {
    "Megatron-LM": [49687241472],
    "DeepSpeed": [18319033472, 4359857280],
    "EleutherAI cookbook": [
        16129212416 + 32258424832 + 1512113664,
        16129212416 + 504037888 + 1512113664,
        252018944 + 504037888 + 1512113664,
    ],
}
PER_TOKEN = [51470401536, 57914449920, 61066469376]


@pytest.mark.parametrize("peer", STATE[1:], ids=lambda peer: peer.name)
def test_a_formula_gives_what_the_project_returned(peer: Peer) -> None:
    assert [n for n in found(peer) if n] == RETURNED[peer.name]


def test_operations_of_a_token() -> None:
    assert [found(peer)[0] for peer in FLOPS] == PER_TOKEN


def test_they_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(STATE) + 2 + len(FLOPS)
