"""Read logs in one pass, in bounded memory: messages, exceptions, exits.

Most lines of a log differ from earlier lines in their digits only, so a block
is first reduced to its new kinds of lines. These are searched for some dozen
words; only lines that have one are decoded and matched. Of repeated messages
the first is kept, and the others are counted.
"""

from . import peers, progress
from .lines import front, number, plain, ranked, single, when
from .patterns import Index

BEHIND = 16 * 1024  # bytes kept for the lines above a hit
AHEAD = 64 * 1024  # bytes waited for, so that a traceback is whole
TAIL = 32 * 1024  # bytes that have the last line of each rank
LONGEST = 4096  # bytes of a line that are looked at
KEPT = 5000  # different events; later ones are only counted
FLOOD = 4000  # lines that differ in digits only; later ones are only counted
DIGITS = b"0123456789"
SHAPES = 50_000  # kinds of lines that are remembered, ...
SHORT = 400  # ... each of at most so many bytes
# What the scan reads by itself, whatever the messages are.
TRACEBACK = "Traceback (most recent call last)"
BUILT_IN = (
    TRACEBACK,
    "exitcode",
    "srun: error:",
    "WorkNCCL(",
    "last enqueued",
    "nranks",
    "global rank:",
    "OOMKilled",
    "Bootstrap",
    "RESTARTS",
    "rdzv_endpoint",
    "global_ranks=[",
    "Successfully assigned",
    "NVRM: Xid (",
)
# Exceptions that report somebody else's failure.
ECHOES = (
    "ChildFailedError",
    "ProcessRaisedException",
    "ProcessExitedException",
    "CalledProcessError",
    "DistBackendError",
    "DistNetworkError",
    "DistStoreError",
    "RendezvousConnectionError",
    "RendezvousClosedError",
    "SignalException",
    "KeyboardInterrupt",
    "SystemExit",
    "BrokenPipeError",
    "ConnectionResetError",
    "ConnectionRefusedError",
    "EOFError",
)
# Exceptions that programs handle all the time.
TRIVIAL = "Empty", "StopIteration", "KeyError", "AttributeError"
ECHO_WORDS = (
    "NCCL error",
    "NCCL communicator was aborted",
    "Connection closed by peer",
    "Broken pipe",
    "monitoredBarrier",
)


class Event:
    """Something that a log says, once or often.

    Attributes:
        id: the message's, or `python-exception`.
        title, role, layer: as in the message's data.
        rank: the rank that logged it, or None.
        local: its rank on its node, if `rank` isn't known, or None.
        blamed: the rank that the message names, or None.
        node: node that logged it or that it names, or "".
        pod: pod that Kubernetes names, or "".
        pid: process that it names, or None.
        time: (year or 0, seconds since New Year), or None.
        file: number of its file; `line` counts from 1.
        text: the line, shortened.
        count: how often it was logged.
        order: its place among all events, in the order of reading.
        frame: where in the reader's code an exception arose, or "".
        wrapped: whether it came out of handling an earlier exception.
        exact: whether its rank follows from the number of a process.
        doubt: why its rank may be wrong, or "".
    """

    def __init__(self, id: str, title: str, role: str, layer: str) -> None:
        self.id, self.title, self.role, self.layer = id, title, role, layer
        self.rank: int | None = None
        self.blamed: int | None = None
        self.pid: int | None = None
        self.time: tuple | None = None
        self.local: int | None = None
        self.node = self.text = self.frame = self.doubt = self.pod = ""
        self.fields: dict = {}
        self.file = self.line = self.order = 0
        self.count = 1
        self.wrapped = self.exact = False


class Exit:
    """How a process ended, by torchrun's or Slurm's report."""

    def __init__(self, code, pid, text: str) -> None:  # type: ignore[no-untyped-def]
        self.code, self.pid, self.text = code, pid, text
        self.rank: int | None = None
        self.local: int | None = None
        self.task: int | None = None  # srun's: a rank, or an agent
        self.time: tuple | None = None
        self.node = ""
        self.first = False  # torchrun saw no failure before it
        self.file = self.line = self.order = 0


class Scan:
    """The findings of all files, filled block by block.

    Args:
        index: messages to look for.
    """

    def __init__(self, index: Index) -> None:
        self.index = index
        self.words = list(index.words)
        self.words += [one for one in BUILT_IN if one not in self.words]
        self.codes = [word.encode() for word in self.words]
        self.events: list = []
        self.exits: list = []
        self.works: dict = {}  # by rank: what its watchdog says of collectives
        self.files: list = []
        self.homes: list = []  # for each file the node in its name, or ""
        self.locals: list = []  # for each file the local rank in its path
        self.heard: list = []  # for each file the nodes that its lines name
        self.own: list = []  # for each file the ranks in front of its lines
        self.called: list = []  # for each file the ranks that messages name
        self.tables: list = []  # (file, global ranks) of torchrun's tables
        self.ends: list = []  # the last line of each file that has a time
        self.last: list = []  # of each file, as `progress.last` returns it
        self.ranks: dict = {}  # rank: node, or ""
        self.addresses: dict = {}  # address: node or pod
        self.interfaces: dict = {}  # node: (interface of NCCL, its place)
        self.pods: dict = {}  # pod: node
        self.gpus: dict = {}  # (node, bus): (size, rank) of the largest group
        self.endpoints: list = []  # (rdzv_endpoint, its place)
        self.world = 0
        self.bytes = self.lines = self.dropped = 0
        self._known: dict = {}
        self._raisings: dict = {}  # the exception that began each chain
        self._shapes: dict = {}  # how often a kind of line was looked at
        self._dull: set = set()  # kinds of lines without a word
        self._hot: dict = {}  # the words of the other kinds
        self._bare = [_undigited(code) for code in self.codes]

    def begin(
        self,
        name: str,
        rank: int | None = None,
        node: str = "",
        local: int | None = None,
    ) -> None:
        """Start a file.

        Args:
            name: as it is shown.
            rank: rank that wrote it, if its path says so.
            node: node that wrote it, if its path says so.
            local: its rank on its node, if its path says so.
        """
        self.files.append(name)
        self.homes.append(node)
        self.locals.append(local)
        self.heard.append(set())
        self.own.append(set())
        self.called.append(set())
        self.rank, self.node, self.local = rank, node, local
        self.buffer, self.done, self.line = b"", 0, 1
        self.sampled = False
        self._read: list = []  # lines that belong to an exception seen before
        if rank is not None:
            self._saw(rank, node)

    def feed(self, block: bytes) -> None:
        """Take the next block of the file."""
        self.bytes += len(block)
        self.buffer = self.buffer[self.done - self._kept() :] + block
        self.done = self._kept_before
        if not self.sampled:
            self._sample()
        end = self.buffer.rfind(b"\n", self.done, len(self.buffer) - AHEAD)
        if end >= 0:
            self._search(end + 1)
        elif len(self.buffer) - self.done > 4 * AHEAD:
            self._search(len(self.buffer) - AHEAD)  # a line without an end

    def end(self) -> None:
        """Finish the file."""
        self._search(len(self.buffer))
        self.lines += self.line
        of = self.rank if self.local is None else progress.UNRANKED
        self.last.append(progress.last(self._tail(), of, self.node))
        for raw in self._above(len(self.buffer) + 1, 30):
            time = when(raw)
            if time is not None:
                self.ends.append(
                    {
                        "file": self.files[-1],
                        "number": len(self.files) - 1,
                        "rank": self.rank,
                        "node": self.node,
                        "time": time,
                        "text": single(plain(raw))[:200],
                    }
                )
                break
        self.buffer, self.done = b"", 0

    def _tail(self) -> list:
        """Return number and text of the file's last lines. Of a progress bar,
        which is one line to `split`, the last state counts."""
        start = max(0, len(self.buffer) - TAIL)
        rows = self.buffer[start:].split(b"\n")
        number_ = self.line - len(rows) + 1
        found = []
        for at, row in enumerate(rows):
            parts = [one for one in row[-LONGEST:].split(b"\r") if one]
            if parts:
                found.append((number_ + at, plain(_decoded(parts[-1][:600]))))
        return found

    def _kept(self) -> int:
        self._kept_before = min(BEHIND, self.done)
        return self._kept_before

    def _saw(self, rank: int, node: str) -> None:
        if node or rank not in self.ranks:
            self.ranks[rank] = node or self.ranks.get(rank, "")

    def _hear(self, ranks: set, rank, node: str) -> None:  # type: ignore[no-untyped-def]
        """Note which rank and node a line of the file names."""
        if rank is not None and len(ranks) < 9:
            ranks.add(rank)
        if node and len(self.heard[-1]) < 9:
            self.heard[-1].add(node)

    def _sample(self) -> None:
        """Learn which ranks the file has, from its first lines."""
        self.sampled = True
        for raw in self.buffer[: 32 * 1024].split(b"\n")[:300]:
            head = front(plain(_decoded(raw[:200])))
            if head.rank is not None:
                self._saw(head.rank, head.node or self.node)
            self._hear(self.own[-1], head.rank, head.node)

    def _search(self, limit: int) -> None:
        """Look at the lines up to a place in the buffer."""
        buffer = self.buffer
        hits: dict = {}
        for number_ in self._present(limit):
            code = self.codes[number_]
            at = buffer.find(code, self.done, limit)
            while at >= 0:
                start, end = self._span(at)
                if start not in hits:
                    hits[start] = (end, [])
                hits[start][1].append(number_)
                at = buffer.find(code, max(end, at + 1), limit)
        counted = self.done
        for start in sorted(hits):
            self.line += buffer.count(b"\n", counted, max(start, counted))
            counted = max(start, counted)
            end, numbers = hits[start]
            self._look(start, end, [self.words[n] for n in numbers])
        self.line += buffer.count(b"\n", counted, limit)
        self.done = limit

    def _present(self, limit: int):  # type: ignore[no-untyped-def]
        """Return the numbers of the words that may stand before a place."""
        if not hasattr(b"", "translate"):
            return range(len(self.codes))  # MicroPython, and small logs
        bare = _undigited(self.buffer[self.done : limit])
        words: set = set()
        fresh = []
        for shape in set(bare.replace(b"\r", b"\n").split(b"\n")):
            if shape in self._dull or self._shapes.get(shape, 0) > FLOOD:
                continue
            if shape in self._hot:
                words.update(self._hot[shape])
            else:
                fresh.append(shape)
        block = b"\n".join(fresh)
        new = [n for n, code in enumerate(self._bare) if code in block]
        if len(self._dull) + len(self._hot) > SHAPES:
            self._dull.clear()
            self._hot.clear()
        for shape in fresh:
            has = [n for n in new if self._bare[n] in shape] if new else []
            words.update(has)
            if len(shape) > SHORT:
                continue
            if has:
                self._hot[shape] = has
            else:
                self._dull.add(shape)
        return sorted(words)

    def _span(self, at: int):  # type: ignore[no-untyped-def]
        """Return where the line around a place begins and ends. A carriage
        return ends a line too: progress bars are made of them."""
        buffer = self.buffer
        start = buffer.rfind(b"\n", 0, at) + 1
        start = max(start, buffer.rfind(b"\r", start, at) + 1)
        end = buffer.find(b"\n", at)
        end = len(buffer) if end < 0 else end
        turn = buffer.find(b"\r", at, end)
        return start, turn if turn >= 0 else end

    def _look(self, start: int, end: int, words: list) -> None:
        """Match one line that has some of the words."""
        if self.line in self._read:
            self._read.remove(self.line)
            return
        bare = self.buffer[start : min(end, start + LONGEST)]
        if TRACEBACK not in words and self._flood(bare):
            return
        raw = plain(_decoded(bare))
        head = front(raw)
        rank = self.rank if head.rank is None else head.rank
        if rank is None:
            rank = _named(raw)
        if rank is None:
            rank = ranked(raw)
        line = single(raw)
        node = head.node or self.node or _cancelled(line)
        if rank is not None:
            self._saw(rank, node)
        mine = self.called if head.rank is None else self.own
        self._hear(mine[-1], rank, head.node)
        here = (rank, node, start, raw)
        if "WorkNCCL(" in words or "last enqueued" in words:
            self._work(rank, line)
        if not self.world and ("nranks" in words or "global rank:" in words):
            self._world(line)
        self._names(words, line, node, end)
        if "exitcode" in words:
            self._exit(start, node, raw, head.text)
            return
        if "received by PID" in line:
            return  # the report that the line above began
        if "srun: error:" in words and "task" in line:
            self._srun(raw, line)
        if TRACEBACK in words:
            if TRACEBACK + ":\\n" in raw:
                self._inline(start, end, rank, node)
            else:
                self._traceback(start, end, rank, node, head)
            return
        matched = self.index.match(line, words)
        if not matched and "NVRM: Xid (" in words:
            self._xid(line, here)
        for number_, fields in matched:
            entry = self.index.entries[number_]
            event = self._event(entry, fields, here)
            if event and event.id.startswith("kubernetes-"):
                self._pod(event, start)

    def _xid(self, line: str, here: tuple) -> None:
        """Keep an Xid that no message describes: NVIDIA's catalog has more."""
        gpu, _, rest = line[line.find("NVRM: Xid (") :].partition("): ")
        xid = number(rest, 0)
        if xid is not None:
            fields = {"gpu": gpu.partition("PCI:")[2], "xid": str(xid)}
            entry = {"id": "xid", "title": f"NVRM: Xid {xid}"}
            self._event(entry | {"role": "cause", "layer": "gpu"}, fields, here)

    def _names(self, words: list, line: str, node: str, end: int) -> None:
        """Note whose address is whose, and where torchrun's nodes meet."""
        if "Bootstrap" in words and node:
            name, address = peers.bootstrap(line)
            if address:
                self.addresses.setdefault(address, node)
                place = (len(self.files) - 1, self.line, line)
                self.interfaces.setdefault(node, (name, place))
        if "nranks" in words and node:
            at = peers.device(line)
            if at and at[1:] > self.gpus.get((node, at[0]), (0, None)):
                self.gpus[node, at[0]] = at[1:]
        if "RESTARTS" in words and " IP " in line and " NODE" in line:
            rows = self.buffer[end + 1 : end + AHEAD].split(b"\n")
            for pod, address, host in peers.pods([_decoded(r) for r in rows]):
                self.addresses[address], self.pods[pod] = pod, host
        if "Successfully assigned" in words:
            peers.assigned(line, self.pods)
        if "global_ranks=[" in words:
            ranks = peers.numbers(line[line.find("global_ranks=[") + 14 :])
            if ranks:
                self.tables.append((len(self.files) - 1, ranks))
        if "rdzv_endpoint" in words and " : " in line:
            place = (len(self.files) - 1, self.line, line)
            self.endpoints.append((line.split(" : ")[-1].strip(), place))

    def _flood(self, bare: bytes) -> bool:
        """Return whether a line came too often before, digits aside."""
        if not hasattr(bare, "translate"):
            return False  # MicroPython
        shape = _undigited(bare)
        times = self._shapes.get(shape, 0) + 1
        if len(self._shapes) > KEPT:
            self._shapes.clear()
        self._shapes[shape] = times
        self.dropped += times > FLOOD
        return times > FLOOD

    def _event(self, entry: dict, fields: dict, here: tuple):  # type: ignore[no-untyped-def]
        """Keep a message, or count it if the same was kept before."""
        rank, node, start, raw = here
        if fields.get("self", "").isdigit():
            rank = int(fields["self"]) if rank is None else rank
        named = fields.get("rank", "")
        blamed = int(named) if named.isdigit() else None
        host = fields.get("host", "")
        if host and not node:
            node = host
        key = (entry["id"], len(self.files), rank, node, blamed, named)
        return self._keep(key, entry, rank, node, blamed, start, raw, fields)

    def _keep(  # type: ignore[no-untyped-def]
        self, key, entry, rank, node, blamed, start, raw, fields
    ):
        known = self._known.get(key)
        if known:
            known.count += 1
            return None
        if len(self.events) >= KEPT:
            self.dropped += 1
            return None
        event = Event(
            entry["id"], entry["title"], entry["role"], entry["layer"]
        )
        event.rank, event.node, event.blamed = rank, node, blamed
        event.fields = fields
        pid = fields.get("pid", "")
        event.pid = int(pid) if pid.isdigit() else None
        event.time = self._time(start, raw)
        event.file, event.line = len(self.files) - 1, self.line
        event.text = single(raw)[:400]
        event.order = len(self.events) + len(self.exits)
        self._known[key] = event
        self.events.append(event)
        return event

    def _above(self, start: int, most: int) -> list:
        """Return up to `most` lines above a place, the nearest first."""
        found: list = []
        end = start - 1
        while end > 0 and len(found) < most:
            begin = self.buffer.rfind(b"\n", 0, end) + 1
            found.append(_decoded(self.buffer[begin : min(end, begin + 600)]))
            end = begin - 1
        return found

    def _time(self, start: int, raw: str):  # type: ignore[no-untyped-def]
        """Return the time of a line, or of the nearest line above."""
        found = when(raw)
        if found is None:
            for line in self._above(start, 30):
                found = when(line)
                if found is not None:
                    break
        return found

    def _work(self, rank, line: str) -> None:  # type: ignore[no-untyped-def]
        """Note which collective a rank's watchdog waited for."""
        if rank is None:
            return
        work = self.works.setdefault(rank, {})
        for name, before in (
            ("seq", "SeqNum="),
            ("enqueued", "last enqueued work: "),
            ("enqueued", "last enqueued NCCL work: "),
            ("completed", "last completed work: "),
            ("completed", "last completed NCCL work: "),
        ):
            at = line.find(before)
            if at >= 0 and name not in work:
                value = number(line, at + len(before))
                if value is not None:
                    work[name] = value
        at = line.find("OpType=")
        if at >= 0 and "op" not in work:
            work["op"] = line[at + 7 :].split(",")[0].split(")")[0]
        at = line.find("NumelIn=")
        if at >= 0 and "numel" not in work:
            work["numel"] = number(line, at + 8)

    def _world(self, line: str) -> None:
        for before in ("nranks ", "size: "):
            at = line.find(before)
            if at >= 0:
                self.world = number(line, at + len(before)) or 0

    def _exit(self, start: int, node: str, raw: str, text: str) -> None:
        """Read torchrun's report of a process that failed."""
        line = single(text)
        at = line.find("exitcode: ") if "exitcode: " in line else -1
        if line.startswith("exitcode :"):
            at = line.find(":") - 8
        if at < 0:
            return
        code = _signed(line, line.find(":", at) + 2)
        if code is None:
            return
        at = line.find("pid: ")
        found = Exit(code, number(line, at + 5) if at >= 0 else None, line)
        found.node, found.file, found.line = (
            node,
            len(self.files) - 1,
            self.line,
        )
        found.time = when(raw)
        at = line.find("local_rank: ")
        if at >= 0:
            found.local = number(line, at + 12)
        for above in self._above(start, 8):
            text_ = single(front(plain(above)).text)
            name, colon, value = text_.partition(" : ")
            if not colon and text_.startswith("Root Cause"):
                found.first = True
            if text_.startswith("[") or not colon:
                if "Root Cause" in text_ or text_.startswith("[") is False:
                    break
                continue
            if name == "rank":
                found.rank = number(value, 0)
                at = value.find("local_rank: ")
                found.local = number(value, at + 12) if at >= 0 else None
            elif name == "host":
                found.node = value.strip()
            elif name == "time":
                found.time = when(value)
        if found.rank is not None:
            self._saw(found.rank, found.node)
        for other in self.exits:
            if other.pid == found.pid and other.code == found.code:
                same = other.file == found.file and other.pid is not None
                if same:
                    # The agent's line, and then the report on the same process.
                    if other.rank is None:
                        other.rank, other.node = found.rank, found.node
                        other.line, other.text = found.line, found.text
                    other.first = other.first or found.first
                    return
        found.order = len(self.events) + len(self.exits)
        self.exits.append(found)

    def _srun(self, raw: str, line: str) -> None:
        """Read `srun: error: node: task 3: Out Of Memory`."""
        rest = line[line.find("srun: error:") + 13 :]
        parts = rest.split(": ")
        if len(parts) < 3 or not parts[1].startswith("task"):
            return
        what = parts[2].lower()
        codes = (
            ("out of memory", -9),
            ("killed", -9),
            ("segmentation fault", -11),
            ("bus error", -7),
            ("aborted", -6),
            ("terminated", -15),
        )
        code = None
        for name, value in codes:
            if what.startswith(name):
                code = value
        at = what.find("exit code ")
        if at >= 0:
            code = number(what, at + 10)
        if code is None:
            return
        found = Exit(code, None, line)
        task = parts[1].split(" ")[-1]
        found.task = int(task) if task.isdigit() else None
        found.node, found.time = parts[0], when(raw)
        found.file, found.line = len(self.files) - 1, self.line
        found.order = len(self.events) + len(self.exits)
        self.exits.append(found)

    def _pod(self, event: Event, start: int) -> None:
        """Name the pod and its node, where `kubectl describe` says it, or the
        pod in a row of `kubectl get events`."""
        at = event.text.find(" pod/")
        if at > 0:
            event.pod = event.text[at + 5 :].split(" ")[0]
            return
        for above in self._above(start, 60):
            name, colon, value = single(above).partition(": ")
            value = value.strip()
            if colon and name == "Reason" and "reason" not in event.fields:
                event.fields["reason"] = value
            elif colon and name == "Node" and not event.node:
                event.node = value.split("/")[0]
            elif colon and name == "Name" and above[:1] == "N":
                event.pod = value
                if event.node:
                    self.pods.setdefault(event.pod, event.node)
                return

    def _traceback(  # type: ignore[no-untyped-def]
        self, start: int, end: int, rank, node: str, head
    ) -> None:
        """Read an exception: its last line, and the frame of the reader's."""
        at, frame, deep = end + 1, "", len(_indent(head.text))
        wrapped = False
        for above in self._above(start, 4):
            text = front(plain(above)).text.strip()
            if text.startswith(("During handling of", "The above exception")):
                wrapped = True
        number_, text = self.line, ""
        for _ in range(400):
            if at >= len(self.buffer):
                return
            start = at
            stop = self.buffer.find(b"\n", at)
            stop = len(self.buffer) if stop < 0 else stop
            line = plain(_decoded(self.buffer[at : min(stop, at + LONGEST)]))
            number_ += 1
            at = stop + 1
            other = front(line)
            if other.rank != head.rank:
                continue  # another rank's line in between
            text = other.text.lstrip("+| ")
            if text.startswith("File ") and _is_own(text):
                frame = text
            inside = len(_indent(other.text)) > deep
            if not inside and _is_exception(single(text)):
                break
        else:
            return
        if rank is None:
            rank = self._again(at, single(text))
        event = self._raised(single(text), line, start, rank, node)
        self._read.append(number_)
        if event is None:
            return
        event.line = number_
        event.frame, event.wrapped = frame, wrapped
        self._chain(event)

    def _again(self, at: int, text: str):  # type: ignore[no-untyped-def]
        """Return the rank that a logger names when it repeats an exception in
        one of the next lines, or None."""
        for row in self.buffer[at : at + LONGEST].split(b"\n")[:3]:
            line = plain(_decoded(row))
            if text[:80] in single(line):
                return ranked(line)
        return None

    def _chain(self, event: Event) -> None:
        """Choose the exception of a chain that says what happened: the first,
        unless a later one is better known."""
        prior = self._raisings.get((event.file, event.rank))
        if event.wrapped and prior and prior.id == "python-exception":
            trivial = prior.title.split(".")[-1] in TRIVIAL
            if trivial or (event.id != prior.id and event.role != "echo"):
                prior.wrapped, event.wrapped = True, False
        if not event.wrapped:
            self._raisings[event.file, event.rank] = event

    def _inline(self, start: int, end: int, rank, node: str) -> None:  # type: ignore[no-untyped-def]
        """Read an exception in a line of JSON, where line breaks are escaped:
        of a structured log, or of torchrun's error file."""
        raw = _decoded(self.buffer[start : min(end, start + AHEAD)])
        text, frame = "", ""
        for part in raw[raw.find(TRACEBACK) :].split("\\n"):
            part = single(part.replace('\\"', '"'))
            if part.startswith("File ") and _is_own(part):
                frame = part
            quote = part.find('"', part.find(":"))
            if quote > 0 and not part.startswith("File "):
                part = part[:quote]
            if _is_exception(part):
                text = part
        event = text and self._raised(text, text, start, rank, node)
        if event:
            event.frame = frame

    def _raised(self, text: str, line: str, start: int, rank, node: str):  # type: ignore[no-untyped-def]
        """Keep an exception: the message that describes it, or its own."""
        words = [one for one in self.index.words if one in text]
        matched = self.index.match(text, words)
        if matched:
            entry, fields = self.index.entries[matched[0][0]], matched[0][1]
            return self._event(entry, fields, (rank, node, start, line))
        key = ("python", text[:80], len(self.files), rank, node)
        return self._keep(
            key,
            _exception(text),
            rank,
            node,
            None,
            start,
            line,
            {"error": text},
        )


def _exception(text: str) -> dict:
    """Return the entry of an exception that no message describes."""
    name = text.split(":")[0].split("(")[0].strip()
    echo = name.split(".")[-1] in ECHOES
    for word in ECHO_WORDS:
        echo = echo or word in text
    return {
        "id": "python-exception",
        "title": name or "Python exception",
        "role": "echo" if echo else "cause",
        "layer": "code",
    }


def _undigited(line: bytes) -> bytes:
    """Return a line without its digits, where Python can do it quickly."""
    if not hasattr(line, "translate"):
        return line
    return line.translate(None, DIGITS)


def _is_exception(line: str) -> bool:
    """Whether a line is an exception's: a name, and perhaps a message."""
    name = line.split(":")[0].split("(")[0].strip()
    last = name.split(".")[-1]
    if not last or name in ("INFO", "WARNING", "ERROR", "DEBUG", "CRITICAL"):
        return False
    for char in name:
        if not (char.isalpha() or char.isdigit() or char in "._"):
            return False
    if name == line and "." not in name:  # without a message
        for end in ("Error", "Exception", "Interrupt", "Exit", "Iteration"):
            if name.endswith(end):
                return True
        return False
    return "." in name or "A" <= last.lstrip("_")[:1] <= "Z"


def _is_own(frame: str) -> bool:
    """Whether a frame of a traceback is the reader's code."""
    for library in ("site-packages", "/lib/python", "<frozen", "/bin/"):
        if library in frame:
            return False
    return True


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeError:
        return "".join([chr(one) if one < 128 else "?" for one in raw])


def _indent(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]


def _signed(text: str, at: int):  # type: ignore[no-untyped-def]
    if text[at : at + 1] == "-":
        value = number(text, at + 1)
        return None if value is None else -value
    return number(text, at)


def _cancelled(line: str) -> str:
    """Return the node of `*** STEP 7.0 ON node CANCELLED AT …`, or ""."""
    words = line.split(" CANCELLED AT ")[0].split(" ON ")
    if len(words) == 2 and " " not in words[1] and "***" in words[0]:
        return words[1]
    return ""


def _named(line: str):  # type: ignore[no-untyped-def]
    """Return the rank of `[Rank 3]`, which C++ messages carry, or None."""
    at = line.find("Rank ")
    while at >= 0:
        rank = number(line, at + 5)
        if rank is not None:
            after = line[at + 5 + len(str(rank)) :]
            if after[:1] == "]":
                return rank
        at = line.find("Rank ", at + 1)
    return None
