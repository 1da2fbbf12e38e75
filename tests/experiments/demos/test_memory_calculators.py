"""A peer's formula is its own: it gives the integers that its code gives."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from lockstep.experiments.demos import memory_calculators
from lockstep.experiments.demos.memory_calculators import (
    FLOPS,
    STATE,
    Peer,
    found,
)
from lockstep.planner.models import shape
from lockstep.planner.presets import preset
from tests.planner.blocks import Model

# What the projects' functions returned for this question, at those commits
# and releases; Accelerate's was given 4 bytes a parameter and "float16",
# mlsysim's this number of parameters in place of its own 8.03e9.
RETURNED = {
    "Megatron-LM": [144544702464, 49687241472],
    "DeepSpeed": [18319033472, 4359857280],
    "Accelerate": [64242089984],
    "EleutherAI cookbook": [
        16129212416 + 32258424832 + 96775274496,
        16129212416 + 32258424832 + 1512113664,
        16129212416 + 504037888 + 1512113664,
        252018944 + 504037888 + 1512113664,
    ],
    "llm-analysis": [135088644096, 46436721408, 16886080512, 2110760064],
    "mlsysim": [
        16060522496 + 16060522496 + 96363134976,
        16060522496 + 16060522496 + 1505673984,
        16060522496 + 250945664 + 1505673984,
        250945664 + 250945664 + 1505673984,
    ],
}
PER_TOKEN = {
    "Megatron-LM": 51470401536,
    "mlsysim": 48181567488,
    "llm-analysis": 57912852480,
    "torchtitan": 57914449920,
    "6 N and attention": 61066469376,
}


@pytest.mark.parametrize("peer", STATE[1:], ids=lambda peer: peer.name)
def test_a_formula_gives_what_the_project_returned(peer: Peer) -> None:
    assert [n for n in found(peer) if n] == RETURNED[peer.name]


def test_operations_of_a_token() -> None:
    assert {peer.name: found(peer)[0] for peer in FLOPS} == PER_TOKEN


def test_llm_analysis_counts_the_operations_that_torch_counts() -> None:
    """Forward and backward of a model without memory: all matrices, the output
    table, and attention without its mask."""
    s = shape(preset("llama3-8b"))
    with torch.device("meta"):
        model = Model(s)
        x = torch.empty(
            1, memory_calculators.SEQUENCE, s["hidden"], requires_grad=True
        )
        with FlopCounterMode(display=False) as layer:
            model.dense(x).sum().backward()
        with FlopCounterMode(display=False) as output:
            model.output(x).sum().backward()
    counted = s["layers"] * layer.get_total_flops() + output.get_total_flops()
    assert counted / memory_calculators.SEQUENCE == PER_TOKEN["llm-analysis"]


# Bytes of a parameter that FSDP2 holds whole, and shared by the ranks, by
# stage: in 32 bits Megatron-LM's two, in 16 the ZeRO paper's except its third,
# since a gradient is kept in the width of the parameter that it is of.
HELD = {
    torch.float32: [(18, 0), (6, 12), (2, 16), (0, 16)],
    torch.bfloat16: [(16, 0), (4, 12), (2, 16), (0, 16)],
}


@pytest.mark.parametrize("sums", HELD, ids=str)
def test_what_fsdp2_holds(sums: torch.dtype) -> None:
    assert memory_calculators.measured(sums) == HELD[sums]


def test_they_are_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_calculators, "measured", HELD.get)
    memory_calculators.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 2 + len(STATE) + 2 + len(FLOPS)
