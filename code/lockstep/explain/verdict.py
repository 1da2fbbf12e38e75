"""Decide which event was the first fault, and which are its echoes."""

from .lines import clock
from .peers import accused, awaited, bus
from .progress import apart
from .scan import Scan

# Seconds: clocks of two nodes differ by as much, and the kernel's log may be
# that late.
TOGETHER = 5.0
SILENT = 10  # minutes without a line, before a scheduler ended the job
EARLY = 30.0  # by as much a log ends before the others that ended first
KERNEL_BEFORE, KERNEL_AFTER = 900.0, 120.0
SIGNALS = {
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    15: "SIGTERM",
}
# What a signal that nothing else explains usually means, what to look at.
FATAL = {
    9: (
        "the kernel's OOM killer ended it, or somebody outside did",
        "host",
        "sudo journalctl -k | grep -iE 'oom|killed process'",
        "a kill at that time (the pid is the host's, not the container's)",
    ),
    11: (
        "native code read memory that it doesn't own",
        "code",
        "PYTHONFAULTHANDLER=1 in the next run's environment",
        "the Python stack at the crash",
    ),
    7: (
        "shared memory or a mapped file had no space behind it",
        "host",
        "df -h /dev/shm",
        "a full /dev/shm, or a small one (containers have 64 MB by default)",
    ),
    4: (
        "the binary uses instructions that this CPU doesn't have",
        "host",
        "lscpu | grep -i flags",
        "a CPU that differs from the other nodes' CPUs",
    ),
    8: (
        "native code divided by zero",
        "code",
        "PYTHONFAULTHANDLER=1 in the next run's environment",
        "the Python stack at the crash",
    ),
}
QUESTIONS = (
    (
        "Which rank stopped first?",
        "Compare the last line of each rank's log: the rank whose last line is"
        " the oldest, or whose step is the lowest, stopped first.",
    ),
    (
        "With which exit code or signal did each process end?",
        "torchrun prints `exitcode` for each rank; on Slurm run `sacct -j JOB"
        " --format=JobID,NodeList,State,ExitCode,MaxRSS`; on Kubernetes run"
        " `kubectl describe pod POD`.",
    ),
    (
        "What does the kernel of each node say about that minute?",
        "Run `sudo journalctl -k | grep -iE 'xid|oom|nvlink|mlx5|nfs|i/o"
        " error'` on the nodes, and pass the output to this command together"
        " with the logs.",
    ),
    (
        "What changed since the last good run?",
        "Code, image, driver, data, node list, batch size: start with the"
        " change that touched the step at which the run stopped.",
    ),
)
# A cause is at most so long before its first echo: the longest usual timeout.
WINDOW = 2700.0
# Messages that report how a process ended and not why, or only warn.
REPORTS = (
    "guessing-device-id-based-on-global-rank",
    "exitcode-1",
    "exitcode-minus-6-sigabrt",
    "process-group-watchdog-thread-terminated-with-exception",
    "received-death-signal",
    "root-cause-first-observed-failure",
    "slurm-exited-with-exit-code",
)
MACHINE = "gpu", "host", "network", "storage"
KERNEL = ("NVRM:", "Xid (", "oom-kill", "ut of memory: Killed", "invoked oom")


def judge(scan: Scan, dumps: dict | None = None) -> dict:
    """Return the verdict on what a scan found.

    Args:
        scan: a finished Scan.
        dumps: what the flight recorder's dumps say, if there were any.

    Returns:
        `known`: whether a first fault is named; `headline`; `id`, `title` and
        `text` of the message; `rank`, `ranks` and `node` that it points to;
        `confidence` in words, and `why`; `evidence`; `check` and `causes` from
        the message's entry; `hang`; `echoes`; `exits`; `questions` to ask if
        nothing is known.
    """
    return _Judge(scan, dumps).verdict()


class _Judge:
    """One verdict."""

    def __init__(self, scan, dumps) -> None:  # type: ignore[no-untyped-def]
        self.scan, self.dumps = scan, dumps
        self.entries = {entry["id"]: entry for entry in scan.index.entries}
        years = [e.time[0] for e in scan.events + scan.exits if e.time]
        self.year = max(years) if years else 0
        self.reported = [one.rank for one in scan.exits if one.first]
        self.nodes = {r: n for r, n in scan.ranks.items() if n}
        for one in scan.exits:
            if one.rank is not None and one.node:
                self.nodes[one.rank] = one.node
        self._globals()
        for event in scan.events:
            self._place(event)
            if "Root Cause (first observed" in event.text:
                event.role = "echo"  # torchrun's report, and no message
        for event in scan.events:
            if "NCCL error in" in event.text and self.follows(event):
                event.role = "echo"  # its own last line says more

    def _globals(self) -> None:
        """Give exits that have only a local rank their rank and node, from
        another report on the same node: a node's ranks follow each other."""
        for one in self.scan.exits:
            if one.rank is not None or one.local is None:
                continue
            for other in self.scan.exits:
                known = other.rank is not None and other.local is not None
                if known and other.file == one.file:
                    one.rank = other.rank - other.local + one.local
                    one.node = one.node or other.node
                    break

    def _place(self, event) -> None:  # type: ignore[no-untyped-def]
        """Give an event the rank and node that other lines know."""
        if event.rank is None:
            for one in self.scan.exits:
                if one.rank is not None and self.about(event, one):
                    event.rank = one.rank
                    event.exact = bool(one.pid and _has(event.text, one.pid))
                    event.doubt = self.doubt(event, one)
                    event.node = event.node or one.node
        if event.rank is None and event.node:
            gpu = bus(event.fields.get("gpu", ""))
            event.rank = self.scan.gpus.get((event.node, gpu), (0, None))[1]
        if not event.node and event.rank in self.nodes:
            event.node = self.nodes[event.rank]

    def follows(self, event) -> bool:  # type: ignore[no-untyped-def]
        """Whether a message stands in the lines that belong to an NCCL error:
        `Last error:` and what NCCL said."""
        for other in self.scan.events:
            below = 0 < other.line - event.line <= 4
            same = other.file == event.file and other.rank == event.rank
            if below and same and other.role != "echo":
                return True
        return False

    def about(self, event, one) -> bool:  # type: ignore[no-untyped-def]
        """Whether an event tells of the process that a report tells of: in the
        same line, by its number, or as the only one out of memory."""
        if one.file == event.file and one.line == event.line:
            return True
        apart = self.gap(event, one)
        if apart is not None and apart > KERNEL_BEFORE and not _depth(event):
            return False
        if one.pid and one.pid > 99 and _has(event.text, one.pid):
            return True
        elsewhere = event.node and one.node and event.node != one.node
        low = event.text.lower()
        oom = "oom" in low or "out of memory: killed" in low
        return oom and not elsewhere and self.killed_alone() is one

    def doubt(self, event, one) -> str:  # type: ignore[no-untyped-def]
        """Say why a kernel's line may be about another process than the report
        that lent it a rank, or nothing.

        The kernel prints the host's process ids, and torchrun in a container
        prints the container's. Equal numbers are proof only if the node and
        the minute agree, too.
        """
        if _depth(event) or (one.file, one.line) == (event.file, event.line):
            return ""
        if not event.exact:
            return "only one process was killed, but no pid confirms it"
        apart = self.gap(event, one)
        if event.node and event.node == one.node and apart is not None:
            return ""
        return "the pids agree, but a container has its own pids"

    def gap(self, event, one):  # type: ignore[no-untyped-def]
        """Return the seconds between two lines; None if one has no time."""
        if self.at(event) is None or self.at(one) is None:
            return None
        return abs(self.at(event) - self.at(one))

    def killed_alone(self):  # type: ignore[no-untyped-def]
        """Return the only exit by signal 9, or None."""
        found = [one for one in self.scan.exits if _signal(one.code) == 9]
        return found[0] if len(found) == 1 else None

    def at(self, event):  # type: ignore[no-untyped-def]
        """Return an event's time in seconds, or None."""
        return self.seconds(event.time) if event.time else None

    def seconds(self, time: tuple) -> float:
        """Return a time in seconds, with 366 days to each year, which keeps
        the order."""
        year, seconds = time
        return (year or self.year) * 366 * 86400.0 + seconds

    def verdict(self) -> dict:
        """Return the verdict."""
        causes = [
            e for e in self.scan.events if e.role == "cause" and not e.wrapped
        ]
        causes = self.timely(causes)
        if causes:
            cause = self.first(causes)
            return self.stalled(cause) or self.blame(cause)
        fatal = self.fatal()
        hang = self.hang()
        if fatal:
            return self.killed(fatal)
        if self.dumps and self.dumps.get("suspects"):
            return self.dumped()
        named = self.named() or self.awaited() or self.parted()
        if named:
            return named
        others = [
            e
            for e in self.scan.events
            if e.role == "either" and e.id not in REPORTS
        ]
        # What a machine says is no echo of a collective that timed out.
        machine = [e for e in others if e.layer in MACHINE]
        if machine:
            return self.perhaps(self.first(machine))
        if hang and hang["suspects"]:
            return self.absent(hang)
        if not hang and not others:
            for event in self.scan.events:
                stalled = self.stalled(event)
                if stalled:
                    return stalled
        if others and not hang:
            return self.perhaps(self.first(others))
        return self.unknown(hang)

    def timely(self, causes: list) -> list:
        """Drop causes from long before the failure: an Xid of last week in a
        kernel's log, an exception that the program survived."""
        # A machine's warnings come at any time and don't date the failure.
        echoes = [
            e
            for e in self.scan.events
            if e.role != "cause"
            and (e.role == "echo" or e.rank is not None or not _is_machine(e))
        ]
        times = [self.at(e) for e in echoes + self.scan.exits if self.at(e)]
        other = [self.at(e) for e in causes if _depth(e) and self.at(e)]
        if not times and not other:
            return causes
        end = min(times or other)
        kept = []
        for event in causes:
            at = self.at(event)
            early = KERNEL_BEFORE if not _depth(event) and not times else WINDOW
            if at is None or at >= end - early:
                kept.append(event)
        # An old exception is better than none, but not an old kernel's line.
        return kept or [event for event in causes if _depth(event)]

    def first(self, events: list):  # type: ignore[no-untyped-def]
        """Return the event that came first, or that explains the first."""
        timed = [e for e in events if self.at(e) is not None]
        if not timed:
            return min(events, key=self.rising)
        start = min([self.at(e) for e in timed])
        early = [e for e in timed if self.at(e) <= start + TOGETHER]
        best = min(early, key=self.rising)
        untimed = [e for e in events if self.at(e) is None]
        if best.layer == "scheduler" and untimed:
            # A job that hangs after an exception ends at its time limit.
            return min(untimed, key=self.rising)
        # What a kernel says made what the programs on its node say.
        for event in events:
            if _depth(event) or event is best or not _depth(best):
                continue
            same = not event.node or not best.node or event.node == best.node
            late = self.at(event)
            near = late is None or (
                -KERNEL_BEFORE <= late - self.at(best) <= KERNEL_AFTER
            )
            if same and near:
                return event
        return best

    def rising(self, event) -> tuple:  # type: ignore[no-untyped-def]
        """Sort events: those of kernels and schedulers first, and of these
        the ones that name a process; then those of the ranks that torchrun
        saw fail first; then by time."""
        deep = _depth(event)
        silent = 0 if deep or event.exact else 1
        later = int(event.rank is None or event.rank not in self.reported)
        return deep, silent, later, self.at(event) or 0, event.order

    def fatal(self):  # type: ignore[no-untyped-def]
        """Return the exit by a signal that no message explains, or None."""
        found = [one for one in self.scan.exits if _signal(one.code) in FATAL]
        if not found:
            return None
        firsts = [one for one in found if one.first]
        reported = [one for one in self.scan.exits if one.first]
        if reported and not firsts:
            return None  # ended by the launcher, after another one failed
        return min(
            firsts or found, key=lambda one: (self.at(one) or 1e18, one.order)
        )

    def hang(self):  # type: ignore[no-untyped-def]
        """Return who waited for what when the watchdogs gave up, or None.

        A rank that enqueued less than the others, that waits for something
        else, or that says nothing is a suspect.
        """
        works = {r: w for r, w in self.scan.works.items() if w}
        if not works:
            return None
        world = self.scan.world
        known = set(self.scan.ranks)
        if world:
            known |= set(range(world))
        else:
            known |= set(range(max(known) + 1)) if known else set()
        absent = sorted(known - set(works))
        found = {
            "works": [dict(works[r], rank=r) for r in sorted(works)],
            "absent": absent,
            "suspects": [],
            "why": "",
            "sure": "low",
        }
        behind = _behind(works, "enqueued") or _behind(works, "seq")
        if behind:
            ranks, low, high = behind
            found["suspects"] = ranks
            found["sure"] = "medium"
            found["why"] = (
                f"{_ranks(ranks)} got only as far as collective {low}; the"
                f" others were already at {high}"
            )
            return found
        odd = _odd(works)
        if odd:
            ranks, theirs, others = odd
            found["suspects"], found["sure"] = ranks, "medium"
            found["why"] = (
                f"{_ranks(ranks)} called {theirs} where the others called"
                f" {others}"
            )
            return found
        if absent and len(absent) <= max(1, len(known) // 2):
            found["suspects"] = absent
            found["sure"] = "medium" if world else "low"
            found["why"] = (
                f"{len(works)} of {len(known)} ranks waited for the same"
                f" collective, and {_ranks(absent)} logged nothing about it"
            )
        return found

    # What is said about each kind of fault.

    def base(self, event) -> dict:  # type: ignore[no-untyped-def]
        """Return the parts of a verdict that come from an event."""
        entry = self.entries.get(event.id, {})
        return {
            "known": True,
            "id": event.id,
            "title": event.title,
            "layer": event.layer,
            "rank": event.rank,
            "ranks": [] if event.rank is None else [event.rank],
            "node": event.node,
            "text": event.text,
            "frame": event.frame,
            "means": entry.get("means", ""),
            "check": entry.get("confirm", []),
            "causes": entry.get("causes", []),
            "otherwise": entry.get("otherwise", ""),
            "see": entry.get("see", []),
            "page": page(event.id) if entry else "",
            "evidence": [self.shown(event)],
        }

    def blame(self, event) -> dict:  # type: ignore[no-untyped-def]
        """Name a cause."""
        found = self.base(event)
        ranks, many = self.shared(event, found)
        if not many and event.blamed is not None and event.layer == "peer":
            found["rank"], found["ranks"] = event.blamed, [event.blamed]
            found["node"] = self.nodes.get(event.blamed, "")
        elif (
            not many
            and event.blamed is not None
            and event.rank not in (None, event.blamed)
        ):
            # Two ranks that differ: the message can't say which is wrong.
            found["rank"] = None
            found["ranks"] = sorted({event.rank, event.blamed})
        others = [
            e
            for e in self.scan.events
            if e.role == "cause"
            and not e.wrapped
            and not _same(e, event)
            and not (e.file == event.file and e.line == event.line)
        ]
        if many:
            why = (
                f"{_ranks(ranks)} logged it together, so look at what they"
                " share before you suspect a machine"
            )
            sure = "high"
        elif not others:
            why = "it is the only message here that is a cause, not an echo"
            sure = "high"
        elif self.at(event) is not None and all(
            self.at(e) is not None or self.leads(event, others) for e in others
        ):
            why = "it came before every other cause in these logs"
            sure = "medium"
        else:
            why = (
                "other causes are here too, and not all lines have a time:"
                f" see {others[0].title!r}"
            )
            sure = "low"
        if event.rank is not None and not many:
            for one in self.scan.exits:
                if one.first and one.rank == event.rank:
                    why += "; torchrun saw this rank fail first"
                    sure = "high"
        if event.doubt and found["rank"] == event.rank:
            why += f"; its rank is less certain: {event.doubt}"
            sure = "medium" if sure == "high" else sure
        hung = self.hung(event)
        if hung:
            sure = "low"
            why = f"{hung}, so the job may have hung before it was ended"
        return self.finished(found, sure, why)

    def leads(self, event, others: list) -> bool:  # type: ignore[no-untyped-def]
        """Whether a kernel's line is older than all causes that have a time.
        Causes without a time don't count then: what programs and schedulers
        say follows from what a kernel says."""
        if _depth(event) or event.layer == "scheduler":
            return False
        times = [self.at(e) for e in others if self.at(e) is not None]
        return not times or self.at(event) <= min(times)

    def stalled(self, event):  # type: ignore[no-untyped-def]
        """Say that a job hung before a scheduler ended it, and which ranks
        logged something else than the others before that; or None."""
        if event.layer != "scheduler" or "CANCELLED AT" not in event.text:
            return None
        if event.role == "cause" and "TIME LIMIT" not in event.text:
            return None  # preempted, or the node failed
        hung = self.hung(event)
        if not hung:
            return None
        found = self.base(event)
        found["known"], found["stalled"] = True, True
        found["title"] = "the job hung, and the scheduler only ended it"
        found["rank"], found["ranks"], found["node"] = None, [], ""
        found["causes"] = []
        found["means"] = (
            "No rank logged any progress for a long time before the scheduler"
            " ended the job. Its message is the end of a hang, not the fault."
        )
        found["check"] = [
            {
                "do": "py-spy dump --pid PID on every rank, if it hangs again",
                "look": "the ranks whose main thread stands elsewhere",
            },
            {
                "do": "the last line of each rank",
                "look": "a branch that not all ranks take, with a collective"
                " in it: saving, evaluation, an early exit",
            },
        ]
        why = f"{hung}, so the job may have hung before it was ended"
        last: dict = {}
        for number, one in enumerate(self.scan.last):
            for rank in one["ranks"]:
                last[rank] = dict(one["ranks"][rank], file=number)
        odd = apart(last)
        if not odd:
            return self.finished(found, "low", why)
        ranks, usual = odd
        found["rank"] = ranks[0] if len(ranks) == 1 else None
        found["ranks"] = ranks
        nodes = {last[r]["node"] or self.nodes.get(r, "") for r in ranks}
        found["node"] = min(nodes) if len(nodes) == 1 else ""
        found["title"] = "logged something else last, and then the job hung"
        found["evidence"] = [
            self.cited(one["file"], one["line"], one["text"], one["time"])
            for one in (last[ranks[0]], last[usual[0]])
        ] + found["evidence"]
        others = f"{len(usual)} other ranks ended with an equal line"
        return self.finished(found, "medium", f"{others}, and {hung}")

    def hung(self, event) -> str:  # type: ignore[no-untyped-def]
        """Say how long no rank had logged anything when a scheduler ended the
        job, if that was long."""
        if event.layer != "scheduler" or self.at(event) is None:
            return ""
        # A preempted job is told some minutes before it is ended.
        told = [e for e in self.scan.events if e.layer == "scheduler"]
        at = min([self.at(e) for e in told if self.at(e) is not None])
        ends = [
            (self.seconds(one["time"]), n)
            for n, one in enumerate(self.scan.last)
            if one["time"]
        ]
        if not ends:
            return ""
        end, number = max(ends)
        minutes = (at - end) / 60
        if minutes < SILENT:
            return ""
        when = clock(self.scan.last[number]["time"][1])
        return (
            f"the last line of a rank ({when}) is {minutes:.0f} minutes older"
        )

    def awaited(self):  # type: ignore[no-untyped-def]
        """Name the rank whose key the other ranks waited for in vain, if it
        neither failed nor complained."""
        waits: dict = {}
        for event in self.scan.events:
            of = awaited(event.text)
            if of is not None:
                waits.setdefault(of, []).append(event)
        if len(waits) != 1:
            return None
        [(rank, events)] = waits.items()
        heard = [e.rank for e in self.scan.events + self.scan.exits]
        if rank in heard:
            return None
        found = self.base(self.first(events))
        victims = sorted({e.rank for e in events if e.rank is not None})
        who = _ranks(victims) if victims else "other ranks"
        found["rank"], found["ranks"] = rank, [rank]
        found["node"] = self.nodes.get(rank, "")
        found["title"] = f"{who} waited for its key in the store"
        found["means"] = (
            f"Every rank gets NCCL's id from rank {rank} through the store."
            f" Rank {rank} hadn't come to that point when the timeout ended:"
            " it was still busy, for example with preparing data, or it hung."
        )
        found["check"] = [
            {
                "do": f"the last lines of rank {rank} before the timeout",
                "look": "a progress bar, a download, or a step that only this"
                " rank does",
            },
        ] + list(found["check"])
        why = f"{who} timed out, and rank {rank} logged no failure"
        return self.finished(found, "medium", why)

    def parted(self):  # type: ignore[no-untyped-def]
        """Say that torchrun's agents were told to meet at different places, if
        they didn't meet; or None."""
        places = dict(reversed(self.scan.endpoints))
        files = {place[0] for place in places.values()}
        if len(places) < 2 or len(files) < len(places):
            return None
        failed = [
            e
            for e in self.scan.events
            if "endezvous" in e.text or "client socket has" in e.text
        ]
        if not failed or self.scan.works:
            return None
        found = self.base(self.first(failed))
        named = sorted(places)
        found["title"] = f"rdzv_endpoint differs: {' and '.join(named)}"
        found["rank"], found["ranks"], found["node"] = None, [], ""
        found["means"] = (
            "Nodes meet at the rendezvous endpoint. Agents that were given"
            " different endpoints wait for each other until the timeout."
        )
        found["check"] = [
            {
                "do": "grep -h rdzv_endpoint logs/* | sort | uniq -c",
                "look": "one address and one port on all nodes",
            }
        ]
        found["causes"] = []
        found["evidence"] = [
            self.cited(*places[one][:3]) for one in named
        ] + found["evidence"]
        why = "the agents print different endpoints, and they never met"
        return self.finished(found, "medium", why)

    def shared(self, event, found: dict) -> tuple:  # type: ignore[no-untyped-def]
        """Return the ranks of the equal events, and whether several ranks
        logged it together; then the verdict names no single rank."""
        same = [e for e in self.scan.events if _same(e, event)]
        ranks = sorted({e.rank for e in same if e.rank is not None})
        many = len(ranks) > 1 and not self.apart(same)
        if many:
            nodes = {e.node for e in same}
            found["rank"], found["ranks"] = None, ranks
            found["node"] = event.node if len(nodes) == 1 else ""
            found["evidence"] = [self.shown(e) for e in same[:3]]
        elif len(ranks) == 1 and event.rank is None:
            # The library's own line has no rank, but the exception has.
            found["rank"], found["ranks"] = ranks[0], ranks
        return ranks, many

    def apart(self, events: list) -> bool:
        """Whether the first of equal events came clearly before the others."""
        times = sorted([self.at(e) for e in events if self.at(e) is not None])
        if len(times) < len(events):
            return False
        return times[1] - times[0] > TOGETHER

    def killed(self, one) -> dict:  # type: ignore[no-untyped-def]
        """Name a signal that nothing else explains."""
        signal = _signal(one.code)
        usual, layer, do, look = FATAL[signal]
        found = {
            "known": True,
            "id": f"exitcode-{signal}",
            "title": f"{SIGNALS[signal]} ended a process",
            "layer": layer,
            "rank": one.rank,
            "ranks": [] if one.rank is None else [one.rank],
            "node": one.node or self.nodes.get(one.rank, ""),
            "text": one.text,
            "frame": "",
            "means": f"Signal {signal} ended the process; usually {usual}.",
            "check": [{"do": do, "look": look}],
            "causes": [],
            "otherwise": "",
            "see": ["reliability/failures/index.md"],
            "page": "",
            "evidence": [self.shown(one)],
        }
        # The data may have an entry for that exit code, with a page.
        words = [w for w in self.scan.index.words if w in one.text]
        for n, _ in self.scan.index.match(one.text, words):
            entry = self.scan.index.entries[n]
            if entry["role"] != "echo":
                found["id"], found["page"] = entry["id"], page(entry["id"])
                found["check"] = entry.get("confirm", [])
                found["causes"] = entry.get("causes", [])
                break
        if one.rank is None and one.local is not None:
            found["local"] = f"local rank {one.local}"
        equal = [e for e in self.scan.exits if e.code == one.code]
        if len(equal) > 1 and one.rank is not None:
            ranks = sorted({e.rank for e in equal if e.rank is not None})
            found["ranks"] = ranks
        why = "a signal can't be an echo unless the launcher sent it"
        if one.first:
            why = "torchrun saw this process fail first, without an exception"
        return self.finished(found, "medium", why)

    def absent(self, hang: dict) -> dict:
        """Name the ranks that the others waited for."""
        events = [e for e in self.scan.events if "WorkNCCL(" in e.text]
        events = events or [e for e in self.scan.events if e.role != "cause"]
        found = self.base(self.first(events)) if events else self.nothing()
        suspects = hang["suspects"]
        found["known"] = True
        found["rank"] = suspects[0] if len(suspects) == 1 else None
        found["ranks"] = suspects
        nodes = sorted({self.nodes.get(r, "") for r in suspects} - {""})
        found["node"] = nodes[0] if len(nodes) == 1 else ""
        found["hang"] = hang
        found["means"] = (
            "The collective timed out because not every rank joined it. The"
            " ranks that complain are victims. A rank that hangs inside the"
            " NCCL call looks absent, too."
        )
        who = _ranks(suspects)
        found["check"] = [
            {
                "do": f"the last lines and the exit code of {who}",
                "look": "an exception, a signal, or a step that the others"
                " have passed",
            },
            {
                "do": "py-spy dump --pid PID on that rank, if it still runs",
                "look": "where the main thread stands",
            },
        ] + list(found["check"])
        return self.finished(found, hang["sure"], hang["why"])

    def dumped(self) -> dict:
        """Name what the flight recorder's dumps show."""
        found = self.nothing()
        dumps = self.dumps
        suspects = dumps["suspects"]
        found["known"] = True
        found["title"] = dumps["title"]
        found["rank"] = suspects[0] if len(suspects) == 1 else None
        found["ranks"] = suspects
        found["means"] = dumps["means"]
        found["check"] = [
            {
                "do": f"the last lines and the exit code of {_ranks(suspects)}",
                "look": "why this rank didn't join",
            }
        ]
        return self.finished(found, dumps["sure"], dumps["why"])

    def named(self):  # type: ignore[no-untyped-def]
        """Name the rank that a barrier's message names."""
        for event in self.scan.events:
            if event.blamed is None or "arrier" not in event.text:
                continue
            if "failed to pass" not in event.text:
                continue
            found = self.base(event)
            found["rank"], found["ranks"] = event.blamed, [event.blamed]
            found["node"] = self.nodes.get(event.blamed, "")
            return self.finished(
                found,
                "medium",
                f"the barrier names rank {event.blamed} as the missing rank",
            )
        return None

    def perhaps(self, event) -> dict:  # type: ignore[no-untyped-def]
        """Name a message that may be the cause."""
        lost = event.layer == "network" and self.lost(event)
        if lost:
            return lost
        found = self.base(event)
        self.shared(event, found)
        return self.finished(
            found,
            "low",
            "this message can be the cause or an echo, and nothing here came"
            " before it",
        )

    def lost(self, event):  # type: ignore[no-untyped-def]
        """Name the peer that several nodes lost, or return None."""
        same = [e for e in self.scan.events if e.id == event.id]
        blamed = accused(same, self.scan.homes)
        if not blamed:
            return None
        host, count = blamed
        found = self.base(event)
        found["rank"], found["ranks"] = None, []
        found["node"] = self.scan.addresses.get(host, host)
        why = f"{count} peers lost {host} at once"
        node = self.scan.pods.get(found["node"])
        if node:
            why += f", which is {found['node']} on {node}"
        why += ": read its log, its kernel's log and its link counters"
        return self.finished(found, "low", why)

    def unknown(self, hang) -> dict:  # type: ignore[no-untyped-def]
        """Say that nothing, or only echoes, were found."""
        echoes = [e for e in self.scan.events if e.role != "cause" or e.wrapped]
        found = self.base(self.first(echoes)) if echoes else self.nothing()
        found["known"] = False
        found["rank"], found["ranks"], found["node"] = None, [], ""
        why = "no known message is in these logs"
        if echoes:
            why = "every known message here is an echo of an earlier fault"
        failed = [one for one in self.scan.exits if one.first]
        store = [e for e in echoes if _is_store(e)]
        if failed and failed[0].rank is not None:
            one = failed[0]
            found["rank"], found["ranks"] = one.rank, [one.rank]
            found["node"] = one.node
            found["evidence"] = [self.shown(one)]
            found["text"] = one.text
            why = (
                f"torchrun saw rank {one.rank} fail first (exit code"
                f" {one.code}), but the reason isn't here: read that rank's log"
            )
        elif store and not [r for r in self.quiet() if r != 0]:
            found["rank"], found["ranks"] = 0, [0]
            found["node"] = self.nodes.get(0, "")
            why = (
                "the store went away, and its host is rank 0 or the first"
                " node's torchrun: read its log"
            )
        own = [
            e
            for e in echoes
            if e.layer in MACHINE and e.rank is not None and not _is_store(e)
        ]
        if own and not found["ranks"] and len({e.rank for e in own}) == 1:
            found = self.base(own[0]) | {"known": False}
            why = (
                "the message of this rank is an echo of something on its own"
                " node that isn't in these logs"
            )
        peers = {e.fields.get("host", "") for e in echoes if e.layer == "peer"}
        peers.discard("")
        if len(peers) == 1 and not found["ranks"]:
            [found["node"]] = peers
            why = (
                "every known message here is an echo, and they name the peer"
                f" {found['node']}: read its log"
            )
        early = self.early()
        if early and not found["ranks"] and not found["node"]:
            end, seconds = early
            if end["rank"] is not None:
                found["rank"], found["ranks"] = end["rank"], [end["rank"]]
            found["node"] = end["node"]
            why = f"{end['file']} ends {seconds:.0f} s before the other logs"
        if hang:
            found["hang"] = hang
            if not echoes or "WorkNCCL(" in found["text"]:
                why = (
                    "every rank waited for the same collective: no rank stands"
                    " out, so compare stacks (py-spy) and check the network"
                )
        return self.finished(found, "none", why)

    def early(self):  # type: ignore[no-untyped-def]
        """Return the log that ends clearly before all others, and by how many
        seconds; or None."""
        ends = [
            (self.seconds(one["time"]), n)
            for n, one in enumerate(self.scan.ends)
        ]
        if len(ends) < 2:
            return None
        ends.sort()
        gap = ends[1][0] - ends[0][0]
        return (self.scan.ends[ends[0][1]], gap) if gap > EARLY else None

    def quiet(self) -> list:
        """Return the ranks that logged no message at all."""
        loud = {e.rank for e in self.scan.events}
        return sorted(set(self.scan.ranks) - loud)

    def nothing(self) -> dict:
        """Return a verdict without an event."""
        return {
            "known": False,
            "id": "",
            "title": "",
            "layer": "",
            "rank": None,
            "ranks": [],
            "node": "",
            "text": "",
            "frame": "",
            "means": "",
            "check": [],
            "causes": [],
            "otherwise": "",
            "see": [],
            "page": "",
            "evidence": [],
        }

    def finished(self, found: dict, sure: str, why: str) -> dict:
        """Add what every verdict has."""
        found["confidence"], found["why"] = sure, why
        found.setdefault("hang", None)
        found["headline"] = headline(found)
        found["echoes"] = self.echoes(found)
        found["exits"] = [
            {
                "rank": one.rank,
                "node": one.node,
                "code": one.code,
                "signal": SIGNALS.get(_signal(one.code), ""),
            }
            for one in self.scan.exits
        ]
        found["questions"] = []
        if not found["known"]:
            found["questions"] = [
                {"ask": ask, "how": how} for ask, how in QUESTIONS
            ]
        found["dumps"] = self.dumps
        found["read"] = {
            "files": len(self.scan.files),
            "bytes": self.scan.bytes,
            "lines": self.scan.lines,
            "ranks": len(self.scan.ranks),
            "not kept": self.scan.dropped,
        }
        return found

    def shown(self, event) -> dict:  # type: ignore[no-untyped-def]
        """Return where an event's line stands."""
        return self.cited(event.file, event.line, event.text, event.time)

    def cited(self, file, line, text, time=None) -> dict:  # type: ignore[no-untyped-def]
        """Return a line as evidence; `file` is its number in the scan."""
        return {
            "file": self.scan.files[file],
            "line": line,
            "text": text,
            "time": clock(time[1]) if time else "",
        }

    def echoes(self, found: dict) -> list:
        """Return the other messages, each once, in the order of time."""
        rows: list = []
        by_id: dict = {}
        for event in self.scan.events:
            if event.text in [one["text"] for one in found["evidence"]]:
                continue
            if event.id == found["id"] != "python-exception":
                continue
            key = (event.id, event.title)
            if key not in by_id:
                row = {
                    "id": event.id,
                    "title": event.title,
                    "role": "echo" if event.wrapped else event.role,
                    "count": 0,
                    "ranks": [],
                    "page": page(event.id) if event.id in self.entries else "",
                    "first": self.shown(event),
                    "at": (self.at(event) or 1e18, event.order),
                }
                by_id[key] = row
                rows.append(row)
            row = by_id[key]
            row["count"] += event.count
            if event.rank is not None and event.rank not in row["ranks"]:
                row["ranks"] = sorted(row["ranks"] + [event.rank])
        rows.sort(key=lambda row: row["at"])
        for row in rows:
            row.pop("at")
        return rows


def page(id: str) -> str:
    """Return the page of a message, below the site's root."""
    return f"reliability/errors/{id}/"


def headline(found: dict) -> str:
    """Return the verdict in one sentence."""
    where = found.get("local", "")
    if found["ranks"]:
        where = _ranks(found["ranks"])
    if found["node"]:
        where += (" on " if where else "node ") + found["node"]
    if not found["known"]:
        if where:
            return f"First fault not found; look at {where} first."
        if found["id"]:
            return "First fault not found: these logs have only echoes."
        return "First fault not found: no known message is in these logs."
    what = found["title"]
    if found["id"] == "python-exception":
        what = found["text"] and found["text"].split("]: ")[-1][:160]
    if found.get("hang"):
        return f"First fault: {where} didn't join a collective."
    return f"First fault: {where}: {what}" if where else f"First fault: {what}"


def _same(a, b) -> bool:  # type: ignore[no-untyped-def]
    """Whether two events are one message, on whatever rank."""
    if a.id != b.id or a.title != b.title or a.role != b.role:
        return False
    return a.fields.get("error") == b.fields.get("error")


def _depth(event) -> int:  # type: ignore[no-untyped-def]
    """0 for what a kernel or a scheduler says, 1 for what a program says."""
    if event.layer == "scheduler":
        return 0
    for word in KERNEL:
        if word in getattr(event, "text", ""):
            return 0
    return 1


def _is_machine(event) -> bool:  # type: ignore[no-untyped-def]
    """Whether a machine said it, and no link to another one."""
    return event.layer in ("gpu", "host", "storage")


def _is_store(event) -> bool:  # type: ignore[no-untyped-def]
    text = event.text
    return "TCPStore" in text or "C10d store" in text or "recvValue" in text


def _has(text: str, pid: int) -> bool:
    """Whether a text names a process by its number."""
    at = text.find(str(pid))
    if at < 0:
        return False
    before, after = text[at - 1 : at], text[at + len(str(pid)) :][:1]
    return not before.isdigit() and not after.isdigit()


def _signal(code: int) -> int:
    """Return the signal of an exit code: -9 and 137 are 9; 0 for none."""
    if code < 0:
        return -code
    return code - 128 if 128 < code < 160 else 0


def _behind(works: dict, name: str):  # type: ignore[no-untyped-def]
    """Return the ranks with the lowest number, that and the highest; None if
    all are equal, or if most are low."""
    values = {r: w[name] for r, w in works.items() if name in w}
    if len(values) < 2:
        return None
    low, high = min(values.values()), max(values.values())
    ranks = sorted([r for r in values if values[r] == low])
    if low == high or 2 * len(ranks) > len(values):
        return None
    return ranks, low, high


def _odd(works: dict):  # type: ignore[no-untyped-def]
    """Return the ranks of the rarer operation, and both; None if all agree."""
    counts: dict = {}
    for rank in works:
        op = works[rank].get("op")
        if op:
            counts.setdefault(op, []).append(rank)
    if len(counts) < 2:
        return None
    order = sorted(counts, key=lambda op: (len(counts[op]), op))
    rare, usual = order[0], order[-1]
    if 2 * len(counts[rare]) > len(works):
        return None
    return sorted(counts[rare]), rare, usual


def _ranks(ranks: list) -> str:
    """Return `rank 3`, `ranks 0, 1 and 5`, or `ranks 0 to 7`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 2 and ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"ranks {ranks[0]} to {ranks[-1]}"
    if len(ranks) > 6:
        return f"{len(ranks)} ranks ({ranks[0]}, {ranks[1]}, … {ranks[-1]})"
    names = [str(rank) for rank in ranks]
    return f"ranks {', '.join(names[:-1])} and {names[-1]}"
