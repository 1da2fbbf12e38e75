"""The exam's adapter for torchtitan's parts with what its user has to add."""

from lockstep.experiments.peers.launching import mended

name, lacks, command, checkpoints = mended(__file__)
