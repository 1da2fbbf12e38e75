"""What a step does: defects 7, 8 and 9, and that we lack them."""

from pathlib import Path
from typing import Any

import pytest
import torch

from lockstep.exercises.bugs.probes import (
    count_samples_per_step,
    see_dropout_masks,
    see_output_dtypes,
)
from lockstep.exercises.silent import d07_accumulation_in_name_only as d07
from lockstep.exercises.silent import d08_autocast_by_scaler as d08
from lockstep.exercises.silent import d09_ranks_seeded_alike as d09
from lockstep.exercises.silent.toy import small_model, toy
from tests import ranks
from tests.trainer.defects.probes import (
    events,
    group,
    launch_rank,
    settings_for,
)

# 7: the batch that is stated is the batch that is trained


def check_accumulation_trains_the_stated_batch(
    stated: int, trained: list[int]
) -> None:
    """`trained`: of each optimizer step, the samples on all ranks."""
    assert trained
    assert {*trained} == {stated}, f"{stated} stated, {trained[0]} trained"


def samples_of_lockstep(settings: dict[str, Any]) -> list[int]:
    steps = count_samples_per_step()
    launch_rank(settings)
    return steps


def samples_without_accumulation() -> tuple[int, list[int]]:
    steps = count_samples_per_step()
    d07.run()
    return d07.TrainConfig().global_batch_size, steps


def test_accumulation_trains_the_stated_batch(tmp_path: Path) -> None:
    """With four micro-batches the trainer trains on as many samples a step as
    it states."""
    accum = {"micro_batch_size": 8, "grad_accum_steps": 4, "max_steps": 5}
    settings = settings_for(2, tmp_path, global_batch_size=None, **accum)
    mine, other = ranks.run_ranks(2, samples_of_lockstep, settings)
    stated = events(tmp_path, 0, 0, "run_started")[0]["global_batch_size"]
    trained = [a + b for a, b in zip(mine, other, strict=True)]
    assert stated == 64
    assert len(trained) == 5
    check_accumulation_trains_the_stated_batch(stated, trained)


def test_accumulation_in_name_only_trains_micro_batches() -> None:
    stated, trained = ranks.run_ranks(1, samples_without_accumulation)[0]
    with pytest.raises(AssertionError, match="32 stated, 8 trained"):
        check_accumulation_trains_the_stated_batch(stated, trained)


# 8: fp32 means fp32


def check_fp32_means_fp32(dtypes: set[str]) -> None:
    """`dtypes`: of the layers' outputs, in a run that asked for fp32."""
    assert dtypes == {"torch.float32"}, f"computed in {dtypes}"


def dtypes_of_lockstep(settings: dict[str, Any]) -> set[str]:
    seen = see_output_dtypes()
    launch_rank(settings)
    return seen


def dtypes_by_scaler() -> set[str]:
    seen = see_output_dtypes()
    d08.run(small_model())
    return seen


def test_fp32_means_fp32(tmp_path: Path) -> None:
    """With fp32 asked for, everything that flows between the trainer's layers
    is fp32."""
    settings = settings_for(1, tmp_path, precision="fp32", max_steps=2)
    check_fp32_means_fp32(ranks.run_ranks(1, dtypes_of_lockstep, settings)[0])


def test_bf16_means_bf16(tmp_path: Path) -> None:
    """And the check above sees it."""
    settings = settings_for(1, tmp_path, precision="bf16", max_steps=2)
    found = ranks.run_ranks(1, dtypes_of_lockstep, settings)[0]
    assert found == {"torch.bfloat16"}
    with pytest.raises(AssertionError, match="bfloat16"):
        check_fp32_means_fp32(found)


def dtypes_without_scaler() -> set[str]:
    seen = see_output_dtypes()
    model, (x, y) = small_model(), toy()
    d08.train_step(model, torch.optim.AdamW(model.parameters()), None, x, y)
    return seen


def test_autocast_by_scaler_computes_in_bf16_unasked() -> None:
    check_fp32_means_fp32(ranks.run_ranks(1, dtypes_without_scaler)[0])
    with pytest.raises(AssertionError, match=r"computed in .*bfloat16"):
        check_fp32_means_fp32(ranks.run_ranks(1, dtypes_by_scaler)[0])


# 9: ranks draw their own dropout, and resume with their own

Masks = list[bytes]  # one for each step


def check_ranks_draw_different_dropout(masks: list[Masks]) -> None:
    """`masks`: of two ranks."""
    equal = [a == b for a, b in zip(*masks, strict=True)]
    assert equal
    assert not any(equal), f"{sum(equal)} of {len(equal)} masks are equal"


def check_ranks_resume_with_their_own(
    whole: list[Masks], resumed: list[Masks]
) -> None:
    """`resumed`: of each rank, the last masks of a run that was stopped."""
    for rank, (all_of, last) in enumerate(zip(whole, resumed, strict=True)):
        assert last
        assert all_of[-len(last) :] == last, f"rank {rank} draws others"


def masks_of_lockstep(settings: dict[str, Any]) -> Masks:
    masks = see_dropout_masks()
    launch_rank(settings)
    return masks


def masks_of_copy(path: Path, by_rank: bool) -> tuple[Masks, Masks]:
    """Of a run, and of the half that is repeated after a restore; seeded as
    the copy does it, or with that mended."""
    masks = see_dropout_masks()
    group()
    d09.run(path, by_rank)
    return masks[:8], masks[8:]


def test_ranks_draw_different_dropout_and_resume_with_their_own(
    tmp_path: Path,
) -> None:
    """The trainer's ranks draw different dropout masks, and after a resume each
    draws those that it would have drawn."""

    def masks(run_dir: str, **settings: Any) -> list[Masks]:
        settings = settings_for(2, tmp_path / run_dir, max_steps=8, **settings)
        return ranks.run_ranks(2, masks_of_lockstep, settings)

    whole = masks("whole")
    check_ranks_draw_different_dropout(whole)
    masks("stopped", stop_at_step=4)
    resumed = masks("stopped")
    assert len(resumed[0]) == 4
    check_ranks_resume_with_their_own(whole, resumed)


def test_ranks_seeded_alike_draw_the_same_dropout(tmp_path: Path) -> None:
    found = ranks.run_ranks(2, masks_of_copy, tmp_path / "rng.pt", False)
    with pytest.raises(AssertionError, match="8 of 8 masks are equal"):
        check_ranks_draw_different_dropout([whole for whole, _ in found])


def test_rng_of_rank_0_alone_resumes_the_others_with_it(
    tmp_path: Path,
) -> None:
    found = ranks.run_ranks(2, masks_of_copy, tmp_path / "rng.pt", True)
    whole, resumed = ([f[i] for f in found] for i in range(2))
    check_ranks_draw_different_dropout(whole)
    assert resumed[1] == resumed[0]
    with pytest.raises(AssertionError, match="rank 1 draws others"):
        check_ranks_resume_with_their_own(whole, resumed)
