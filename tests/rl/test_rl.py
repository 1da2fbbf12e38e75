"""Two roles: what is published, refused, weighed, and asked again."""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from lockstep.rl import __main__ as command
from lockstep.rl.audit import audit, lineage, ratios, reward
from lockstep.rl.policy import Policy, begin, extend, surrogate
from lockstep.rl.roles import by_lag, draws, play
from lockstep.rl.schedule import (
    ROUNDS,
    Prompt,
    Run,
    Schedule,
    prompt,
    simulate,
)
from lockstep.rl.weight_versions import load_verified, publish
from lockstep.trainer.checkpoint import published, verify
from lockstep.trainer.config import ConfigError
from lockstep.trainer.process import joined
from lockstep.trainer.telemetry import Observer, attach
from tests import ranks


def job(cfg: Run, root: Path, kill_round: int) -> None:
    with joined(60, ranks.store()):
        play(cfg, root, kill_round)


def run(cfg: Run, root: Path, kill_round: int = -1) -> Path:
    """That run in `root`, each rank a process."""
    root.mkdir(exist_ok=True)
    ranks.run_ranks(cfg.trainers + cfg.samplers, job, cfg, root, kill_round)
    return root


def test_runs_of_two_seeds_draw_different_tokens() -> None:
    """Each answer of each seed has draws of its own."""
    cases = [(seed, position) for seed in (0, 1) for position in (0, 1)]
    drawn = {
        float(torch.rand(1, generator=draws(Run(seed=seed), position)))
        for seed, position in cases
    }
    assert len(drawn) == len(cases)


# The schedule


@pytest.mark.parametrize("samplers", [1, 2])
@pytest.mark.parametrize("max_lag", [0, 1, 4])
def test_nothing_older_than_max_lag_is_trained(
    max_lag: int, samplers: int
) -> None:
    """In 100 versions no batch has an answer older than the bound, and each
    prompt asked is in exactly one place."""
    cfg = Run(max_lag=max_lag, samplers=samplers)
    schedule, version = Schedule(cfg), 0
    oldest: dict[int, int] = {}
    settled: list[int] = []
    while version < 100:
        schedule.ask(version)
        assert len(schedule.running) <= cfg.slots * samplers
        batch = schedule.take(version)
        assert all(version - oldest[p] <= max_lag for p in batch)
        settled += batch
        version += bool(batch)
        ended = schedule.advance()
        oldest |= ended
        schedule.queue += ended.items()
    settled += schedule.refused
    # Each prompt that was asked is in one place.
    here = sorted(settled + schedule.in_flight())
    assert here == list(range(schedule.cursor))


def test_turns_leave_both_roles_idle_and_a_bound_refuses_long_answers() -> None:
    """Taking turns leaves the sampler idle for more than 60 % of the time. With
    a lag of two it idles for less than 2 %, but none of the longest answers is
    ever trained on."""
    turns = simulate(Run(max_lag=0, steps=200))
    assert turns["sampler idle"] > 0.6
    assert not turns["refused"]
    ahead = simulate(Run(max_lag=2, steps=200))
    assert ahead["sampler idle"] < 0.02
    assert ahead["rounds"] < turns["rounds"] / 3
    longest = max(ROUNDS)
    assert ahead["refused"][longest] > 0
    assert ahead["trained"][longest] == 0  # every one of them
    assert {1, 2}.isdisjoint(ahead["refused"])


def test_long_answers_are_in_flight_beyond_their_share() -> None:
    """Answers of twelve rounds are one prompt in twenty. In 400 versions they
    are more than a fifth of what is in flight when a version is made."""
    cfg, version = Run(), 0
    schedule, waiting = Schedule(cfg), Counter[int]()
    while version < 400:
        schedule.ask(version)
        if schedule.take(version):
            version += 1
            waiting.update(
                prompt(cfg, position).rounds
                for position in schedule.in_flight()
            )
        schedule.queue += schedule.advance().items()
    longest = max(ROUNDS)
    assert ROUNDS.count(longest) / len(ROUNDS) == 0.05
    assert round(waiting[longest] / waiting.total(), 2) == 0.23


# A run


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(Run(), tmp_path_factory.mktemp("rl") / "run")


def test_two_roles_learn(ran: Path) -> None:
    """A trainer and a sampler in two processes raise the reward from below 0.4
    to above 0.7."""
    first, last = reward(ran)
    assert first < 0.4  # a guess is right once in four
    assert last > 0.7


def test_the_run_follows_the_schedule_and_not_the_machine(ran: Path) -> None:
    """A real run trains, refuses and repeats exactly the prompts that its
    simulated schedule says."""
    cfg, found = Run(), audit(ran)
    planned = simulate(cfg)
    refused = [prompt(cfg, p).rounds for p in found["refused"]]
    assert len(found["trained"]) == cfg.steps * cfg.batch
    assert sorted(refused) == sorted(planned["refused"].elements())
    assert not found["twice"]
    assert not found["lost"]


def test_lag_moves_the_spread_of_the_ratio_and_not_its_mean(ran: Path) -> None:
    """The ratio of trainer to sampler probabilities spreads more with each
    version of lag, and its mean stays 1 within four standard errors."""
    rows = ratios(ran)
    assert max(rows) == Run().max_lag  # older ones are refused by their tag
    assert rows[0]["spread"] < 1e-5  # the same weights and formula
    assert rows[0]["spread"] < rows[1]["spread"] < rows[2]["spread"]
    for row in rows.values():
        # Four standard errors of the mean, as if tokens were independent.
        error = row["spread"] / row["tokens"] ** 0.5
        assert row["mean"] == pytest.approx(1, abs=4 * error + 1e-6)


def test_a_wrong_logprob_moves_the_mean_at_lag_zero(tmp_path: Path) -> None:
    """With no lag, log-probabilities without temperature move the mean ratio
    above 1.01, and the reported -log p away from the entropy. Rounding to
    bfloat16 spreads the ratio and leaves its mean at 1."""
    cfg = Run(max_lag=0, steps=10, temperature=0.6)
    rounded = replace(cfg, sampler_dtype="bfloat16")
    half = ratios(run(rounded, tmp_path / "half"))
    raw = ratios(run(replace(cfg, logprobs="raw"), tmp_path / "raw"))
    assert [*half] == [*raw] == [0]
    assert half[0]["mean"] == pytest.approx(1, abs=1e-3)
    assert half[0]["spread"] > 1e-4
    assert raw[0]["mean"] > 1.01
    assert raw[0]["surprise"] < raw[0]["entropy"] - 0.02


@pytest.mark.parametrize(
    ("logprobs", "trainer_scales", "mean", "spread", "entropy"),
    [
        ("processed", True, True, False, True),
        ("processed", False, True, True, True),
        ("raw", True, False, True, False),
        ("raw", False, True, False, False),
    ],
    ids=["correct", "unscaled trainer", "raw logprobs", "both"],
)
def test_three_numbers_at_lag_zero_tell_four_cases_apart(
    logprobs: Any,
    trainer_scales: bool,
    mean: bool,
    spread: bool,
    entropy: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sampler and trainer have the same weights, at temperature 0.6. The mean
    ratio is 1 unless the sampler alone reports log-probabilities from before
    the temperature. The ratio spreads wherever the two programs differ. The
    reported -log p is the entropy wherever the sampler reports what it drew
    from, so this number alone shows that both forgot the temperature."""
    cfg = Run(temperature=0.6, logprobs=logprobs, trainer_scales=trainer_scales)
    torch.manual_seed(0)
    policy = Policy()
    with torch.no_grad():  # an untrained policy hardly prefers a symbol
        list(policy.parameters())[2].mul_(5)
    chance = torch.Generator().manual_seed(0)
    monkeypatch.setattr("lockstep.rl.policy.GROUP", 4096)  # answers
    rollouts = [
        extend(policy, 0, begin(Prompt(key, key, 1)), cfg, chance)
        for key in range(4)
    ]
    _, found = surrogate(policy, rollouts, cfg)
    said = torch.stack([one.logprobs for one in rollouts]).flatten()
    entropies = torch.stack([one.entropies for one in rollouts]).flatten()
    lags = torch.zeros(len(found), dtype=torch.int64)
    tokens, ratio, _, _, surprise, disorder = by_lag(
        lags, found, said, entropies
    )[0].tolist()
    assert (abs(ratio / tokens - 1) < 0.01) == mean
    assert (found.std().item() > 0.1) == spread
    assert (abs(surprise - disorder) / tokens < 0.01) == entropy


# Publishing


class Killed(BaseException):
    """In place of a signal: nothing catches it either."""


class Strike(Observer):
    """Kills at one of the beginnings and ends of phases."""

    phases = ("write", "fsync", "manifest", "rename")

    def __init__(self, at: int) -> None:
        self.left = at

    def begin(self, phase: str) -> None:
        self.left -= 1
        if not self.left:
            raise Killed

    end = begin


@pytest.fixture
def unwatched() -> Iterator[None]:
    yield
    attach()


@pytest.mark.usefixtures("unwatched")
def test_a_version_is_whole_or_not_there(tmp_path: Path) -> None:
    """Killed at any moment of publishing a version, the publisher leaves it
    whole or leaves nothing, and can publish again."""
    weights = {"model.safetensors": {"w": torch.ones(3)}}
    survived = 0
    for moment in range(1, 100):
        root = tmp_path / str(moment)
        root.mkdir()
        publish(root, 1, weights)
        attach(Strike(moment))
        try:
            publish(root, 2, weights)
        except Killed:
            attach()
        else:
            break  # it has fewer moments
        for folder in published(root):
            verify(folder)
        steps = [int(folder.name[5:]) for folder in published(root)]
        assert steps in ([1], [2, 1])
        survived += steps[0] == 2
        attach()
        if steps == [1]:  # what the kill left is no hindrance
            publish(root, 2, weights)
            assert load_verified(root, 2, "model.safetensors").exists()
    assert moment > 8
    assert survived > 0


def test_a_sampler_refuses_a_version_that_is_not_as_published(
    tmp_path: Path,
) -> None:
    publish(tmp_path, 1, {"model.safetensors": {"w": torch.ones(3)}})
    file = load_verified(tmp_path, 1, "model.safetensors")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(ValueError, match="not as published"):
        load_verified(tmp_path, 1, "model.safetensors")


# A kill


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Killed between steps 10 and 20; its checkpoint is of step 10."""
    root = tmp_path_factory.mktemp("rl") / "killed"
    with pytest.raises(ranks.RankError):
        run(Run(steps=20), root, kill_round=40)
    return root


def in_flight(root: Path) -> list[int]:
    manifest = json.loads(
        (published(root / "checkpoints")[0] / "manifest.json").read_text()
    )
    waiting: list[int] = manifest["ledger"]["in_flight"]
    return waiting


def resume(killed: Path, root: Path, **cfg: Any) -> dict[str, list[int]]:
    shutil.copytree(killed, root)
    found = audit(run(Run(steps=20, **cfg), root))
    made = [one["step"] for one in lineage(root)]
    assert made == list(range(1, 21))
    return found


def test_no_prompt_is_lost_or_repeated_by_a_kill(
    killed: Path, tmp_path: Path
) -> None:
    """After a kill with more than eight prompts in flight, the resumed run
    trains on each prompt once."""
    assert len(in_flight(killed)) > 8
    ahead = [int(v.name[5:]) for v in published(killed / "versions")]
    assert ahead[0] > 10  # of a future that does not come
    found = resume(killed, tmp_path / "run")
    assert not found["twice"]
    assert not found["lost"]


def test_the_count_of_prompts_asked_loses_those_in_flight(
    killed: Path, tmp_path: Path
) -> None:
    """Resuming from the number of prompts asked loses those that were in
    flight."""
    found = resume(killed, tmp_path / "run", resume_by="asked")
    assert found["lost"] == in_flight(killed)
    assert not found["twice"]


def test_the_count_of_prompts_settled_repeats_some_and_loses_others(
    killed: Path, tmp_path: Path
) -> None:
    found = resume(killed, tmp_path / "run", resume_by="settled")
    assert found["twice"]
    assert found["lost"]


def test_another_run_is_refused_on_every_trainer(killed: Path) -> None:
    with pytest.raises(ranks.RankError, match="seed"):
        run(Run(seed=2), killed)
    with pytest.raises(ConfigError, match="batch"):
        Run(batch=1)
    with pytest.raises(ConfigError, match="steps"):
        Run(steps=0)
    with pytest.raises(ConfigError, match="temperature"):
        Run(temperature=0)


def test_the_table_of_schedules(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.schedule() == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 7
    assert lines[2].split()[:2] == ["0", "1"]
