"""Gradients are averaged over the mesh, as data-parallel training does."""

from torch import nn

from lockstep.exercises.labs.lab_b6_pair_axes.solution import *
from lockstep.exercises.labs.lab_b6_pair_axes.sound import (
    sum_gradients as sound,
)
from lockstep.parallel.collectives import place

FAILS = {"weights"}


def sum_gradients(module: nn.Module, mesh: Mesh) -> None:
    """One sample counts as a part of one."""
    sound(module, mesh)
    for weight in module.parameters():
        if weight.grad is not None:
            weight.grad /= place(mesh.down)[1] * place(mesh.across)[1]
