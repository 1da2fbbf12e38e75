"""Shards read from an object store that fails, in an order that resumes.

The store speaks the part of S3 that a reader needs: GET of an object, or of a
range of its bytes, over HTTP. It fails when it is told to.
"""

import http.client
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from lockstep.trainer.order import GlobalOrder

SHARDS, SIZE, TOKENS = 24, 10, 64  # samples in a shard; tokens of a sample
BATCH = 8
BYTES = 2 * TOKENS  # of a sample, each token an uint16


class Store:
    """Objects by name, and what shall go wrong: the number of a request, from
    0, to `slow_down`, `reset`, `truncated`, `flipped` or `late`.

    Attributes:
        asked: the (name, first byte, end) of each request, in order.
        release: until it is set, late answers are not given.
    """

    def __init__(self, objects: dict[str, bytes], faults: dict[int, str]):
        self.objects, self.faults = objects, faults
        self.asked: list[tuple[str, int, int]] = []
        self.release = threading.Event()
        self.lock = threading.Lock()

    def note(self, name: str, start: int, end: int) -> str:
        """Write a request down; what shall go wrong with it, or nothing."""
        with self.lock:
            self.asked.append((name, start, end))
            return self.faults.get(len(self.asked) - 1, "")


@contextmanager
def serving(store: Store) -> Iterator[int]:
    """The port at which the store answers, from threads of this process."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            name = self.path.lstrip("/")
            first, last = self.headers["Range"].split("=")[1].split("-")
            start, end = int(first), int(last) + 1
            fault = store.note(name, start, end)
            body = store.objects[name][start:end]
            if fault == "reset":
                self.close_connection = True
                return
            if fault == "slow_down":
                body = b"<Error><Code>SlowDown</Code></Error>"
            if fault == "late":
                store.release.wait(10)
            if fault == "flipped":
                body = bytes([body[0] ^ 1]) + body[1:]
            self.send_response(503 if fault == "slow_down" else 206)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if fault == "truncated":
                body, self.close_connection = body[: len(body) // 2], True
            with suppress(OSError):  # the reader may have gone
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        store.release.set()
        server.shutdown()
        thread.join()
        server.server_close()


# --8<-- [start:get]
class Throttled(Exception):
    """The store answered 503 SlowDown, or anything else but the range."""


class Damaged(Exception):
    """The bytes are not those that were written."""


def get(port: int, name: str, start: int, end: int, crc: int) -> bytes:
    """Bytes `start` to `end` of an object, whole and as they were written."""
    wire = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        wire.request(
            "GET", f"/{name}", headers={"Range": f"bytes={start}-{end - 1}"}
        )
        answer = wire.getresponse()
        body = answer.read()  # raises IncompleteRead if it ends early
    finally:
        wire.close()
    if answer.status != 206:
        raise Throttled(f"{name}: {answer.status}")
    if zlib.crc32(body) != crc:
        raise Damaged(f"{name}: bytes {start} to {end}")
    return body


FAILURES = (OSError, http.client.HTTPException, Throttled, Damaged)


def patiently(
    read: Callable[[], bytes], chance: np.random.Generator, tries: int = 6
) -> bytes:
    """What `read` returns, asked again after a failure: each time after a
    random part of a pause that doubles, so that readers do not return at once.
    """
    for attempt in range(tries - 1):
        try:
            return read()
        except FAILURES:
            time.sleep(chance.uniform(0, 0.002 * 2**attempt))
    return read()


# --8<-- [end:get]
# --8<-- [start:hedged]
def hedged(read: Callable[[], bytes], patience: float) -> bytes:
    """The first answer: if none has come after `patience` seconds, which is
    most answers' time, the same is asked a second time."""
    pool = ThreadPoolExecutor(2)
    asked: set[Future[bytes]] = {pool.submit(read)}
    done, _ = wait(asked, timeout=patience)
    if not done:
        asked.add(pool.submit(read))
        done, _ = wait(asked, return_when=FIRST_COMPLETED)
    pool.shutdown(wait=False)
    return next(iter(done)).result()


# --8<-- [end:hedged]
# --8<-- [start:order]
class LaneOrder:
    """Which sample of which shard stands at a position. Positions are dealt to
    lanes by turns. A lane has shards of its own: it permutes them, and then
    the samples within a window of so many. Lanes divide the shards, and
    windows divide a lane."""

    def __init__(
        self, shards: int, size: int, window: int, lanes: int, seed: int
    ) -> None:
        self.size, self.window, self.lanes = size, window, lanes
        seeds = range(2 * lanes * seed, 2 * lanes * (seed + 1), 2)
        self.shards = [GlobalOrder(shards // lanes, s) for s in seeds]
        # An epoch of this one is a window.
        self.within = [GlobalOrder(window * size, s + 1) for s in seeds]

    def __call__(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(shard, sample in it) at int64 positions of the endless stream."""
        shard, sample = np.empty_like(positions), np.empty_like(positions)
        own, lane = np.divmod(positions, self.lanes)
        for i in np.unique(lane):
            here = lane == i
            slot, sample[here] = np.divmod(self.within[i](own[here]), self.size)
            window = own[here] // (self.window * self.size)
            place = self.shards[i](window * self.window + slot)
            shard[here] = place * self.lanes + i
        return shard, sample


# --8<-- [end:order]
# --8<-- [start:rank]
class Rank:
    """A rank's reader. It keeps the shards of its lanes' windows."""

    def __init__(
        self,
        port: int,
        index: dict[str, int],
        order: LaneOrder,
        rank: int,
        ranks: int,
    ) -> None:
        self.port, self.index, self.order = port, index, order
        self.rank, self.ranks = rank, ranks
        self.room = order.window * max(1, order.lanes // ranks)
        self.kept: dict[str, bytes] = {}
        self.chance = np.random.default_rng()  # for pauses, not for data

    def shard(self, name: str) -> bytes:
        """A whole shard, from what is kept or from the store."""
        if name not in self.kept:
            if len(self.kept) == self.room:  # drop the oldest
                del self.kept[next(iter(self.kept))]
            crc, end = self.index[name], self.order.size * BYTES
            self.kept[name] = patiently(
                lambda: get(self.port, name, 0, end, crc), self.chance
            )
        return self.kept[name]

    def read(self, position: int, batch: int) -> np.ndarray:
        """Its samples of the step at `position`, (batch / ranks, TOKENS)."""
        first, end = position + self.rank, position + batch
        shards, samples = self.order(np.arange(first, end, self.ranks))
        found = []
        for shard, sample in zip(shards, samples, strict=True):
            body = self.shard(f"{shard:05}.bin")
            at = int(sample) * BYTES
            found.append(np.frombuffer(body[at : at + BYTES], np.uint16))
        return np.array(found)


# --8<-- [end:rank]
def written() -> tuple[dict[str, bytes], dict[str, int]]:
    """Shards by name, and the index: each shard's checksum. The first token
    of a sample is its id."""
    objects = {}
    for shard in range(SHARDS):
        tokens = np.random.default_rng(shard).integers(
            0, 2**16, (SIZE, TOKENS), np.uint16
        )
        tokens[:, 0] = shard * SIZE + np.arange(SIZE)
        objects[f"{shard:05}.bin"] = tokens.tobytes()
    return objects, {name: zlib.crc32(body) for name, body in objects.items()}


# --8<-- [start:trained]
def trained(
    port: int,
    index: dict[str, int],
    ranks: int,
    begin: int,
    end: int,
    lanes: int = 4,
) -> list[int]:
    """The ids of the samples that steps from `begin` to `end` train on."""
    window = 8 // lanes  # as many shards at a time, with any lanes
    order = LaneOrder(SHARDS, SIZE, window, lanes, seed=0)
    readers = [Rank(port, index, order, i, ranks) for i in range(ranks)]
    ids: list[int] = []
    for position in range(begin, end, BATCH):
        for reader in readers:
            ids += reader.read(position, BATCH)[:, 0].tolist()
    return ids


# --8<-- [end:trained]
def main() -> None:
    """An epoch with four kinds of faults, stopped, resumed on fewer ranks; and
    what shards cost that belong to no lane."""
    objects, index = written()
    kinds = ["slow_down", "reset", "truncated", "flipped"]
    faults = {4 * i: kinds[i % 4] for i in range(100)}
    store, calm = Store(objects, faults), Store(objects, {})
    whole, half = SHARDS * SIZE, SHARDS * SIZE // 2
    with serving(store) as port:
        first = trained(port, index, 4, 0, half)
        asked = len(store.asked)
        rest = trained(port, index, 2, half, whole)
    ids, requests = first + rest, len(store.asked)
    print(f"4 ranks: {len(first)} samples, {asked} requests")
    print(f"2 ranks: {len(rest)} samples, {requests - asked} requests")
    failed = -(-requests // 4)  # each fourth
    print(f"requests that failed: {failed} of {requests}")
    print(f"samples missing: {whole - len({*ids})}, ", end="")
    print(f"trained on twice: {len(ids) - len({*ids})}")
    with serving(calm) as port:
        for lanes in (4, 1):
            before = len(calm.asked)
            trained(port, index, 4, 0, whole, lanes)
            asked = len(calm.asked) - before
            print(f"4 ranks, an epoch, lanes {lanes}: {asked} shards read")


if __name__ == "__main__":
    main()
