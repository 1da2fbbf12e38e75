"""Lab 10: what a resume must hold."""

import errno
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from itertools import chain, islice
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
import torch.distributed as dist

from lockstep.grading.criteria import Criterion, load
from lockstep.grading.ranks import RankError, Ranks, store
from lockstep.parallel import resume as reference

NAMES = "share", "publish", "newest", "load", "prune"  # what a job needs


def scratch(name: str) -> Path:
    """A folder that the ranks of this criterion share."""
    return Path(os.environ["RANKS_STORE"]).with_name(name)


def checkpoint(root: Path, step: int) -> Path:
    """Where the checkpoint of `step` has to be."""
    return root / f"step-{step:08d}"


# Part one: a loader.


class Dataset:
    """`n` samples, none of which is its index."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.fetched = 0
        self.changed = threading.Condition()

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> int:
        with self.changed:
            self.fetched += 1
            self.changed.notify_all()
        return 100 + range(self.n)[i]

    def wait_for(self, fetched: int) -> int:
        """How many are fetched, once it is as many, or in five seconds."""
        with self.changed:
            self.changed.wait_for(lambda: self.fetched >= fetched, 5)
            return self.fetched


def epochs(loader: Any) -> Iterator[list[int]]:
    """Batches, epoch after epoch."""
    while True:
        before = loader.state_dict()
        yield from loader
        told = f"a `for` from {before} on gets no batch"
        assert loader.state_dict() != before, told


def take(loader: Any, batches: int) -> list[list[int]]:
    """As many batches, and not one more is asked for."""
    return list(islice(epochs(loader), batches))


def resumed(loader: Any, state: Any) -> Any:
    """The loader, once it has got a state that went through JSON."""
    loader.load_state_dict(json.loads(json.dumps(state)))
    return loader


def goes_on(make: Callable[[], Any], batches: int) -> None:
    """From wherever it is left, in a new loader and in its own next `for`."""
    whole = take(make(), batches)
    for k in range(batches):
        loader = make()
        take(loader, k)
        state = loader.state_dict()
        for found, where in (
            (take(resumed(make(), state), batches - k), "another loader"),
            (take(loader, batches - k), "the next `for`"),
        ):
            told = f"after {k} batches {where} has {found}, not {whole[k:]}"
            assert found == whole[k:], told


def generators() -> list[Any]:
    """The state of each global generator."""
    numpy: Any = np.random.get_state(legacy=False)
    key, at = numpy["state"]["key"].tolist(), numpy["state"]["pos"]
    return [random.getstate(), key, at, torch.get_rng_state().tolist()]


def loads(answer: Any) -> None:
    """Three epochs of ten samples, in batches of four."""

    def make(n: int = 10, batch: int = 4, seed: int = 7) -> Any:
        return answer.Loader(Dataset(n), batch, seed)

    before = generators()
    loader = make()
    whole = [list(loader) for _ in range(3)]
    for epoch, batches in enumerate(whole):
        sizes = [len(batch) for batch in batches]
        assert sizes == [4, 4, 2], f"epoch {epoch} has batches of {sizes}"
        found = sorted(chain(*batches))
        told = f"epoch {epoch} has the samples {found}"
        assert found == [*range(100, 110)], told
    assert whole[0] != whole[1], f"epochs 0 and 1 are both {whole[0]}"
    again = take(make(), 9)
    assert again == [*chain(*whole)], "equal loaders have unequal batches"
    assert again != take(make(seed=8), 9), "seeds 7 and 8 give one order"
    assert generators() == before, "a global generator has been drawn from"

    goes_on(make, 9)
    loader = make()
    take(loader, 4)
    state = loader.state_dict()
    found = [*chain(*take(resumed(make(batch=3), state), 2))]
    expected = [*chain(*take(loader, 3))][:6]
    told = f"in batches of 3 it goes on with {found}, not with {expected}"
    assert found == expected, told
    for other, what in ((make(n=11), "length"), (make(seed=8), "seed")):
        try:
            resumed(other, state)
        except ValueError:
            continue
        raise AssertionError(f"a state of another {what} is accepted")


def prefetches(answer: Any) -> None:
    """Three batches of two ahead, of twenty samples."""

    def make(data: Dataset | None = None) -> Any:
        return answer.Loader(data or Dataset(20), 2, 7, prefetch=3)

    whole = take(make(), 10)
    data, most = Dataset(20), 0
    loader = make(data)
    for got, _ in enumerate(loader, 1):
        due = min(20, 2 * (got + 3))
        fetched = data.wait_for(due)
        told = f"with {got} batches got, {fetched} samples are fetched"
        assert fetched >= due, f"{told}, not {due}"
        most = max(most, fetched - 2 * got)
        state = loader.state_dict()
        left = take(resumed(make(), state), 10 - got)
        assert left == whole[got:], f"{told}; then come {left}"
    # Two more may be in a thread's hands, and on the way to the consumer.
    assert most <= 2 * 5, f"{most} samples are fetched ahead, not 6"
    goes_on(make, 11)


# Part two: a sampler.


def shares(answer: Any) -> None:
    """Two epochs and a half of eleven samples, in steps of four."""
    n, steps = 11, range(0, 27, 4)

    def step(position: int, world: int, seed: int = 7) -> list[list[int]]:
        given = n, seed, position, 4
        return [[*answer.share(*given, r, world)] for r in range(world)]

    alone = [step(position, 1)[0] for position in steps]
    order = [*chain(*alone)]
    for epoch in range(2):
        found = sorted(order[epoch * n : (epoch + 1) * n])
        told = f"epoch {epoch} has the samples {found}"
        assert found == [*range(n)], told
    first, second = order[:n], order[n : 2 * n]
    assert first != second, f"epochs 0 and 1 are both {first}"
    other = [*chain(*(step(position, 1, 8)[0] for position in steps))]
    assert order != other, "seeds 7 and 8 give one order"
    for position, expected in zip(steps, alone, strict=True):
        for world in (2, 3, 5):
            ranks = step(position, world)
            where = f"at position {position} {world} ranks have {ranks}"
            same = sorted(chain(*ranks)) == sorted(expected)
            assert same, f"{where}; one rank has {expected}"
            sizes = {len(rank) for rank in ranks}
            assert max(sizes) - min(sizes) <= 1, f"{where}: unequal shares"


# Part three: checkpoints.


class Moment(NamedTuple):
    """Something that a process asked of the system."""

    ns: int  # when, on the machine's clock
    kind: str  # rename, another change, fsync, sync
    file: tuple[int, int] = (0, 0)  # what is synced: device and inode
    size: int = 0
    target: str = ""  # what is renamed gets this name
    files: tuple[tuple[str, tuple[int, int], int], ...] = ()  # and what it has


def identity(about: os.stat_result) -> tuple[int, int]:
    """Of a file, whatever its name is."""
    return about.st_dev, about.st_ino


# Calls that change a directory, by their audit events, and which argument of
# the event is the path that changes.
CHANGED = {
    "open": 0,
    "os.link": 1,
    "os.mkdir": 0,
    "os.remove": 0,
    "os.rename": 1,
    "os.rmdir": 0,
    "os.symlink": 1,
    "os.truncate": 0,
    "shutil.rmtree": 0,
}


def now(kind: str, **about: Any) -> Moment:
    """Return a moment that is about to happen."""
    return Moment(time.monotonic_ns(), kind, **about)


class Watch:
    """Calls `act` before each change below a folder, and instead of each sync:
    the kernel already has what a killed process wrote."""

    def __init__(self, root: Path, act: Callable[[Moment], None]) -> None:
        self.root, self.act = root.resolve(), act
        self.acting = False  # then the watch itself causes the events

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        """Look at an event that the interpreter reports to audit hooks."""
        if self.acting or event not in CHANGED:
            return
        path = args[CHANGED[event]]
        if event == "open" and not args[2] & (os.O_WRONLY | os.O_RDWR):
            return
        if isinstance(path, int) or not self.is_below(path):
            return
        self.acting = True
        try:
            if event == "os.rename":
                source, target, *_ = args
                self.act(renamed(source, target))
            else:
                self.act(now("change"))
        finally:
            self.acting = False

    def is_below(self, path: Any) -> bool:
        """Return whether the path is the folder, or in it."""
        resolved = Path(os.fsdecode(path)).resolve()
        return resolved.is_relative_to(self.root)

    def synced(self, *of: Any) -> None:
        """Stand in for os.fsync, os.fdatasync and os.sync."""
        if not of:
            self.act(now("sync"))
            return
        about = os.fstat(of[0] if isinstance(of[0], int) else of[0].fileno())
        self.act(now("fsync", file=identity(about), size=about.st_size))


def renamed(source: Any, target: Any) -> Moment:
    """Return the moment of a rename, with the files that it renames."""
    source, target = Path(os.fsdecode(source)), Path(os.fsdecode(target))
    every = {"its list of names": source}
    if source.is_dir():
        every |= {path.name: path for path in source.iterdir()}
    about = {name: path.stat() for name, path in every.items()}
    files = tuple((n, identity(s), s.st_size) for n, s in about.items())
    return now("rename", target=target.name, files=files)


watch: Watch | None = None  # the current one


@cache
def install_hook() -> None:
    """Report this process's events to the current watch. An audit hook cannot
    be removed, so there is only one."""

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if current := watch:  # another thread may end it meanwhile
            current.audit(event, args)

    sys.addaudithook(hook)


@contextmanager
def watched(
    root: Path, answer: Any, act: Callable[[Moment], None]
) -> Iterator[None]:
    """Watch what the answer does below `root`."""
    global watch
    install_hook()
    real = [
        getattr(os, name)
        for name in ("fsync", "fdatasync", "sync")
        if hasattr(os, name)
    ]
    with ExitStack() as stack:
        current = Watch(root, act)
        for place in (os, answer):  # from os import fsync
            for name, value in list(vars(place).items()):
                if any(value is one for one in real):
                    new = patch.object(place, name, current.synced)
                    stack.enter_context(new)
        watch = current
        try:
            yield
        finally:
            watch = None


def parts(rank: int, step: int) -> dict[str, Any]:
    """What a rank saves in these checks."""
    if rank == 0:
        weights = torch.arange(6.0).view(2, 3) + step
        return {"model": {"weight": weights}, "progress": [step, "of", None]}
    return {f"rank-{rank}": torch.full((3,), 10 * rank + step)}


FILES = {f"{name}.pt" for rank in (0, 1) for name in parts(rank, 0)}


def is_published(root: Path, step: int) -> None:
    """AssertionError, unless all is there, and as `parts` has it."""
    folder = checkpoint(root, step)
    rank = dist.get_rank()
    told = f"when `publish` returns on rank {rank}, {folder.name}"
    assert folder.is_dir(), f"{told} is not there"
    if why := reference.damage(folder):
        raise AssertionError(f"{told} is damaged: {why}")
    manifest = json.loads((folder / reference.MANIFEST).read_bytes())
    missing = ", ".join(sorted(FILES - set(manifest["files"])))
    assert not missing, f"{told} has no {missing} in its manifest"
    for name, part in parts(rank, step).items():
        found = reference.load(folder, name)
        assert str(found) == str(part), f"{told} has {found} as {name}"


def publishes(answer: Any) -> Any:
    """Once watched, and once over a damaged one."""
    rank, root = dist.get_rank(), scratch("runs") / "one"
    moments: list[Moment] = []
    with watched(root, answer, moments.append):
        answer.publish(root, 3, parts(rank, 3))
    is_published(root, 3)
    if rank == 0:
        checkpoint(root, 4).mkdir()
        (checkpoint(root, 4) / "model.pt").write_bytes(b"half of")
    dist.barrier()
    answer.publish(root, 4, parts(rank, 4))
    is_published(root, 4)
    return moments, identity(root.stat())


def is_durable(results: list[Any]) -> None:
    """What gets its name is on the disk, and then the name is."""
    moments = sorted(
        chain(*(found for found, _ in results)), key=lambda m: m.ns
    )
    final, (_, root) = checkpoint(Path(), 3).name, results[0]
    named = [
        i
        for i, m in enumerate(moments)
        if m.kind == "rename" and m.target == final
    ]
    assert named, f"{final} does not get its name by a rename"
    before, rename = moments[: named[0]], moments[named[0]]
    missing = {*FILES, reference.MANIFEST} - {n for n, _, _ in rename.files}
    told = f"{final} gets its name"
    assert not missing, f"{told} before {', '.join(sorted(missing))} is in it"
    directory = rename.files[0][1]
    for name, file, size in rename.files:
        sizes = [m.size for m in before if m.file == file]
        everything = any(m.kind == "sync" for m in before)
        assert sizes or everything, f"{told} before {name} is synced"
        if file != directory and not everything:
            whole = max(sizes) == size
            assert whole, f"{name} is synced with {max(sizes)} of {size} bytes"
    synced = any(
        m.kind == "sync" or m.file == root for m in moments[named[0] :]
    )
    assert synced, f"{told}, and the name is not synced"


def fails_together(answer: Any) -> tuple[bool, str]:
    """Then rank 1 has no space left: whether this rank raised, and what is
    wrong with what there is."""
    rank, root = dist.get_rank(), scratch("runs")
    answer.publish(root, 1, parts(rank, 1))

    def refuse(_: Moment) -> None:
        if rank == 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    raised = False
    with watched(root, answer, refuse):
        try:
            answer.publish(root, 2, parts(rank, 2))
        except Exception:
            raised = True
    dist.barrier()
    return raised, reference.damage(checkpoint(root, 2))


def is_of_one_mind(results: list[tuple[bool, str]]) -> None:
    """All raised and nothing is there; or all is there, since rank 1 had
    nothing to write."""
    raised = [who for who, _ in results]
    told = f"rank 1 has no space left: who raised is {raised}"
    assert len(set(raised)) == 1, told
    whole = not results[0][1]
    assert whole != raised[0], f"{told}, and a whole checkpoint is {whole}"


def flip(file: Path) -> None:
    """One bit, in the middle."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def halve(file: Path) -> None:
    """The rest was not written yet."""
    os.truncate(file, file.stat().st_size // 2)


def tear(folder: Path) -> None:
    """The end of a part."""
    halve(folder / "model.pt")


def empty(folder: Path) -> None:
    """Its name was there before its files."""
    shutil.rmtree(folder)
    folder.mkdir()


def replace(folder: Path) -> None:
    """By a copy of the first."""
    shutil.rmtree(folder)
    shutil.copytree(checkpoint(folder.parent, 1), folder)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "half of a part": tear,
    "a part with one bit flipped": lambda f: flip(f / "rank-1.pt"),
    "a part missing": lambda f: (f / "rank-1.pt").unlink(),
    "no manifest": lambda f: (f / reference.MANIFEST).unlink(),
    "half of a manifest": lambda f: halve(f / reference.MANIFEST),
    "no file": empty,
    "another step's files": replace,
}


def falls_back(answer: Any) -> None:
    """To the second of nine, past each damage in turn."""
    rank, root = dist.get_rank(), scratch("runs") / "one"
    found = answer.newest(root, str)
    assert found is None, f"before any is published, newest is {found}"
    damaged = dict(enumerate(DAMAGES, 3))
    for step in (1, 2, *damaged):
        reference.publish(root, step, parts(rank, step))
    if rank == 0:
        last = checkpoint(root, max(damaged))
        for name in ("step-00000012.tmp", "tmp", "old-step-00000012"):
            shutil.copytree(last, root / name)
        for step, kind in damaged.items():
            DAMAGES[kind](checkpoint(root, step))
        (root / "latest").write_text(last.name)
    dist.barrier()
    lines: list[str] = []
    found = answer.newest(root, lines.append)
    for step, kind in damaged.items():
        taken = found == checkpoint(root, step)
        assert not taken, f"newest takes a checkpoint with {kind}"
    expected = checkpoint(root, 2)
    assert found == expected, f"newest is {found}, not {expected.name}"
    for step, kind in damaged.items() if rank == 0 else ():
        name = checkpoint(root, step).name
        said = [line.strip() for line in lines if name in line]
        told = f"of one with {kind} `say` is told {said}"
        assert len(said) == 1, f"{told}, not one line"
        assert "\n" not in said[0], f"{told}, not one line"
        why = said[0].replace(name, "").strip(" :.")
        assert why, f"{told}, not what is wrong"


def agrees(answer: Any) -> None:
    """Where one rank does not see what the other does."""
    rank = dist.get_rank()
    cases: list[tuple[int, Callable[[Path], None]]]
    cases = [(0, shutil.rmtree), (1, shutil.rmtree), (1, tear)]
    for number, (blind, change) in enumerate(cases):
        shared, own = (
            scratch(f"{name}-{number}") for name in ("all", f"rank-{rank}")
        )
        for step in (1, 2):
            reference.publish(shared, step, parts(rank, step))
        shutil.copytree(shared, own)
        if rank == blind:
            change(checkpoint(own, 2))
        found = answer.newest(own, str)
        told = f"step 2 is not whole on rank {blind}, and rank {rank} takes"
        assert found == checkpoint(own, 1), f"{told} {found}, not step 1"


class Code:
    """Makes a directory when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def loads_safely(answer: Any) -> None:
    """What was saved; and what nobody should run."""
    root = scratch("runs")
    saved = {"weight": torch.arange(3.0), "steps": [1, (2, None)], "on": True}
    made = root / "made"
    reference.publish(root, 1, {"state": saved, "code": Code(str(made))})
    found = answer.load(checkpoint(root, 1), "state")
    assert str(found) == str(saved), f"load gives {found}, not {saved}"
    with suppress(Exception):
        answer.load(checkpoint(root, 1), "code")
    assert not made.exists(), "load has run what a pickle said"


def prunes(answer: Any) -> None:
    """Two of five are damaged, the newest among them."""
    root = scratch("runs")
    for step in range(1, 6):
        reference.publish(root, step, parts(0, step))
    for step in (3, 5):
        flip(checkpoint(root, step) / "model.pt")
    (root / "notes.txt").write_text("not a checkpoint")
    for keep, expected in ((5, {1, 2, 4}), (2, {2, 4}), (1, {4})):
        answer.prune(root, keep)
        found = {
            s for s in (1, 2, 4) if not reference.damage(checkpoint(root, s))
        }
        told = f"3 and 5 of 5 are damaged; prune(root, {keep}) keeps"
        assert found == expected, f"{told} {found}, not {expected}"
    assert (root / "notes.txt").exists(), "prune removes what is no checkpoint"


# A job of all that, and its end.

STEPS, SAMPLES, BATCH = 7, 11, 4  # two epochs and a bit


def job(
    file: Path,
    sound: list[str],
    home: Path,
    attempt: int,
    doom: tuple[int, int] | None,
) -> tuple[dict[str, Any], int]:
    """Train to the end, and publish after every step; on rank `doom[0]` be
    killed at its moment number `doom[1]`. The end's state, and how many moments
    a step has."""
    rank, world = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE"))
    dist.init_process_group("gloo", store=store(), rank=rank, world_size=world)
    answer = load(file)
    for name in sound:
        setattr(answer, name, getattr(reference, name))
    root, moments, before = home / "run", 0, 0

    def pass_by(_: Moment | None = None) -> None:
        nonlocal moments
        moments += 1
        if doom == (rank, moments):
            (home / f"struck-{attempt}").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    zeros = torch.zeros(3, dtype=torch.float64)
    state: dict[str, Any] = {
        "step": 0,
        "seen": [],
        "weight": zeros,
        "momentum": zeros,
    }
    with watched(root, answer, pass_by):
        if folder := answer.newest(root, str):
            state = answer.load(folder, "state")
        (home / f"began-{attempt}-{state['step']}").touch()
        while state["step"] < STEPS:
            before = moments
            pass_by()
            state = trained(answer, state, rank, world)
            mine: dict[str, Any] = {f"rank-{rank}": torch.get_rng_state()}
            mine |= {"state": state} if rank == 0 else {}
            answer.publish(root, state["step"], mine)
            if rank == 0:
                (home / f"published-{attempt}-{state['step']}").touch()
                answer.prune(root, 2)
    for name in ("weight", "momentum"):
        state[name] = state[name].tolist()
    return state, moments - before


def trained(
    answer: ModuleType, state: dict[str, Any], rank: int, world: int
) -> dict[str, Any]:
    """One step further. All numbers are multiples of a power of two, so the
    sum is the same for any number of ranks."""
    step, weight = state["step"], state["weight"]
    ids = [*answer.share(SAMPLES, 7, step * BATCH, BATCH, rank, world)]
    x = torch.tensor([[i, i * i, 1.0] for i in ids]).view(-1, 3)
    gradient = (weight - x).sum(0)
    dist.all_reduce(gradient)
    everyone: list[Any] = [None] * world
    dist.all_gather_object(everyone, ids)
    momentum = state["momentum"] / 2 + gradient / 8
    return {
        "step": step + 1,
        "seen": [*state["seen"], sorted(chain(*everyone))],
        "weight": weight - momentum,
        "momentum": momentum,
    }


def whole_steps(root: Path) -> list[int]:
    """Of the checkpoints that are whole, the newest first."""
    folders = sorted(root.glob(reference.NAMES), reverse=True)
    return [int(f.name[5:]) for f in folders if not reference.damage(f)]


def resumes(results: list[tuple[str, list[str]]]) -> None:
    """Struck four times, in the second step of a launch or so, at moments drawn
    from those of a step."""
    (given,) = results
    with tempfile.TemporaryDirectory(prefix="jobs-") as folder:
        calm, struck = (Path(folder, name) for name in ("calm", "struck"))
        ends = launch(given, calm, 2)
        moments = [
            (rank, steady + n)
            for rank, (_, steady) in enumerate(ends)
            for n in range(1, steady + 1)
        ]
        draw, worlds = random.Random(10), (2, 3, 1, 2)
        for attempt, world in enumerate(worlds):
            part = np.array_split(moments, len(worlds))[attempt]
            rank, n = draw.choice(part.tolist())
            launch(given, struck, world, attempt, (rank % world, n))
            if attempt == 2 and (whole := whole_steps(struck / "run"))[1:]:
                flip(checkpoint(struck / "run", whole[0]) / "state.pt")
        found = launch(given, struck, 2, len(worlds))
    for name, expected in ends[0][0].items():
        told = f"after {len(worlds)} kills {name} is {found[0][0][name]}"
        same = found[0][0][name] == expected
        assert same, f"{told}; undisturbed it is {expected}"


def launch(
    given: tuple[str, list[str]],
    home: Path,
    world: int,
    attempt: int = 0,
    doom: tuple[int, int] | None = None,
) -> list[tuple[dict[str, Any], int]]:
    """What each rank returned; nothing, of a job that was struck."""
    file, sound = given
    home.mkdir(exist_ok=True)
    newest = max(whole_steps(home / "run"), default=0)
    who = f"launch {attempt + 1}, on {world} ranks,"
    ranks = Ranks(world, job, Path(file), sound, home, attempt, doom)
    try:
        ends = ranks.results(30)
    except RankError:
        if not (home / f"struck-{attempt}").exists():
            raise
        ends = []
    began = max(told(home, f"began-{attempt}"), default=newest)
    assert began == newest, f"{who} goes on from {began}; {newest} is whole"
    had = max(told(home, f"published-{attempt}"), default=newest)
    left = max(whole_steps(home / "run"), default=0)
    assert left >= had, f"{who} had step {had} whole, and leaves {left}"
    return ends


def told(home: Path, what: str) -> list[int]:
    """Steps that ranks have told by a file each, which no kill can tear."""
    return [
        int(file.name.rpartition("-")[2]) for file in home.glob(f"{what}-*")
    ]


def itself(answer: ModuleType) -> tuple[str, list[str]]:
    """Where it is, and which of its functions are the grader's."""
    file = str(answer.__file__)
    return file, [
        name
        for name in NAMES
        if getattr(answer, name) is getattr(reference, name)
    ]


CRITERIA = [
    Criterion(
        "loader",
        14,
        "One number says which samples the consumer has got, in all epochs.",
        loads,
        world=1,
    ),
    Criterion(
        "prefetch",
        10,
        "Fetch ahead in a queue, and count where a batch leaves it.",
        prefetches,
        world=1,
        needs={"loader": ""},
    ),
    Criterion(
        "sampler",
        14,
        "Compute the order for positions; only then deal them to ranks.",
        shares,
        world=1,
    ),
    Criterion(
        "publish",
        14,
        "A file has two things to sync: its bytes, and its name.",
        publishes,
        is_durable,
        world=2,
    ),
    Criterion(
        "one rank's error",
        8,
        "What went wrong on one rank has to reach all, or the others wait.",
        fails_together,
        is_of_one_mind,
        world=2,
    ),
    Criterion(
        "fall-back",
        12,
        "Believe no name: read the manifest, then every byte it speaks of.",
        falls_back,
        world=2,
    ),
    Criterion(
        "agreement",
        8,
        "Ask every rank about each candidate, the newest first.",
        agrees,
        world=2,
    ),
    Criterion(
        "safe load",
        4,
        "A pickle is a program; torch.load can refuse to run it.",
        loads_safely,
        world=1,
    ),
    Criterion(
        "retention",
        6,
        "Count what verifies, from the newest on.",
        prunes,
        world=1,
    ),
    Criterion(
        "killed",
        10,
        "What a kill leaves must not be in the way, what was whole must stay.",
        itself,
        resumes,
        world=1,
        needs={
            "sampler": "share",
            "publish": "publish",
            "one rank's error": "publish",
            "fall-back": "newest",
            "agreement": "newest",
            "safe load": "load",
            "retention": "prune",
        },
    ),
]
