"""A thousand damaged checkpoints, two hundred each day, and disks that fail."""

import json
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lockstep.trainer.__main__ import launch
from lockstep.trainer.checkpoint import (
    Manifest,
    Writer,
    published,
    restore,
    rng_state,
    seal,
    verify,
    weights_sha256,
)
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.extensions.audit import audit
from lockstep.trainer.extensions.events import read_events
from lockstep.trainer.loop import build
from lockstep.trainer.model import DataParallel, make_task
from lockstep.trainer.process import joined
from lockstep.trainer.step import Replica
from lockstep.trainer.telemetry import attach
from tests import ranks
from tests.conftest import daily
from tests.experiments.faults import damage
from tests.experiments.faults.damage import Log, belonging
from tests.rank_faults import after_commit

SEED, JOBS = 1, 2
Event = dict[str, Any]
SHORT: Event = {
    "dataset": "toy",
    "global_batch_size": 24,
    "micro_batch_size": 24,
    "max_steps": 4,
    "checkpoint_every_steps": 2,
    "hidden_size": 4,
}
FILES = ["model.safetensors", "optimizer.pt", "rank-0.pt", "scaler.pt"]
EVERY = [*FILES, "manifest.json"]
NEWEST, OLDER = "step-00000004", "step-00000002"


class Case(NamedTuple):
    """The newest checkpoint of a run, to be damaged as chance will have it."""

    folder: Path
    chance: random.Random
    turn: int  # of its kind: 0, 1, …

    def any_of(self, names: list[str]) -> Path:
        """One after the other, so that each has its share."""
        return self.folder / names[self.turn % len(names)]


# Damage, by kind


def flipped_bit(case: Case) -> None:
    """At every depth of every file: one flip in each hundredth or so."""
    path = case.any_of(EVERY)
    depth = (case.turn // len(EVERY) + case.chance.random()) / 100
    size = path.stat().st_size
    damage.flip(path, int(depth * size) % size, case.chance.randrange(8))


def truncated(case: Case) -> None:
    path = case.any_of(EVERY)
    damage.truncate(path, case.chance.randrange(path.stat().st_size))


def grown(case: Case) -> None:
    path = case.any_of(EVERY)
    path.write_bytes(path.read_bytes() + case.chance.randbytes(9))


def missing(case: Case) -> None:
    case.any_of(EVERY).unlink()


def directory(case: Case) -> None:
    path = case.any_of(EVERY)
    path.unlink()
    path.mkdir()


def swapped(case: Case) -> None:
    """With another file of the same checkpoint."""
    one, other = case.chance.sample(EVERY, 2)
    damage.swap(case.folder / one, case.folder / other)


def older(case: Case) -> None:
    """The file as it was two steps before."""
    damage.take_older(case.any_of(EVERY[:3]))


def of_another_run(case: Case) -> None:
    """A file of the same name and step, of a run with another seed."""
    path = case.any_of(EVERY[:3])
    shutil.copy(other_run(case) / path.name, path)


def linked(case: Case) -> None:
    damage.link(case.any_of(FILES))


def added_link(case: Case) -> None:
    (case.folder / "more").symlink_to(case.folder.parent / OLDER)


def added(case: Case) -> None:
    """What no manifest names, a pickle with code in it as well."""
    path = case.folder / case.chance.choice(["more.pt", "rank-1.pt", "a.bin"])
    path.write_bytes(case.chance.randbytes(99))
    if case.turn % 2:
        damage.bomb(path)


def edited_manifest(case: Case) -> None:
    """Another value somewhere in it, as somebody might mend it by hand."""
    edit(case, places(json.loads(manifest_of(case).read_text())))


def sealed_edit(case: Case) -> None:
    """Another value of what makes a run, and a seal that fits."""
    manifest = edit(case, places(belonging(verify(case.folder))))
    manifest["sha256"] = seal(manifest)
    manifest_of(case).write_text(json.dumps(manifest))


def manifest_of(case: Case) -> Path:
    return case.folder / "manifest.json"


def places(node: Any, *trail: str) -> list[tuple[str, ...]]:
    """The way to each value in a manifest, at any depth."""
    if not isinstance(node, dict):
        return [trail]
    return [place for key in node for place in places(node[key], *trail, key)]


def edit(case: Case, where: list[tuple[str, ...]]) -> Manifest:
    """Change one value."""
    manifest = json.loads(manifest_of(case).read_text())
    *trail, last = case.chance.choice(where)
    node = manifest
    for key in trail:
        node = node[key]
    values = [7, -1, 0.5, None, "other", [], {}, [7], True]
    values = [value for value in values if value != node[last]]
    node[last] = case.chance.choice(values)
    manifest_of(case).write_text(json.dumps(manifest))
    return dict(manifest)


def another_text(case: Case) -> None:
    """A manifest of another shape altogether."""
    texts = "[]", "{}", "7", "null", '"text"', "{", "\xff", ""
    text = texts[case.turn % len(texts)].encode("latin-1")
    (case.folder / "manifest.json").write_bytes(text)


def code(case: Case) -> None:
    damage.bomb(case.any_of(EVERY))


def other_run(case: Case) -> Path:
    """The same checkpoint of a run with another seed."""
    return case.folder.parents[2] / "other" / "checkpoints" / NEWEST


def whole_of_another_run(case: Case) -> None:
    shutil.rmtree(case.folder)
    shutil.copytree(other_run(case), case.folder)


def linked_whole(case: Case) -> None:
    """The checkpoint itself lies somewhere else."""
    away = case.folder.parents[1] / "away"
    case.folder.rename(away)
    case.folder.symlink_to(away)


def sealed_code(case: Case) -> None:
    damage.bomb(case.any_of(FILES))
    damage.reseal(case.folder)


FOUND, SAME, REFUSED = "set aside", "the same state", "refused"
# Half of all cases are flipped bits; the other kinds share the rest.
KINDS: dict[Callable[[Case], None], set[str]] = {
    flipped_bit: {FOUND, SAME},  # e and E in a number say the same
    truncated: {FOUND},
    grown: {FOUND},
    missing: {FOUND},
    directory: {FOUND},
    swapped: {FOUND},
    older: {FOUND},
    of_another_run: {FOUND},
    linked: {FOUND},
    added_link: {FOUND},
    added: {SAME},
    edited_manifest: {FOUND},
    another_text: {FOUND},
    code: {FOUND},
    linked_whole: {FOUND},
    whole_of_another_run: {FOUND},
    sealed_edit: {FOUND},
    # Forged with a seal that fits: a person has to say what was meant.
    sealed_code: {REFUSED},
}


class Run:
    """A run with two checkpoints, in a process that can restore from it."""

    def __init__(self, base: Path, r: Replica) -> None:
        self.r, self.log = r, Log()
        self.pristine = base / "pristine" / "checkpoints"
        self.root = base / "run" / "checkpoints"
        self.belongs = belonging(verify(self.pristine / NEWEST))
        self.states = {NEWEST: self.end(lambda _: None)[1]}
        self.states[OLDER] = self.end(shutil.rmtree)[1]
        assert None not in self.states.values()
        assert self.states[NEWEST] != self.states[OLDER]

    def end(self, strike: Callable[[Path], Any]) -> tuple[str, str | None]:
        """Restore after a strike at the newest checkpoint: what came of it,
        and a digest of all that was restored, if anything was."""
        shutil.rmtree(self.root.parent, ignore_errors=True)
        shutil.copytree(self.pristine, self.root)
        strike(self.root / NEWEST)
        self.log.seen.clear()
        try:
            found = restore(self.r, self.belongs, Writer())
        except Exception as error:
            return f"{type(error).__name__}: {error}", None
        return (found or {})["checkpoint"], self.state()

    def state(self) -> str:
        """A digest of weights, optimizer, scaler and random states."""
        tensors = dict(self.r.strategy.module.state_dict())
        optimizer = self.r.optimizer.state_dict()
        for number, moments in optimizer["state"].items():
            tensors |= {f"{number} {name}": m for name, m in moments.items()}
        *plain, on_cpu, _ = rng_state()
        rest = plain, on_cpu.tolist(), optimizer["param_groups"]
        rest += (self.r.scaler.state_dict(),)
        digest = sha256(repr(rest).encode()).hexdigest()
        return weights_sha256(tensors) + digest

    def verdict(self, number: int, kind: Callable[[Case], None]) -> str:
        """What became of case `number`, in one word or in a sentence."""
        chance = random.Random(f"{SEED} {kind.__name__} {number}")
        end, state = self.end(lambda folder: kind(Case(folder, chance, number)))
        said = [(e["event"], e.get("checkpoint")) for e in self.log.seen]
        if list(self.root.parents[1].rglob("executed")):
            return "executed"
        if (end, state) == (OLDER, self.states[OLDER]):
            aside = (self.root / f"damaged-{NEWEST}").exists()
            if aside and said == [("checkpoint_damaged", NEWEST)]:
                return FOUND
        if (end, state, said) == (NEWEST, self.states[NEWEST], []):
            return SAME
        refusals = "UnpicklingError: ", "SafetensorError: "
        if end.startswith(refusals) and (self.root / NEWEST).exists():
            return REFUSED
        return f"{end}, {said}"


def verdicts(base: Path, times: int, job: int) -> list[tuple[str, int, str]]:
    """This job's of so many cases: (kind, number, verdict)."""
    cfg = TrainConfig(base / "run", **SHORT)
    cases = [(flipped_bit, number) for number in range(times // 2)]
    others = [kind for kind in KINDS if kind is not flipped_bit]
    for number in range(times - len(cases)):
        turn, which = divmod(number, len(others))
        cases.append((others[which], turn))
    with joined(30, ranks.store()) as me:
        cfg = cfg.for_launch(me.world_size, {})
        r = build(cfg, me, make_task(cfg), DataParallel())
        run = Run(base, r)
        attach(run.log)
        return [
            (kind.__name__, number, run.verdict(number, kind))
            for kind, number in cases[job::JOBS]
        ]


def work(given: Event, strike: Callable[[Path], None] | None = None) -> Event:
    """A launch; after step 5 `strike` comes over its directory."""
    cfg = TrainConfig(**given)
    if strike:
        after_commit(5, lambda _: strike(cfg.run_dir))
    return launch(cfg, ranks.store())


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("times", daily([200, 1000], 200))
def test_of_a_thousand_damaged_checkpoints_none_is_loaded(
    times: int, tmp_path: Path
) -> None:
    """The one before it is, or its state is the same to the bit, or the launch
    is refused; and no code in a file runs."""
    for name, seed in (("pristine", 0), ("other", 7)):
        given = SHORT | {"run_dir": tmp_path / "0" / name, "seed": seed}
        ranks.run_ranks(1, work, given)
    for job in range(1, JOBS):
        shutil.copytree(tmp_path / "0", tmp_path / str(job))
    jobs = [
        ranks.Ranks(1, verdicts, tmp_path / str(job), times, job)
        for job in range(JOBS)
    ]
    found = [each for job in jobs for each in job.results(250)[0]]
    assert len(found) == times
    allowed = {kind.__name__: ends for kind, ends in KINDS.items()}
    wrong = [each for each in found if each[2] not in allowed[each[0]]]
    assert wrong == []
    unseen = [each for each in found if each[::2] == ("flipped_bit", SAME)]
    assert len(unseen) <= times / 200


# Disks that fail


LONGER = SHORT | {"max_steps": 8}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The weights that a run of eight steps ends with."""
    given = LONGER | {"run_dir": tmp_path_factory.mktemp("whole")}
    return str(ranks.run_ranks(1, work, given)[0]["weights_sha256"])


def mount(*words: str | Path) -> None:
    """Skips the test where that is not allowed."""
    done = subprocess.run(["mount", *words], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this process may not mount: {done.stderr.strip()}")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder to mount over."""
    (folder := tmp_path / "mounted").mkdir()
    yield folder
    subprocess.run(["umount", "--recursive", "--lazy", folder], check=False)


def read_only(folder: Path) -> None:
    mount("--bind", folder, folder)
    mount("--options", "remount,bind,ro", folder)


def failed(run_dir: Path) -> list[tuple[int, str]]:
    """Which steps could not be saved, and why."""
    log = read_events(run_dir / "events" / "attempt-0-rank-0.jsonl")
    return [
        (event["step"], event["reason"])
        for event in log
        if event["event"] == "checkpoint_failed"
    ]


def assert_goes_on(run_dir: Path, step: int, weights_sha256: str) -> None:
    """The newest checkpoint is whole, and the next launch goes on from it."""
    newest, *_ = published(run_dir / "checkpoints")
    assert verify(newest)["step"] == step
    [last] = ranks.run_ranks(1, work, LONGER | {"run_dir": run_dir})
    assert last["weights_sha256"] == weights_sha256
    assert audit(run_dir).proven
    assert not (run_dir / "checkpoints" / "tmp").exists()


def fill(run_dir: Path) -> None:
    """Leave room for what is open, and for less than a checkpoint."""
    with (run_dir.parent / "filling").open("wb", buffering=0) as file:
        file.write(bytes(shutil.disk_usage(run_dir).free - 16_384))


def test_a_full_disk_costs_checkpoints_and_nothing_else(
    place: Path, whole: str
) -> None:
    """Each that fails is an event, training goes on to its last step, which
    has to be saved; with room again, it goes on from the last good one."""
    mount("-t", "tmpfs", "-o", "size=1M", "tmpfs", place)
    given = LONGER | {"run_dir": place / "run"}
    with pytest.raises(ranks.RankError, match="No space left on device"):
        ranks.run_ranks(1, work, given, fill)
    full = "[Errno 28] No space left on device"
    assert failed(place / "run") == [(6, full), (8, full)]
    (place / "filling").unlink()
    assert_goes_on(place / "run", 4, whole)


def freeze(run_dir: Path) -> None:
    """As a file system does that has seen an error."""
    read_only(run_dir / "checkpoints")


def test_a_disk_that_turns_read_only_costs_checkpoints_and_nothing_else(
    place: Path, whole: str
) -> None:
    run_dir = place / "run"
    mount("--bind", place, place)
    with pytest.raises(
        ranks.RankError, match=r"Read-only file system: '.*tmp'"
    ):
        ranks.run_ranks(1, work, LONGER | {"run_dir": run_dir}, freeze)
    assert [step for step, _ in failed(run_dir)] == [6, 8]
    subprocess.run(["umount", run_dir / "checkpoints"], check=True)
    assert_goes_on(run_dir, 4, whole)


def test_a_read_only_directory_is_refused(place: Path) -> None:
    read_only(place)
    said = f"--run-dir {place} cannot be used: Read-only file system; give a"
    with pytest.raises(ranks.RankError, match=f"ConfigError: {said}"):
        ranks.run_ranks(1, work, LONGER | {"run_dir": place})


def test_a_directory_that_vanishes_is_not_made_anew(tmp_path: Path) -> None:
    """A checkpoint in it would be one of a run that has lost its record."""
    run_dir = tmp_path / "run"
    with pytest.raises(ranks.RankError, match="No such file"):
        ranks.run_ranks(1, work, LONGER | {"run_dir": run_dir}, shutil.rmtree)
    assert not run_dir.exists()
