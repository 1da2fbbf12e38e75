"""What a run is: settings that check themselves, and the run's identity."""

import os
import re
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields, replace
from itertools import product
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.trainer.config import ConfigError, TrainConfig, require_same
from tests.jobs import command

RUN = Path("run")
LARGE = 2**63 - 1

# Every field once: the values at its ends, what lies past them, another value
# than its default, and what a change means ("run": another run, "launch": only
# another launch). A new field has to choose.
NUMBERS: dict[str, tuple[list[Any], list[Any], str]] = {
    "seed": ([0, LARGE], [-1, LARGE + 1], "run"),
    "global_batch_size": ([1, 10**6], [0, -4, 10**9 + 1], "run"),
    "micro_batch_size": ([1, 10**9], [0, -1, 10**9 + 1], "launch"),
    "grad_accum_steps": ([1, 10**9], [0, -1, 10**9 + 1], "launch"),
    "max_epochs": ([1, 10**9], [0, -1, 10**9 + 1], "run"),
    "max_steps": ([1, 10**9], [0, -1, 10**9 + 1], "run"),
    "stop_at_step": ([1, 10**9], [0, -1, 10**9 + 1], "launch"),
    "learning_rate": ([1e-9, 10.0], [0.0, -1e-3, nan, inf, -inf], "run"),
    "weight_decay": ([0.0, 1.0], [-1e-9, nan, inf, -inf], "run"),
    "warmup_steps": ([0, 10**9], [-1, 10**9 + 1], "run"),
    "clip_norm": ([1e-9, 1e9], [0.0, -1.0, nan, inf, -inf], "run"),
    "hidden_size": ([1, 10**4], [0, -1, 10**9 + 1], "run"),
    "dropout": ([0.0, 0.99], [-0.01, 1.0, nan, inf, -inf], "run"),
    "feature_dropout": ([0.0, 0.99], [-0.01, 1.0, nan, inf], "run"),
    "num_workers": ([0, 64], [-1, 10**9 + 1], "launch"),
    "checkpoint_every_steps": ([1, 10**9], [0, -1, 10**9 + 1], "launch"),
    "keep_checkpoints": ([1, 10**9], [0, -1, 10**9 + 1], "launch"),
    "log_every_steps": ([1, 10**9], [0, -1, 10**9 + 1], "launch"),
    "timeout_seconds": ([0.1, 1e9], [0.0, -1.0, nan, inf, 2e9], "launch"),
}
WORDS: dict[str, tuple[list[Any], list[Any], str]] = {
    "dataset": (["digits", "toy"], ["", "mnist", "Digits"], "run"),
    "precision": (["fp32", "bf16", "fp16"], ["", "fp8", "tf32"], "run"),
}
PLACES: dict[str, tuple[list[Any], list[Any], str]] = {
    "run_dir": ([Path("elsewhere"), Path("/run")], [], "launch"),
    "task": (["", "mine:task"], [], "run"),
}
FIELDS = NUMBERS | WORDS | PLACES


def config(**settings: Any) -> TrainConfig:
    return TrainConfig(**{"run_dir": RUN} | settings)


def test_every_field_is_in_the_table() -> None:
    assert {f.name for f in fields(TrainConfig)} == set(FIELDS)


@pytest.mark.parametrize("name", FIELDS)
def test_good_values_are_accepted(name: str) -> None:
    for value in FIELDS[name][0]:
        assert getattr(config(**{name: value}), name) == value


@pytest.mark.parametrize("name", NUMBERS | WORDS)
def test_bad_values_are_refused_with_the_flag_and_what_is_accepted(
    name: str,
) -> None:
    flag = "--" + name.replace("_", "-")
    for value in FIELDS[name][1]:
        with pytest.raises(ConfigError) as refused:
            config(**{name: value})
        said = str(refused.value)
        assert said.startswith(f"{flag} is {value!r}; it must be ")
        accepted = said.partition("it must be ")[2]
        if name in WORDS:
            assert accepted.split(" or ") == FIELDS[name][0]
        else:  # the ends that it names are accepted, and are the ends
            ends = re.fullmatch(r"from (\S+) to (\S+)", accepted)
            assert ends
            least, most = (
                float(end) if "." in end or "e" in end else int(end)
                for end in ends.groups()
            )
            assert least == FIELDS[name][0][0]
            assert config(**{name: least})
            assert config(**{name: most})


def test_length_is_given_once() -> None:
    assert config().max_epochs == 20
    assert config().max_steps is None
    assert config(max_steps=7).max_epochs is None
    assert config(max_epochs=7).max_steps is None
    with pytest.raises(ConfigError, match="--max-epochs or --max-steps"):
        config(max_epochs=1, max_steps=1)


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        config().seed = 1  # type: ignore[misc]


def another(name: str) -> TrainConfig:
    """A configuration in which `name` alone is not the default."""
    default = getattr(config(), name)
    return config(**{name: next(v for v in FIELDS[name][0] if v != default)})


@pytest.mark.parametrize("name", FIELDS)
def test_the_digest_changes_with_what_decides_the_training(name: str) -> None:
    """And with nothing else: topology, place and cadence may change."""
    same = another(name).digest() == config().digest()
    assert same == (FIELDS[name][2] == "launch")


def test_the_digest_is_one_value_in_every_process() -> None:
    """Python salts hash(); a digest that rested on it could detect nothing."""
    script = "from pathlib import Path; from lockstep.trainer.config import *;"
    script += "print(TrainConfig(run_dir=Path('run'), seed=3).digest())"
    for salt in ("1", "2"):
        for rank in ("0", "1"):
            given = {"PYTHONHASHSEED": salt, "RANK": rank, "LOCAL_RANK": rank}
            done = subprocess.run(
                [sys.executable, "-c", script],
                env=os.environ | given,
                capture_output=True,
                text=True,
                check=True,
            )
            assert done.stdout.strip() == config(seed=3).digest()


def test_the_digest_is_a_sha256() -> None:
    assert re.fullmatch("[0-9a-f]{64}", config().digest())


@pytest.mark.parametrize(
    "name", [name for name in FIELDS if FIELDS[name][2] == "run"]
)
def test_a_changed_identity_is_refused_by_name(name: str) -> None:
    """A launch that changes a setting of the run is refused, with the flag, its
    value and the value that the run began with."""
    began = config().for_launch(2, {}).identity()
    if name == "max_steps":  # it changes --max-epochs too, which comes first
        name, now = "max_epochs", config(max_steps=7)
    else:
        now = another(name)
    with pytest.raises(ConfigError) as refused:
        now.for_launch(2, began)
    said, flag = str(refused.value), "--" + name.replace("_", "-")
    assert said.startswith(f"{flag} is {getattr(now, name)!r}; ")
    assert f"it must be {began[name]!r}" in said


@pytest.mark.parametrize(
    "name", [name for name in FIELDS if FIELDS[name][2] == "launch"]
)
def test_launch_settings_may_change_at_the_same_batch(name: str) -> None:
    """Per-launch settings may change as long as the global batch stays the
    same."""
    began = config(global_batch_size=32).for_launch(1, {}).identity()
    now = another(name)
    assert now.for_launch(1, began).identity() == began


def test_a_setting_that_is_gone_is_refused() -> None:
    with pytest.raises(ConfigError, match="--color is None"):
        require_same({}, {"color": "red"})


RANKS = re.compile(r"a number of ranks that divides (\d+)$")
SETTING = re.compile(r"--micro-batch-size (\d+) --grad-accum-steps (\d+)$")


def follow_advice(cfg: TrainConfig, said: str) -> TrainConfig:
    found = SETTING.search(said)
    assert found, said
    micro, accum = map(int, found.groups())
    return replace(cfg, micro_batch_size=micro, grad_accum_steps=accum)


def test_batch_rule_refuses_with_a_valid_setting() -> None:
    """A launch is accepted if and only if its product is the run's batch, and
    every refusal names a setting that is accepted."""
    refusals = 0
    accums, batches = [None, 1, 2, 3, 4], [None, *range(1, 25)]
    for world, micro, accum, batch, later in product(
        range(1, 6), range(1, 6), accums, batches, (False, True)
    ):
        given: dict[str, Any] = {
            "micro_batch_size": micro,
            "grad_accum_steps": accum,
        }
        began: dict[str, Any] = {}
        if later and batch:  # the batch is what the first launch wrote down
            began = config(global_batch_size=batch).identity()
        else:
            given["global_batch_size"] = batch
        cfg = config(**given)
        fits = accum or (batch or 0) // (micro * world)
        holds = batch is None or micro * fits * world == batch
        try:
            got = cfg.for_launch(world, began)
        except ConfigError as error:
            refusals += 1
            assert not holds
            said = str(error)
            if ranks := RANKS.search(said):
                assert int(ranks[1]) == batch
                assert batch % world
                check_ranks(replace(cfg, grad_accum_steps=None), batch, began)
            else:
                again = follow_advice(cfg, said)
                accepted = again.for_launch(world, began)
                assert accepted.global_batch_size == batch
        else:
            assert holds
            product_ = (
                got.micro_batch_size * (got.grad_accum_steps or 0) * world
            )
            assert product_ == got.global_batch_size
            assert got.micro_batch_size == micro
            assert accum in (None, got.grad_accum_steps)
            assert batch in (None, got.global_batch_size)
    assert refusals > 1000


def check_ranks(cfg: TrainConfig, batch: int, began: dict[str, Any]) -> None:
    """With any number of ranks that divides the batch, the launch is accepted,
    or refused with micro-batch and accumulation that are."""
    for world in range(1, batch + 1):
        if batch % world == 0:
            try:
                cfg.for_launch(world, began)
            except ConfigError as error:
                follow_advice(cfg, str(error)).for_launch(world, began)


positive = st.integers(1, 1000)


@given(positive, positive, st.integers(1, 512))
def test_an_omitted_batch_and_accumulation_are_derived(
    micro: int, accum: int, world: int
) -> None:
    """The first launch makes the batch; a later one of any topology that can
    keep it derives its accumulation."""
    first = config(micro_batch_size=micro, grad_accum_steps=accum)
    first = first.for_launch(world, {})
    assert first.global_batch_size == micro * accum * world
    began = first.identity()
    later = config(micro_batch_size=micro).for_launch(1, began)
    assert later.grad_accum_steps == accum * world
    assert later.identity() == began


BAD = {
    "--micro-batch-size 0": "--micro-batch-size is 0",
    "--precision fp8": "fp32",
    "--dropout 1.5": "--dropout is 1.5",
    "--max-steps 5 --max-epochs 5": "--max-epochs or --max-steps",
    "--global-batch-size 5000 --micro-batch-size 5000": "1437",
    "--global-batch-size 65": "--micro-batch-size 13 --grad-accum-steps 5",
    "--no-such-flag": "--no-such-flag",
}


@pytest.mark.parametrize("settings", BAD)
def test_bad_settings_end_with_code_two(settings: str, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    code, said = command("--run-dir", str(run_dir), *settings.split())
    assert code == 2
    assert BAD[settings] in said
    assert not (run_dir / "run.json").exists()
