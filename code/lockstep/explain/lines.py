"""Read the front of a log line: its rank, its node, its time.

Launchers and log collectors put a rank, a node or a timestamp before each line
that a process writes, and often several of them.
"""

MONTHS = [
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
]
DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
BEFORE = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334]
FRONT = 160  # characters of a line in which a timestamp is looked for


def plain(line: str) -> str:
    """Return a line without the colors of a terminal."""
    while "\x1b[" in line:
        start = line.find("\x1b[")
        end = start + 2
        while end < len(line) and not line[end].isalpha():
            end += 1
        line = line[:start] + line[end + 1 :]
    return line


def single(line: str) -> str:
    """Return a line in which each run of blanks is one blank."""
    return " ".join(line.split())


class Front:
    """The text before a line's message.

    Attributes:
        rank: rank that wrote it, or None.
        node: node that wrote it, or "".
        text: the rest of the line, its indentation kept.
    """

    def __init__(self, rank, node: str, text: str) -> None:  # type: ignore[no-untyped-def]
        self.rank, self.node, self.text = rank, node, text


def front(line: str) -> Front:
    """Split what launchers and collectors put in front from a line."""
    rank, node, text = None, "", line
    for _ in range(5):
        stripped = text[1:] if text[:2] in (" [", " (") else text
        found = _bracket(stripped)
        if found:
            r, n, rest = found
            rank = r if r is not None else rank
            node = n or node
            text = rest
            continue
        if rank is None and not node:
            found = _colon(text)
            if found:
                rank, node, text = found
                continue
        cut = _kubernetes(text)
        if cut:
            text = text[cut:]
            continue
        if not node:
            found = _syslog(text)
            if found:
                node, text = found
        break
    if text[:1] == "{":
        found = _json(text)
        rank = found[0] if rank is None else rank
        node = node or found[1]
    if not node:
        node = _nccl_node(text)
    return Front(rank, node, text)


def ranked(line: str, words: bool = False):  # type: ignore[no-untyped-def]
    """Return the rank in a logger's own format, or None: `[app:158, rank=6]`,
    and `r6` behind the time.

    Args:
        line: the line.
        words: whether `rank 6` counts, too. A message may begin with the name
            of a rank that didn't write it.
    """
    text = line[:FRONT]
    for name in ("rank=", "rank:", "rank "):
        at = text.find(name)
        opened = text.rfind("[", 0, at) if at > 0 else -1
        local = text[at - 1 : at] == "_" and text[at - 7 : at] != "global_"
        if opened >= 0 and text.find("]", opened, at) < 0 and not local:
            rank = number(text, at + 5)
            if rank is not None:
                return rank
    parts = text.split()
    for at, part in enumerate(parts):
        if part[:1].isdigit() or part[:1] in "[>-|" or part.isupper():
            continue  # a date, a node, a level
        word = part.strip(":,").lower()
        if word[:1] == "r" and word[1:].isdigit():
            return int(word[1:])
        if words and word == "rank" and at + 1 < len(parts):
            return number(parts[at + 1], 0)
        return None
    return None


def number(text: str, at: int):  # type: ignore[no-untyped-def]
    """Return the whole number at a place in the text, or None."""
    end = at
    while end < len(text) and text[end].isdigit():
        end += 1
    return int(text[at:end]) if end > at else None


def _bracket(text: str):  # type: ignore[no-untyped-def]
    """`[rank3]:`, `[default3]:`, `[RANK 3]`, `[1,3]<stderr>:`, `(Worker …)`."""
    if text[:1] == "(":
        end = text.find(")")
        if 0 < end < 80 and "pid=" in text[:end]:
            at = text.find("ip=", 0, end)
            node = text[at + 3 : end].split(",")[0] if at > 0 else ""
            return None, node.strip(), _unblank(text[end + 1 :])
        return None
    if text[:1] != "[":
        return None
    end = text.find("]")
    if text.startswith("[pod/") and end > 0:  # kubectl logs --prefix
        return None, text[5:end].split("/")[0], _unblank(text[end + 1 :])
    if not 0 < end < 24:
        return None
    word = text[1:end].lower()
    for name in ("rank", "default", "trainer"):
        if word.startswith(name):
            rank = number(word[len(name) :].strip(" :"), 0)
            if rank is None:
                return None
            return rank, "", _unblank(_uncolon(text[end + 1 :]))
    a, comma, b = word.partition(",")
    if comma and a.isdigit() and b.isdigit():  # mpirun's job and rank
        rest = text[end + 1 :]
        if rest[:1] == "<":
            return int(b), "", _unblank(_uncolon(rest[rest.find(">") + 1 :]))
    return None


def _json(text: str) -> tuple:
    """Return the rank and the node of a line that is a JSON object."""
    rank, node = None, ""
    at = text.find('"rank":')
    if at > 0:
        rest = text[at + 7 :].lstrip(' "')
        rank = number(rest, 0)
    for name in ('"host":', '"hostname":', '"node":'):
        at = text.find(name)
        if at > 0 and not node:
            rest = text[at + len(name) :].lstrip()
            if rest[:1] == '"':
                node = rest[1:].split('"')[0]
    return rank, node


def _uncolon(text: str) -> str:
    return text[1:] if text[:1] == ":" else text


def _unblank(text: str) -> str:
    """Drop the one blank that separates a prefix from the line."""
    return text[1:] if text[:1] == " " else text


def _colon(text: str):  # type: ignore[no-untyped-def]
    """`3: ` of srun --label, and `node-17: ` of pdsh or clush."""
    at = text.find(": ")
    if text.endswith(":") and " " not in text:
        at = len(text) - 1
    if not 0 < at < 40:
        return None
    word = text[:at].lstrip()  # Slurm pads with blanks
    if word.isdigit():
        return (int(word), "", text[at + 2 :]) if len(word) < 6 else None
    if _is_node(word):
        return None, word, text[at + 2 :]
    return None


def _is_node(word: str) -> bool:
    """Whether a word looks like a host: letters, digits and a hyphen or dot."""
    if not word or not word[0].isalpha() or len(word) > 60:
        return False
    low = word.lower()
    for end in ("error", "warning", "exception"):
        if low.endswith(end):
            return False
    for start in ("step", "epoch", "iter", "train", "eval", "val", "batch"):
        if low.startswith(start):
            return False
    if low.startswith("slurmstepd"):
        return False
    digit = False
    for char in word:
        if char.isdigit():
            digit = True
        elif not (char.isalpha() or char in "-."):
            return False
    # Names such as `slurmstepd`, `srun`, `what` have no digit.
    return digit or ("-" in word and word.lower() == word and "." not in word)


def _kubernetes(text: str) -> int:
    """Return the length of a timestamp in front: 2026-11-28T04:44:20.1Z ."""
    if len(text) < 20 or text[4:5] != "-" or text[10:11] != "T":
        return 0
    end = text.find(" ")
    if end < 0:
        end = len(text)
    if not 19 <= end <= 36 or text[13:14] != ":":
        return 0
    return end + 1


def _syslog(text: str):  # type: ignore[no-untyped-def]
    """`Nov 28 05:11:03 node kernel: …`; the node, and the rest."""
    if text[:3] not in MONTHS or text[3:4] != " " or text[9:10] != ":":
        return None
    words = text[16:].split(" ", 1)
    if len(words) < 2 or text[15:16] != " ":
        return None
    return words[0], words[1]


def _nccl_node(text: str) -> str:
    """`node:pid:tid [device] NCCL …` names a node."""
    if " NCCL " not in text[:120]:
        return ""
    at = text.find("] ") if text[:1] == "[" and text[1:5].isdigit() else -1
    words = text[at + 2 :] if at > 0 else text
    parts = words.split(" ", 1)[0].split(":")
    if len(parts) == 3 and parts[1].isdigit() and parts[2].isdigit():
        return parts[0]
    return ""


def when(line: str):  # type: ignore[no-untyped-def]
    """Return the time of a line as (year or 0, seconds since New Year).

    Reads ISO dates, the date of C++ and Python glog (`E1128 03:12:07.1`),
    syslog (`Nov 28 03:12:07`) and `dmesg -T`. Where the line has several, the
    first counts. A zone is applied; without one the time is taken as it is.
    Returns None for a line without a date.
    """
    text = line[:FRONT]
    for at in _places(text):
        found = _clock(text, at)
        if found:
            return found
    return None


def _places(text: str) -> list:
    """Return where a clock's first colon stands: `hh:mm:ss`."""
    found, at = [], text.find(":")
    while at >= 0:
        if (
            text[at + 3 : at + 4] == ":"
            and text[at - 2 : at].isdigit()
            and text[at + 1 : at + 3].isdigit()
            and text[at + 4 : at + 6].isdigit()
        ):
            found.append(at - 2)
        at = text.find(":", at + 1)
    return found


def _clock(text: str, at: int):  # type: ignore[no-untyped-def]
    """Read the date in front of the clock at a place, and the zone behind."""
    seconds = (
        int(text[at : at + 2]) * 3600.0
        + int(text[at + 3 : at + 5]) * 60
        + int(text[at + 6 : at + 8])
    )
    end = at + 8
    if text[end : end + 1] in (".", ",") and text[end + 1 : end + 2].isdigit():
        stop = end + 1
        while stop < len(text) and text[stop].isdigit():
            stop += 1
        digits = text[end + 1 : stop][:6]
        seconds += int(digits) / 10 ** len(digits)
        end = stop
    zone = text[end : end + 6]
    if zone[:1] in ("+", "-") and zone[1:3].isdigit():
        minutes = zone[4:6] if zone[3:4] == ":" else zone[3:5]
        if minutes.isdigit():
            shift = int(zone[1:3]) * 3600 + int(minutes) * 60
            seconds -= shift if zone[0] == "+" else -shift
    # 2026-11-28T, 2026-11-28_, 2026-11-28 and 2026/11/28.
    day = text[at - 11 : at - 1]
    if at >= 11 and day[4:5] in ("-", "/") and day[7:8] == day[4:5]:
        numbers = day[:4], day[5:7], day[8:10]
        if all(one.isdigit() for one in numbers):
            year, month, date = [int(one) for one in numbers]
            return _time(year, month, date, seconds)
    words = text[:at].split()
    if not words:
        return None
    last = words[-1]
    start = max(last.rfind("["), last.rfind(":")) + 1
    glog = last[start:]
    if len(glog) in (4, 5) and glog[0] in "IWEF" and glog[1:].isdigit():
        return _time(0, int(glog[1:-2]), int(glog[-2:]), seconds)
    if last.lstrip("[")[2:3] == "/" and len(last.lstrip("[")) == 5:
        month_, day_ = last.lstrip("[").split("/")  # 01/22, as detectron2 does
        if month_.isdigit() and day_.isdigit():
            return _time(0, int(month_), int(day_), seconds)
    if len(words) > 1 and last.isdigit() and words[-2].strip("[") in MONTHS:
        month = MONTHS.index(words[-2].strip("[")) + 1
        year = number(text, end + 1) if text[end : end + 1] == " " else 0
        if not year or not 1990 < year < 2100:
            year = 0
        return _time(year, month, int(last), seconds)
    return None


def _time(year: int, month: int, day: int, seconds: float):  # type: ignore[no-untyped-def]
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    return year, (BEFORE[month - 1] + day - 1) * 86400 + seconds


def clock(seconds: float) -> str:
    """Return seconds since New Year as `28 Nov 03:12:07`."""
    day = int(seconds // 86400)
    month = 11
    while BEFORE[month] > day:
        month -= 1
    rest = int(seconds % 86400)
    return (
        f"{day - BEFORE[month] + 1} {MONTHS[month]}"
        f" {rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    )
