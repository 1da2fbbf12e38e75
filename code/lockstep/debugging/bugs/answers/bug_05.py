"""The digest is of settings that differ by rank."""

from pathlib import Path

from lockstep.debugging.bugs.rig import launch

SYMPTOM = "Rank 1 has another digest than rank 0 wrote, so it alone refuses."


def prove(trainer: Path, folder: Path) -> None:
    """Compare the identities that ranks log: one run has one."""
    run = launch(trainer, folder, world=2, max_steps=1)
    mine, other = (run.of("run_started", rank)[0] for rank in range(2))
    differ = {
        name: (mine["config"][name], other["config"].get(name))
        for name in mine["config"]
        if mine["config"][name] != other["config"].get(name)
    }
    assert not differ, f"part of the config, on ranks 0 and 1: {differ}"
