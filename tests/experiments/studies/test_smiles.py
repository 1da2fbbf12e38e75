"""The recorded million is whole, and the page's claims follow from it."""

import json
from pathlib import Path

import numpy as np
import pytest

from lockstep.bio.datasets import chembl, nci
from lockstep.bio.smiles.prepare import prepare
from lockstep.bio.smiles.store import SHARD
from lockstep.experiments.studies import smiles as study

FOUND = json.loads(study.RESULT.read_text())
PAGE = Path("docs/biotech/billion-smiles.md").read_text("utf-8")
TEXT = " ".join(PAGE.split())


def said(text: str) -> bool:
    return text in TEXT


def test_it_is_whole() -> None:
    made = FOUND["prepared"]
    assert made["lines"] == study.MOSES + len(chembl().smiles) + len(nci())
    assert (
        made["lines"]
        == made["refused"] + made["again"] + made["train"] + made["test"]
    )
    assert len(FOUND["formats"]) == 4
    assert FOUND["revision"]
    assert said(f"{made['lines']:,} real lines")
    rendered = study.RESULT.with_suffix(".md").read_text()
    for part in ("disk", "core", "node", "wrong", "killed"):
        assert getattr(study, part)(FOUND) in rendered


def test_a_billion_is_forty_gigabytes_and_packs_to_a_fifth() -> None:
    """In the recorded study mapped tokens take 40 GB for a billion molecules,
    Parquet takes about a fifth of that, and reading a cached row from it costs
    700 times the CPU time."""
    mapped = FOUND["formats"]["tokens and ends, mapped"]
    packed = FOUND["formats"]["Parquet, zstd"]
    assert round(mapped["bytes"]) == 40
    assert packed["bytes"] / mapped["bytes"] == pytest.approx(0.22, abs=0.02)
    slower = packed["cached_cpu"] / mapped["cached_cpu"]
    assert slower == pytest.approx(700, rel=0.1)
    others = [one["bytes"] for one in FOUND["formats"].values()]
    assert sorted(others)[1] == mapped["bytes"]


def test_to_canonicalise_costs_a_hundred_times_the_tokens() -> None:
    rates = FOUND["rates"]["rates"]
    assert 80 < rates["tokenise"] / rates["canonicalise"] < 200


def test_duplicates_are_counted() -> None:
    """The page's counts of duplicates by text, by name and by structure are
    those of the recorded study."""
    found, made = FOUND["duplicates"], FOUND["prepared"]
    by_text = found["lines"] - found["text"]
    by_name = made["again"] - by_text
    assert said(f"{by_text} lines repeat another")
    assert said(f"{by_name} more")
    assert said(f"{found['rewritten']} of MOSES's million")
    assert found["keyed"] - found["keys"] == 1
    assert said(f"one more in {found['keyed']:,}. Without stereo, 59")
    assert found["keyed"] - found["skeletons"] == 59
    assert found["sorted"]["left"] == found["canonical"]
    assert said(f"{found['set_bytes'] / 1e6:.0f} MB here")
    each = found["set_bytes"] / found["canonical"]
    assert said(f"and {each:.0f} GB for a billion")
    assert said(f"took {found['merged_32']} molecules for others")
    assert round(found["expected_64"], 2) == 0.03
    assert found["merged_32"] == pytest.approx(found["expected_32"], rel=0.2)


def test_the_order_is_found_at_once_and_whole() -> None:
    found = FOUND["order"]
    assert found["n"] == 10**9
    assert found["missing"] == 0
    assert found["lists"] == 10**8
    first = f"{found['keyed']['seconds'] * 1e3:.0f} ms"
    size = f"{found['keyed']['bytes'] / 2**20:.0f} MiB"
    assert said(f"first batch after {first} and {size}")
    assert said(f"of the epoch takes {found['seek'] * 1e3:.1f} ms")
    theirs = found["torch"]
    seconds, size = theirs["seconds"], theirs["bytes"] / 2**30
    assert 100 * max(found["keyed"]["seconds"], found["seek"]) < seconds
    assert said(f"took {seconds:.1f} s and {size:.1f} GiB at 10⁸")


def test_reads_that_are_not_cached_take_a_day() -> None:
    one = FOUND["formats"]["lines, and an index of ends"]["uncached"] / 256
    assert said(f"a line took {one * 1e3:.1f} ms here")
    hours = round(one * 1e9 / 3600)
    assert said(f"which is {hours} hours for a billion")


def test_a_buffer_of_ten_thousand_leaves_a_sorted_million_sorted() -> None:
    found = FOUND["sorted"]["orders"]
    lies, buffer, keyed = found.values()
    assert buffer["trend"] > 0.999 > 0.01 > abs(keyed["trend"])
    assert lies["first"] < buffer["first"] < 0.7 * FOUND["sorted"]["mean"]
    assert keyed["first"] == pytest.approx(FOUND["sorted"]["mean"], rel=0.03)


def test_what_a_million_hides() -> None:
    """The page's figures of what goes wrong beyond a million molecules, such as
    32-bit offsets that wrap, are those of the recorded study."""
    found = FOUND["billion"]
    wraps = found["int32"]
    assert said(f"at molecule {wraps['first']:,}")
    assert said(f"Of the {wraps['others'] / 1e6:.1f} million behind it")
    assert wraps["empty"] == 1
    assert wraps["first"] + wraps["empty"] + wraps["others"] == wraps["of"]
    assert said(f"own {found['list_bytes'] / 1e6:.0f} MB here")
    each = found["list_bytes"] / found["molecules"]
    assert said(f"which is {each:.0f} GB of a billion")
    assert found["map_bytes"] < 0.02 * found["list_bytes"]


def test_cores_and_cost_are_the_planners() -> None:
    plan = study.planned(FOUND, "small")
    cores = study.workers(FOUND, "small", "canonicalise")
    assert said(f"keep {round(8 * cores)} cores of a node busy")
    assert said(f"costs a small model {plan['cost'].value:.0f} where")
    assert study.PRICE == 2
    assert 24 * plan["days"].value == pytest.approx(0.5, abs=0.1)
    assert study.workers(FOUND, "small", "read and collate") < 0.25
    for model in study.MODELS:
        plan = study.planned(FOUND, model)
        assert plan["total_bytes"].value < plan["memory"]
    assert study.planned(FOUND, "small")["total"].value == pytest.approx(
        46.8e6, rel=0.1
    )
    assert study.planned(FOUND, "large")["total"].value == pytest.approx(
        1.2e9, rel=0.02
    )


def test_the_killed_epoch_is_proven() -> None:
    found = FOUND["epoch"]
    assert found["proven"]
    assert found["finished"]
    assert found["restarts"] == found["epochs"] == 1
    assert found["samples"] == FOUND["prepared"]["train"] > 10**6
    assert (found["duplicates"], found["missing"]) == (0, 0)
    assert found["restored"] < found["killed"] < found["steps"]
    assert said(f"in step {found['killed']}:")
    lost = found["killed"] - 1 - found["restored"]
    assert found["replayed_steps"] == lost
    assert said(f"the {lost} steps that were lost")


def test_shards_are_few() -> None:
    """A molecule's own share of a billion, in shards and in small files."""
    assert said(f"are {-(-(10**9) // SHARD)}, and files")
    assert said(f"{10**9 // 5000:,} to list")


def test_the_study_runs_on_a_few_molecules(tmp_path, monkeypatch) -> None:
    """All parts but the launch, which test_smiles_train.py has."""
    rows = [*nci()[:500], *nci()[:20], "C1CC"]
    monkeypatch.setattr(study, "lines", lambda: rows)
    monkeypatch.setattr(study, "MOSES", 300)
    monkeypatch.setattr(study, "GROUP", 100)
    monkeypatch.setattr(study, "alone", lambda *_: {"seconds": 1, "bytes": 2})
    done = study.prepared(tmp_path)
    monkeypatch.setattr(study, "prepare", None)
    assert study.prepared(tmp_path) == done  # read, and not made again
    assert done["refused"] == 1
    texts = [text for text, _ in study.once(tmp_path)]
    assert len(texts) == done["train"] + done["test"]
    found = study.duplicates(tmp_path, keyed=200)
    assert found["lines"] - found["text"] >= 20
    assert found["sorted"]["left"] == len(texts) == found["canonical"]
    assert found["skeletons"] <= found["keys"] <= found["keyed"]
    for name, one in study.formats(tmp_path, texts, rounds=2).items():
        assert one["bytes"] > 5, name
    assert study.rates(tmp_path, texts, 256)["tokens"] > 10
    assert study.sorted_by_size(tmp_path, 10)["molecules"] == done["train"]
    assert study.billion(tmp_path, texts, copies=1)["int32"]["first"] == -1
    whole = study.order(n=5000, lists=10)
    assert whole["missing"] == 0


def test_readers_give_the_molecules_that_were_asked(tmp_path) -> None:
    prepare(nci()[:300], tmp_path)
    texts = [text for text, _ in study.once(tmp_path)]
    ids = np.array([5, 200, 5, 0])
    for name, opened, _ in study.written(tmp_path, texts):
        found = opened()(ids)
        if name.startswith("lines"):
            assert [one.decode().strip() for one in found] == [
                texts[i] for i in ids
            ]
