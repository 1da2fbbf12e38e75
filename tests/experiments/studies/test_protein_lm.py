"""The recorded run is whole, and the page's claims follow from it."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from lockstep.bio.masks_across_ranks import proteins
from lockstep.bio.protein_lm import Settings, unigram
from lockstep.experiments.studies import protein_lm as study
from lockstep.planner.questions import ask

FOUND = json.loads(study.RESULT.read_text())


def test_it_is_whole() -> None:
    how = FOUND["settings"]
    assert {k: how[k] for k in asdict(study.SETTINGS)} == asdict(study.SETTINGS)
    rows = np.array(FOUND["curve"]["rows"])
    assert rows[:, 0].tolist() == [1, *range(study.EVERY, 801, study.EVERY)]
    assert rows[-1, 2:].tolist() == FOUND["held out"]
    assert {*FOUND["equal"]} == {*study.MESHES}
    assert {*FOUND["errors"]} == {*study.WRONG}
    train, test = study.sides(study.SETTINGS.length)
    assert FOUND["proteins"] == {"train": len(train), "held out": len(test)}
    assert FOUND["revision"]
    assert study.RESULT.with_suffix(".md").read_text() == "\n".join(
        f"<!-- --8<-- [start:{one.__name__}] -->\n{one(FOUND)}"
        f"<!-- --8<-- [end:{one.__name__}] -->\n"
        for one in (study.losses, study.meshes, study.wrong, study.machine)
    )


def test_hidden_residues_are_told_better_than_by_their_frequencies() -> None:
    gain, low, high = FOUND["gain"]
    assert gain == pytest.approx(FOUND["unigram"][0] - FOUND["held out"][0])
    assert [round(x, 3) for x in (gain, low, high)] == [0.031, 0.025, 0.038]


def test_most_of_what_the_mean_gains_is_copied() -> None:
    """Seven eighths of the gain over residue frequencies are at residues that
    the model sees and copies."""
    hidden, shown = FOUND["counts"] * np.subtract(
        FOUND["unigram"], FOUND["held out"]
    )
    assert shown / (hidden + shown) == pytest.approx(7 / 8, abs=0.01)


def test_labels_drawn_apart_from_inputs_train_well_and_teach_little() -> None:
    """In the recorded study, labels from another rank's draw bring the training
    loss down to 0.45, and a held-out loss worse than that of residue
    frequencies."""
    rows = FOUND["apart"]["rows"]
    assert rows[-1][0] == 200
    assert round(rows[-1][1], 2) == 0.45
    assert round(rows[-1][2], 2) == 2.84
    assert rows[-1][3] > FOUND["unigram"][1]  # worse than to know nothing
    right = {row[0]: row for row in FOUND["curve"]["rows"]}
    assert right[200][1] > 2.6


def test_every_mesh_is_one_process() -> None:
    for mesh in FOUND["equal"].values():
        assert mesh["loss"] < 1e-6
        assert mesh["weights"] < 1e-6


def test_errors_spare_the_loss() -> None:
    errors = FOUND["errors"]
    for name, wrong in errors.items():
        assert wrong["loss"] < 0.003
        assert (wrong["gradient"] > 0.03) == (name != "nothing")
    assert errors["nothing"]["gradient"] < 1e-6


def test_a_short_study_runs_and_is_written(tmp_path, monkeypatch) -> None:
    """Without its meshes, which are tested elsewhere."""
    monkeypatch.setattr(study, "EVERY", 2)
    monkeypatch.setattr(study, "MESHES", {})
    monkeypatch.setattr(study, "WRONG", {})
    monkeypatch.setattr(study, "in_a_group", lambda *_: [(1.0, 1, 1)])
    monkeypatch.setattr(
        study, "sides", lambda _: (proteins()[:40], proteins()[40:50])
    )
    threads = torch.get_num_threads()
    small = Settings(hidden=8, layers=1, heads=2, length=32, batch=4, steps=8)
    try:
        study.main(small, 1, tmp_path / "a.json")
    finally:
        torch.set_num_threads(threads)
    found = json.loads((tmp_path / "a.json").read_text())
    assert [row[0] for row in found["curve"]["rows"]] == [1, 2, 4, 6, 8]
    assert "8 steps of 4 crops" in (tmp_path / "a.md").read_text()


def test_labels_apart_are_of_the_same_crops() -> None:
    s = replace(study.SETTINGS, length=32, batch=64)
    batch = next(study.apart(proteins(), s))
    asked = batch.labels >= 0
    seen = (batch.inputs == batch.labels)[asked].double().mean()
    assert seen == pytest.approx(0.865, abs=0.05)
    score = unigram(proteins())(batch.inputs, batch.positions)
    assert score.shape == (batch.inputs.numel(), 20)


def test_a_long_protein_fits_on_eight_ranks_and_not_on_one() -> None:
    asked = {"preset": "esm2-3b", "gpus": 64, "zero_stage": 3}
    asked |= {"sequence": 32768, "global_batch": 64, "hardware": "h100"}
    asked |= {"whiteboard": True}
    kept = [
        ask("run", asked | {"cp": cp})["total_bytes"].value for cp in (1, 8)
    ]
    assert kept[0] > 80e9 > 4 * kept[1]
    asked |= {"sequence": 1024, "global_batch": 2048, "micro_batch": 8}
    for size in ("650m", "3b", "15b"):
        found = ask("run", asked | {"preset": f"esm2-{size}"})
        assert found["total_bytes"].value < 80e9
        share = found["activations_bytes"].value / found["total_bytes"].value
        assert share > 0.9
