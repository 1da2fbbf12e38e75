"""The seventeen faulty copies: each shows its symptom, as the page of silent
failures says."""

import io
import os
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from lockstep.debugging.bugs.probes import (
    count_host_reads_per_step,
    see_output_dtypes,
)
from lockstep.debugging.bugs.rig import KERNELS
from lockstep.debugging.silent import d01_counter_is_never_reset as d01
from lockstep.debugging.silent import d02_progress_counts_draws as d02
from lockstep.debugging.silent import d03_checkpoint_holds_numpy_state as d03
from lockstep.debugging.silent import d05_digest_holds_the_rank as d05
from lockstep.debugging.silent import d08_autocast_by_scaler as d08
from lockstep.debugging.silent import d10_save_onto_the_final_name as d10
from lockstep.debugging.silent import d11_unsynchronized_timers as d11
from lockstep.debugging.silent import d17_random_labels as d17
from lockstep.debugging.silent.__main__ import main
from lockstep.debugging.silent.toy import small_model, toy
from lockstep.site.pages import proof_marks
from lockstep.site.verify.normalize import normalize
from lockstep.trainer import telemetry
from lockstep.trainer.extensions.timers import PhaseTimers
from lockstep.trainer.model import DataParallel
from tests import ranks
from tests.conftest import ROOT

PAGE = ROOT / "docs/reliability/silent-failures/in-depth.md"
ALONE: dict[str, Any] = {"num_replicas": 1, "rank": 0}


def demonstrated(number: str) -> str:
    with redirect_stdout(io.StringIO()) as printed:
        main([number])
    return printed.getvalue()


def demonstration(number: str) -> str:
    """What `python -m lockstep.debugging.silent N` prints, which is checked
    against the page."""
    (printed,) = ranks.run_ranks(1, demonstrated, number)
    recorded = ROOT / f"docs/recorded/silent-{number}.txt"
    assert normalize(printed) == normalize(recorded.read_text("utf-8"))
    return str(printed)


NAMED = 2, 3, 6, 8, 12, 15  # what pages and questions cite has its own name
OTHERS = [f"{n:02}" for n in range(1, 18) if n not in NAMED]


@pytest.mark.parametrize("number", OTHERS)
def test_a_faulty_copy_shows_its_symptom(number: str) -> None:
    """Each faulty copy, when it runs, prints the symptom that the page of
    silent failures shows."""
    assert demonstration(number)


# 1


def test_counter_that_is_never_reset_is_restored_as_it_is() -> None:
    data = cast(Dataset, range(20))
    first, second = (d01.ResumableSampler(data, **ALONE) for _ in range(2))
    assert len([*first]) == 20
    second.load_state_dict(first.state_dict())
    assert len(second) == 0


# 2


def test_progress_that_counts_draws_skips_what_was_prefetched() -> None:
    """Two workers that each hold two batches of 16 ahead are 64 samples ahead.
    A counter behind its `yield` has recorded 63 of them, and a resume skips
    those."""
    assert "63 samples skipped" in demonstration("02")


def test_a_reset_by_draws_comes_before_the_last_step() -> None:
    """After 1,249 of 1,250 steps, the epoch would be trained again."""
    data = cast(Dataset, range(20_000))
    sampler = d02.ResumableSampler(data, **ALONE)
    loader = DataLoader(data, 16, sampler=sampler, num_workers=2)
    trained = sum(len(batch) for batch in islice(loader, 1249))
    again = d02.ResumableSampler(data, **ALONE)
    again.load_state_dict(sampler.state_dict())
    assert (trained, sampler.consumed, len(again)) == (19_984, 0, 20_000)


# 3


def test_checkpoint_with_numpy_state_is_never_restored() -> None:
    assert "restore: UnpicklingError" in demonstration("03")


def restored_by_trust(path: Path) -> bool:
    """Whether torch draws the same number after a restore as after the save,
    with what `torch.load` did before 2.6, by its own switch."""
    os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters())
    d03.save_checkpoint(path, model, optimizer, step=1)
    expected = np.random.random(), torch.rand(()).item()
    d03.load_checkpoint(path, model, optimizer)
    return expected == (np.random.random(), torch.rand(()).item())


def test_numpy_state_loads_once_pickles_are_trusted(tmp_path: Path) -> None:
    """The broken checkpoint with a NumPy state loads only if pickles are
    trusted, which is what the defect is."""
    assert ranks.run_ranks(1, restored_by_trust, tmp_path / "ckpt.pt") == [True]


# 5


def digest_with_rank() -> str:
    return d05.TrainConfig().digest()


def test_digest_that_holds_the_rank_differs_by_rank() -> None:
    assert len({*ranks.run_ranks(2, digest_with_rank)}) == 2


# 6


def test_padding_in_evaluation_makes_a_wrong_metric() -> None:
    """One right answer of 1,001 becomes two of 1,002."""
    evaluated = re.search(r"evaluated: (.*)", demonstration("06"))
    assert evaluated
    assert float(evaluated[1]) == pytest.approx(2 / 1002, abs=5e-7)


# 8


def formats_without_a_scaler() -> set[str]:
    seen = see_output_dtypes()
    model, (x, y) = small_model(), toy()
    d08.train_step(model, torch.optim.AdamW(model.parameters()), None, x, y)
    return seen


def test_autocast_by_scaler_computes_in_bf16_unasked() -> None:
    assert "logits torch.bfloat16" in demonstration("08")
    found = ranks.run_ranks(1, formats_without_a_scaler)
    assert found == [{"torch.float32"}]


# 10


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


# 11


def reads_with_item() -> list[int]:
    reads = count_host_reads_per_step()
    model, (x, y) = small_model(), toy(64)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(6):
        d11.train_step(model, optimizer, x, y, d11.PhaseTimers())
    return reads


def test_item_at_every_step_reads_for_the_log() -> None:
    assert ranks.run_ranks(1, reads_with_item)[0][2:] == [2, 2, 2, 2]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_phases_hold_their_kernels_on_a_gpu() -> None:
    """The trainer's timers book each phase's kernels on a real GPU, and the
    copy's don't. The clock rate may drift by some percent within a step: hence
    a tenth of the whole."""
    a = torch.randn(4096, 4096, device="cuda")
    out = torch.empty_like(a)

    def work(units: float) -> None:
        for _ in range(int(20 * units)):
            torch.mm(a, a, out=out)

    def read() -> float:
        return out[0, 0].item()

    def shares(seconds: dict[str, float]) -> dict[str, float]:
        return {name: s / sum(seconds.values()) for name, s in seconds.items()}

    def step(phase: Callable[[str], Any]) -> None:
        for name, units in KERNELS.items():
            with phase(name):
                work(units)
                if name == "optimizer":
                    read()

    work(1)
    read()  # the library is loaded, the clock is up
    kernels = pytest.approx(shares(KERNELS), abs=0.1)
    timers, copy = PhaseTimers(a.device, DataParallel()), d11.PhaseTimers()
    telemetry.attach(timers)
    try:
        step(telemetry.phase)
    finally:
        telemetry.attach()
    assert shares(timers.seconds()) == kernels
    step(copy.phase)
    assert shares(copy.seconds) != kernels


# 12


def test_nccl_by_default_runs_nothing_without_a_gpu() -> None:
    assert demonstration("12").startswith("nccl: refused\ngloo: joined")


# 15


def test_untimed_phases_put_a_loaders_time_on_another_ranks_steps() -> None:
    """The phases of the rank that waits fill its epoch, most of all `backward`;
    those of the rank with the slow loader don't."""
    printed = demonstration("15")
    assert not re.search("load|sync|checkpoint", printed)
    waiting, slow = (
        {name: float(s) for name, s in re.findall(r"(\w+) ([\d.]+) s", line)}
        for line in printed.splitlines()
    )
    timed = [sum(s.values()) / s["epoch"] - 1 for s in (waiting, slow)]
    assert timed[1] < 0.5 < timed[0]
    assert waiting["backward"] > waiting["optimizer"]


# 17


def test_random_labels_are_read_as_a_data_set() -> None:
    copy = d17.ToyClassification()
    x, y = next(iter(DataLoader(copy, len(copy))))
    assert x.equal(copy.x)
    assert y.equal(copy.y)


# The page


def section(number: int) -> str:
    """What the page says of one failure."""
    text = PAGE.read_text("utf-8")
    return text.partition(f"{{ #d{number:02} }}")[2].partition("\n## ")[0]


def test_every_failure_is_proven_by_a_test_of_the_trainer() -> None:
    """Each of the seventeen sections has a mark that names a test of the
    trainer's."""
    for number in range(1, 18):
        tests = proof_marks.cited(section(number), ROOT)
        assert any(t.path.startswith("tests/trainer/") for t in tests), number


def test_every_faulty_copy_is_on_the_page() -> None:
    copies = sorted((ROOT / "code/lockstep/debugging/silent").glob("d??_*.py"))
    assert len(copies) == 17
    for number, path in enumerate(copies, 1):
        assert f"{path.name}:copy" in section(number).partition("\n### ")[0]
