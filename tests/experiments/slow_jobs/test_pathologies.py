"""Each pathology shows with its defect, and is gone once it is fixed.

What is asserted is counted, is CPU time, or is longer than a sleep: other work
on the machine does not change it.
"""

import importlib
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch

from lockstep.experiments.slow_jobs import (
    __main__,
    accumulate,
    bucket,
    jitter,
    measuring,
    outside,
    padding,
    reads,
    recompiles,
    saves,
    skew,
)
from lockstep.trainer.process import joined
from tests import ranks

pytestmark = pytest.mark.xdist_group("pathologies")  # each is run once


def on_this_rank(name: str, folder: str) -> Any:
    with joined(60, ranks.store()):
        module = importlib.import_module(
            f"lockstep.experiments.slow_jobs.{name}"
        )
        return module.measured(folder)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """What the ranks of a pathology answered."""
    kept: dict[str, Any] = {}

    def ask(name: str) -> Any:
        if name not in kept:
            module = importlib.import_module(
                f"lockstep.experiments.slow_jobs.{name}"
            )
            folder = str(tmp_path_factory.mktemp(name))
            kept[name] = ranks.run_ranks(
                module.RANKS, on_this_rank, name, folder
            )
        return kept[name]

    return ask


def test_a_starved_loader_has_most_cpu_time(found: Any) -> None:
    for rank in found("loader"):
        cpu = rank["cpu"]
        assert measuring.leads(cpu["slow"]) == "load"
        for mended in ("one batch", "mended"):
            assert 10 * cpu[mended]["load"] < cpu["slow"]["load"]


def test_lateness_follows_the_share(found: Any) -> None:
    answers = found("skew")
    assert skew.busiest(answers, "slow") == (1, pytest.approx(1.8, abs=0.05))
    assert skew.busiest(answers, "swapped")[0] == 0
    assert skew.busiest(answers, "mended")[1] < 1.05


def test_means_by_rank_hide_who_is_late_in_turns(found: Any) -> None:
    in_all, by_step = jitter.over_mean(found("jitter"), "slow")
    assert in_all < 1.01
    assert by_step > 1.5
    assert max(jitter.over_mean(found("jitter"), "mended")) < 1.01


def test_both_orders_train_on_the_same_samples() -> None:
    orders = []
    for trainer in (jitter.Jitter, jitter.Mended):
        one = trainer.__new__(trainer)
        one.lines = [one.line(i) for i in range(one.samples)]
        orders.append(one.dealt())
    assert sorted(orders[1]) == orders[0] != orders[1]


def test_spikes_move_with_the_interval(found: Any) -> None:
    for rank in found("saves"):
        held = {name: steps for name, (_, steps) in rank.items()}
        assert held == {
            "slow": [6, 12, 18, 24],
            "doubled": [12, 24],
            "mended": [],
        }
        longest = max(s.get("checkpoint", 0) for s in rank["slow"][0].values())
        assert longest > saves.SECONDS


def test_what_is_saved_in_the_background_is_published(
    found: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found("saves")
    (run,) = tmp_path_factory.getbasetemp().glob("saves[0-9]/mended")
    assert len([*run.glob("checkpoints/step-*")]) >= 2


def test_without_no_sync_each_micro_batch_reduces_all(found: Any) -> None:
    for rank in found("accumulate"):
        (once,) = rank["mended"]
        assert rank["slow"] == [once] * accumulate.MICRO_BATCHES


def test_reducing_each_time_trains_the_same(found: Any) -> None:
    """Reducing gradients in every micro-batch ends with the fixed job's
    weights but for the order of additions."""
    rank, _ = found("accumulate")
    slow, mended = rank["weights"].values()
    assert slow == pytest.approx(mended, abs=1e-5)
    assert slow != mended  # another order of additions


def test_one_bucket_has_no_backward_to_hide_behind(found: Any) -> None:
    for rank in found("bucket"):
        assert bucket.hidden(rank["slow"]) == (1, 6, 0)
        calls, every, later = bucket.hidden(rank["mended"])
        assert (calls, every) == (2, 6)
        assert later > 0


def test_a_logged_norm_is_a_host_read_of_each_layer(found: Any) -> None:
    (reads,) = found("reads")
    assert reads == {"slow": 7, "mended": 1}


def test_kept_norms_are_read_together() -> None:
    norms = reads.Kept()
    norms.log(torch.tensor(1.0))
    norms.log(torch.tensor(2.0))
    assert norms.lines() == [1, 2]
    assert norms.kept == []


def test_small_operations_cost_their_calls(found: Any) -> None:
    (answer,) = found("tiny")
    counts, cpu = answer["operations"], answer["seconds"]
    assert counts["slow"] == counts["slow, twice the batch"]
    assert 2 * counts["mended"] < counts["slow"]
    assert cpu["mended"] < 0.75 * cpu["slow"]
    for name, low, high in (("slow", 0, 1.4), ("wide", 1.4, 3)):
        assert low < cpu[name + ", twice the batch"] / cpu[name] < high


def test_like_lengths_waste_less(found: Any) -> None:
    (shares,) = found("padding")
    for before, after in zip(shares["slow"], shares["mended"], strict=True):
        assert before < 0.5
        assert after > 1.5 * before
    lengths = padding.drawn()
    for batches in (padding.in_order(lengths), padding.alike(lengths)):
        assert sorted(chain(*batches)) == sorted(lengths)


def test_a_number_that_changes_is_compiled_until_torch_gives_up(
    found: Any,
) -> None:
    (graphs,) = found("recompiles")
    compiled, ran = graphs["a Python counter"]
    assert compiled == ran < recompiles.CALLS
    assert graphs["lengths, dynamic=False"] == (compiled, ran)
    assert graphs["a buffer"] == (1, recompiles.CALLS)
    assert graphs["lengths"] == (2, recompiles.CALLS)
    assert graphs["a branch on data"] == (2, recompiles.CALLS)


def test_what_no_phase_has_shows_as_the_rest(found: Any) -> None:
    rank0, rank1 = found("outside")
    assert rank0["slow"]["other"] > outside.SECONDS
    assert rank1["slow"]["sync"] > outside.SECONDS / 2
    assert rank0["mended"]["other"] < rank0["slow"]["other"] / 2


def test_phases_of_a_step_add_up_to_it() -> None:
    phases = {"load": 1.0, "backward": 5.0, "sync": 4.0, "sync_exposed": 2.0}
    took = measuring.parted({"phases": phases, "step_seconds": 9.0})
    assert took == {"load": 1, "backward": 3, "sync": 2, "other": 3}
    shown = measuring.columns(took | {"forward": 1.0, "save": 4.0})
    assert (shown["compute"], shown["other"]) == (4, 7)


def test_a_report_is_printed_or_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    __main__.main(("padding",))
    __main__.main(("padding",), tmp_path)
    printed = capsys.readouterr().out
    assert printed == (tmp_path / "padding.txt").read_text()
    with pytest.raises(SystemExit, match="no pathology 'heat'"):
        __main__.main(("heat",))


@pytest.mark.parametrize("name", __main__.NAMES)
def test_each_report_is_narrow_and_names_both(found: Any, name: str) -> None:
    module = importlib.import_module(f"lockstep.experiments.slow_jobs.{name}")
    lines = module.told(found(name))
    assert max(map(len, lines)) <= 80
    if name != "recompiles":
        assert any(line.startswith("slow") for line in lines)
        assert any(line.startswith("mended") for line in lines)
