"""Two hosts, of which one is lost: which one goes on, and from where."""

import os
from pathlib import Path

import psutil
import pytest

from lockstep.trainer.extensions.audit import audit
from tests import ranks
from tests.conftest import daily
from tests.jobs import PATIENCE, work
from tests.launch.hosts import Hosts, hindrance, two_hosts

pytestmark = pytest.mark.timeout(4 * PATIENCE)
SETTINGS = {
    "max_steps": 400,
    "checkpoint_every_steps": 20,
    "hidden_size": 32,
    "global_batch_size": 128,
}
ELASTIC = [f"--{k.replace('_', '-')}={v}" for k, v in SETTINGS.items()]


@pytest.fixture(autouse=True)
def _hosts_can_be_made() -> None:
    if reason := hindrance():
        end = pytest.fail if os.environ.get("CI") else pytest.skip
        end(f"two hosts cannot be made here: {reason}")


def ended(hosts: Hosts) -> dict[str, int]:
    """The exit code of each host."""
    said = hosts.job.communicate(timeout=2 * PATIENCE)[0].splitlines()
    return {line.split()[0]: int(line.split()[-1]) for line in said}


def test_two_hosts_train_what_one_host_trains(tmp_path: Path) -> None:
    """2 × 2 ranks, by two torchruns, against four ranks of one machine."""
    steps = "--max-steps=40", "--hidden-size=32"
    with two_hosts(tmp_path, *steps, options=("--nnodes=2",)) as hosts:
        assert ended(hosts) == {"host-1": 0, "host-2": 0}
    report = audit(hosts.run_dir)
    assert report.proven
    assert report.finished
    assert report.restarts == 0
    one = {"run_dir": tmp_path / "one", "max_steps": 40, "hidden_size": 32}
    ends = ranks.run_ranks(4, work, one)
    (weights,) = {end["weights_sha256"] for end in ends}
    (end,) = hosts.told("run_finished", hosts.together)
    assert end["weights_sha256"] == weights


def went_on_alone(hosts: Hosts) -> None:
    """One host's ranks took the run to its end, with the batch it began with:
    accumulation has doubled."""
    began = hosts.told("run_started", hosts.together)[-1]
    again = hosts.told("run_started", hosts.alone)[-1]
    assert began["global_batch_size"] == again["global_batch_size"] == 128
    restored = hosts.told("checkpoint_restored", hosts.alone)[-1]
    assert restored["step"] >= 20
    report = audit(hosts.run_dir)
    assert report.proven
    assert report.finished
    assert report.steps == 400


WITH_STORE = "host-2", "host-1", "host-1", 2
WITH_STORE_ELSEWHERE = "host-1", "host-2", "switch", 1


@pytest.mark.parametrize(
    ("lost", "left", "store", "per_host"),
    daily([WITH_STORE, WITH_STORE_ELSEWHERE], WITH_STORE_ELSEWHERE),
)
def test_a_killed_host_leaves_the_job_to_the_other(
    lost: str, left: str, store: str, per_host: int, tmp_path: Path
) -> None:
    """One of two hosts is killed in the middle of a run. The other goes on
    alone with the same global batch, and the audit proves the run over both
    world sizes."""
    with two_hosts(tmp_path, *ELASTIC, store=store, per_host=per_host) as hosts:
        hosts.await_event("checkpoint_saved", hosts.together)
        hosts.lose(lost, "kill")
        assert ended(hosts) == {lost: 137, left: 0}
    assert "step 400" in hosts.log(left)
    went_on_alone(hosts)


@pytest.mark.weekly  # the agent waits for a silent store
def test_a_killed_host_that_has_the_store_ends_the_job(tmp_path: Path) -> None:
    """The other agent has nobody to ask; a new launch goes on all the same."""
    with two_hosts(tmp_path, *ELASTIC, store="host-1", per_host=1) as hosts:
        hosts.await_event("checkpoint_saved", hosts.together)
        hosts.lose("host-1", "kill")
        assert ended(hosts) == {"host-1": 137, "host-2": 1}
    assert "RendezvousConnectionError" in hosts.log("host-2")
    ranks.run_ranks(1, work, {"run_dir": hosts.run_dir, **SETTINGS})
    went_on_alone(hosts)


@pytest.mark.weekly  # ranks wait for the watchdog
@pytest.mark.parametrize("cut", ["host-2", "host-1"])
def test_a_cut_cable_leaves_the_job_where_the_store_is(
    cut: str, tmp_path: Path
) -> None:
    """On host-1, whichever of the two is cut off. Nothing is closed, so every
    rank waits in its step until the watchdog ends it; the agent on host-2 asks
    a store that is silent, and does not end."""
    settings = *ELASTIC, "--timeout-seconds=8"
    with two_hosts(tmp_path, *settings, store="host-1", per_host=1) as hosts:
        hosts.await_event("checkpoint_saved", hosts.together)
        hosts.lose(cut, "cut")
        hosts.await_event("run_finished", hosts.alone)
        for rank in range(hosts.together):
            hang = [
                e
                for e in hosts.attempts(rank)[-2 + rank]
                if e["event"] == "hang"
            ]
            assert hang[0]["phase"] in ("backward", "sync")
        psutil.Process(hosts.pid("host-2")).kill()
        assert ended(hosts) == {"host-1": 0, "host-2": 137}
    went_on_alone(hosts)
