"""What survives: defects 3, 10, 13 and 14, and that we lack them."""

import os
import random
import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import pytest
import torch

from lockstep.exercises.silent import d03_checkpoint_holds_numpy_state as d03
from lockstep.exercises.silent import d10_save_onto_the_final_name as d10
from lockstep.exercises.silent import d13_metadata_never_compared as d13
from lockstep.exercises.silent import d14_each_rank_picks_its_latest as d14
from lockstep.exercises.silent.toy import small_model
from lockstep.trainer import checkpoint
from lockstep.trainer.config import ConfigError, TrainConfig
from lockstep.trainer.loop import build, run
from lockstep.trainer.model import DataParallel, make_task
from tests import ranks
from tests.trainer.defects.probes import (
    events,
    group,
    launch_on,
    launch_rank,
    settings_for,
)

# 3: what was saved can be restored, and no pickle is trusted for it

Drawn = tuple[float, float, float]


def check_checkpoint_restores_with_weights_only(
    expected: Drawn, drawn: Drawn | str
) -> None:
    """`drawn` after a restore, `expected` when the checkpoint was saved: by
    Python, NumPy and torch. A restore that raised is a text."""
    assert drawn == expected, drawn


def draw() -> Drawn:
    return random.random(), np.random.random(), torch.rand(()).item()


def drawn_again(
    save: Callable[[], Any], restore: Callable[[], Any]
) -> tuple[Drawn, Drawn | str]:
    save()
    expected = draw()
    try:
        restore()
    except UnpicklingError as error:
        return expected, f"UnpicklingError: {error}"
    return expected, draw()


def restore_as_lockstep(settings: dict[str, Any]) -> Any:
    cfg = TrainConfig(**settings)
    me = group()
    replica = build(cfg, me, make_task(cfg), DataParallel())
    about = {"config": cfg.identity()}
    counts = {"step": 1, "attempt": 0, "world_size": me.world_size}
    writer = checkpoint.Writer()
    return drawn_again(
        lambda: writer.save(replica, about | counts, leaving=True),
        lambda: checkpoint.restore(replica, about, writer),
    )


def restore_numpy_state(path: Path, trusting: bool = False) -> Any:
    if trusting:  # what `torch.load` did before 2.6, by its own switch
        os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters())
    return drawn_again(
        lambda: d03.save_checkpoint(path, model, optimizer, step=1),
        lambda: d03.load_checkpoint(path, model, optimizer),
    )


def test_checkpoint_restores_with_weights_only(tmp_path: Path) -> None:
    """The trainer's checkpoint loads with `weights_only=True` and brings back
    all of its state."""
    settings = settings_for(2, tmp_path)
    for found in ranks.run_ranks(2, restore_as_lockstep, settings):
        check_checkpoint_restores_with_weights_only(*found)


def test_checkpoint_with_numpy_state_is_never_restored(tmp_path: Path) -> None:
    found = ranks.run_ranks(1, restore_numpy_state, tmp_path / "ckpt.pt")[0]
    with pytest.raises(AssertionError, match=r"(?s)UnpicklingError.*numpy"):
        check_checkpoint_restores_with_weights_only(*found)


def test_numpy_state_loads_once_pickles_are_trusted(tmp_path: Path) -> None:
    """The broken checkpoint with a NumPy state loads only if pickles are
    trusted, which is what the defect is."""
    path = tmp_path / "ckpt.pt"
    found = ranks.run_ranks(1, restore_numpy_state, path, True)[0]
    check_checkpoint_restores_with_weights_only(*found)


# 10: a kill in the middle of a write leaves what was there before


def check_a_kill_mid_write_leaves_no_checkpoint_that_latest_picks(
    restore_latest: Callable[[], int], last_good: int
) -> None:
    """`restore_latest` says which step it went on from."""
    try:
        step = restore_latest()
    except (RuntimeError, OSError, UnpicklingError, EOFError) as error:
        raise AssertionError(f"latest is torn: {error}") from error
    assert step == last_good


def died_mid_write(
    folder: Path,
    work: Callable[..., Any],
    *args: Any,
    limit: int = d10.LIMIT,
) -> None:
    """Run it, and see that it really died where it should."""
    killed = ranks.Ranks(1, work, *args)
    with pytest.raises(ranks.RankError, match="died"):
        killed.results()
    assert killed.processes[0].exitcode == -signal.SIGXFSZ
    sizes = [p.stat().st_size for p in folder.rglob("*") if p.is_file()]
    assert sizes.count(limit) == 1


def lockstep_dies(settings: dict[str, Any]) -> None:
    class Dying(checkpoint.Writer):
        writes = 0

        def write(self, *where_and_what: Any) -> checkpoint.Manifest:
            self.writes += 1
            if self.writes == 2:
                d10.die_mid_write()
            return super().write(*where_and_what)

    me = group()
    run(TrainConfig(**settings).for_launch(1, {}), me, writer=Dying())


def test_a_kill_mid_write_leaves_no_checkpoint_that_latest_picks(
    tmp_path: Path,
) -> None:
    """Killed while it writes a checkpoint, the trainer restores the one
    before."""
    settings = settings_for(
        1, tmp_path, max_steps=12, checkpoint_every_steps=5, hidden_size=128
    )
    died_mid_write(tmp_path, lockstep_dies, settings)

    def restore_latest() -> int:
        ranks.run_ranks(1, launch_rank, settings)
        restored = events(tmp_path, 0, 0, "checkpoint_restored")[0]
        return int(restored["step"])

    check_a_kill_mid_write_leaves_no_checkpoint_that_latest_picks(
        restore_latest, last_good=5
    )
    assert not events(tmp_path, 0, 0, "checkpoint_damaged")


def test_save_onto_the_final_name_leaves_a_torn_latest(tmp_path: Path) -> None:
    died_mid_write(tmp_path, d10.run, tmp_path)

    def restore_latest() -> int:
        state = d10.load_latest(tmp_path)
        return int(state["step"]) if state else 0

    with pytest.raises(AssertionError, match="latest is torn"):
        check_a_kill_mid_write_leaves_no_checkpoint_that_latest_picks(
            restore_latest, last_good=5
        )


def test_save_onto_the_final_name_is_fine_while_nobody_dies(
    tmp_path: Path,
) -> None:
    """The broken save works as long as nobody is killed in it, which is why
    nobody sees it."""
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in 5, 10:
        d10.save_checkpoint(tmp_path, model, optimizer, step)
    state = d10.load_latest(tmp_path)
    assert state
    assert state["step"] == 10


# 13: what does not belong to the run is refused, and the setting named

CHANGES: dict[str, Any] = {
    "seed": 1,
    "learning_rate": 1e-3,
    "global_batch_size": 32,
    "max_steps": 13,
    "precision": "bf16",
    "dropout": 0.2,
}


def check_incompatible_checkpoint_is_refused(
    refusals: dict[str, str | None],
) -> None:
    """`refusals`: for each setting that was changed, what was said to that;
    None if the checkpoint was loaded all the same."""
    loaded = [name for name, said in refusals.items() if said is None]
    assert not loaded, f"loaded in spite of another {', '.join(loaded)}"
    for name, said in refusals.items():
        flag = "--" + name.replace("_", "-")
        assert flag in (said or ""), f"{flag} is not named: {said}"


def refusals_of_lockstep(settings: dict[str, Any]) -> dict[str, str | None]:
    """Of the core alone: no room has looked at what the run was before."""
    refusals: dict[str, str | None] = {}
    cfg = TrainConfig(**settings).for_launch(1, {})
    me = group()
    run(replace(cfg, stop_at_step=4), me)
    assert run(replace(cfg, stop_at_step=5), me)["step"] == 5  # goes on
    for name, value in CHANGES.items():
        changed = replace(cfg, **{name: value})
        try:
            run(changed, me)
        except ConfigError as error:
            refusals[name] = str(error)
        else:
            refusals[name] = None
    return refusals


def test_incompatible_checkpoint_is_refused(tmp_path: Path) -> None:
    """The trainer refuses a checkpoint when the data, the model or the batch
    has changed, and names the change."""
    settings = settings_for(1, tmp_path, max_steps=12)
    refusals = ranks.run_ranks(1, refusals_of_lockstep, settings)[0]
    assert refusals.keys() == CHANGES.keys()
    check_incompatible_checkpoint_is_refused(refusals)


def test_metadata_never_compared_let_any_checkpoint_load(
    tmp_path: Path,
) -> None:
    cfg, path, model = d13.TrainConfig(), tmp_path / "ckpt.pt", small_model()
    d13.save_checkpoint(path, model, cfg, step=4)
    refusals: dict[str, str | None] = {}
    for name, value in CHANGES.items():
        changed = replace(cfg, **{name: value})
        assert d13.load_checkpoint(path, model, changed) == 4
        refusals[name] = None
    with pytest.raises(AssertionError, match=f"another {', '.join(CHANGES)}"):
        check_incompatible_checkpoint_is_refused(refusals)


# 14: rank 0 picks the checkpoint, and all restore that one


def check_all_ranks_restore_the_same_step(steps: list[int]) -> None:
    assert len(set(steps)) == 1, f"ranks go on from steps {steps}"


def rank_1_lists_late(newest: int) -> None:
    """On rank 1 the newest checkpoint is not in its folder's listing yet, as
    happens on a shared file system whose clients cache."""
    glob = Path.glob

    def stale(self: Path, pattern: str) -> Iterator[Path]:
        found = glob(self, pattern)
        late = re.compile(rf"step-0*{newest}\b")
        return (path for path in found if not late.match(path.name))

    if os.environ["RANK"] == "1":
        Path.glob = stale  # type: ignore


def launch_with_a_late_listing(settings: dict[str, Any]) -> None:
    rank_1_lists_late(newest=8)
    launch_rank(settings)


def restore_latest_by_rank(folder: Path) -> int:
    rank_1_lists_late(newest=8)
    group()
    return d14.restore_latest(folder, small_model())


def test_all_ranks_restore_the_same_step(tmp_path: Path) -> None:
    """When one rank lists the checkpoints late, both ranks of the trainer still
    restore the same step."""
    same = {"max_steps": 12, "checkpoint_every_steps": 4}
    launch_on(2, tmp_path, stop_at_step=8, **same)
    settings = settings_for(2, tmp_path, **same)
    ranks.run_ranks(2, launch_with_a_late_listing, settings)
    steps = [
        events(tmp_path, rank, 1, "checkpoint_restored")[0]["step"]
        for rank in range(2)
    ]
    assert steps[0] == 8
    check_all_ranks_restore_the_same_step(steps)


def test_each_rank_that_picks_its_latest_may_restore_another(
    tmp_path: Path,
) -> None:
    d14.save(tmp_path, 4, 8)
    steps = ranks.run_ranks(2, restore_latest_by_rank, tmp_path)
    with pytest.raises(AssertionError, match=r"from steps \[8, 4\]"):
        check_all_ranks_restore_the_same_step(steps)
