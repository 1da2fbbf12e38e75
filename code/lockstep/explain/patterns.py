"""Match lines against messages: literal text with fields, no expressions.

A pattern such as `SeqNum={seq:int}, OpType={op:word}` is literal text and
fields. The kinds are `int` (digits, perhaps with a minus), `word` (no blank)
and `text` (anything up to the next literal text). `{{` and `}}` are braces.
Runs of blanks in the pattern and in the line count as one blank.
"""

KINDS = "int", "word", "text"
SHORTEST = 8  # literal characters in a row, which each pattern needs
# Words of ordinary log lines. A line isn't looked at for their sake if the
# pattern has any other word.
COMMON = [
    "NCCL",
    "INFO",
    "WARN",
    "WARNING",
    "ERROR",
    "Error",
    "error",
    "errors",
    "failed",
    "rank",
    "Rank",
    "ranks",
    "worker",
    "workers",
    "process",
    "Process",
    "train",
    "training",
    "step",
    "loss",
    "time",
    "torch",
    "python",
    "module",
    "device",
    "device.",
    "CUDA",
    "cuda",
    "epoch",
    "init",
    "Init",
    "data",
    "checkpoint",
    "saving",
    "loading",
    "connection",
    "Connection",
    "memory",
    "received",
    "message",
    "while",
    "with",
    "that",
    "this",
    "from",
    "have",
    "been",
    "were",
    "your",
    "which",
    "before",
    "after",
    "could",
    "cannot",
    "should",
    "not.",
    "file",
    "File",
    "tensor",
    "Tensor",
    "parameters",
    "group",
]


class PatternError(ValueError):
    """A pattern that can't be read: one line says what is wrong."""


class Pattern:
    """A parsed pattern: literal text and fields in turn.

    Args:
        text: the pattern as written.

    Raises:
        PatternError: a field has no name or an unknown kind, a brace isn't
            closed, or no literal part has eight characters.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.parts: list = []  # str, or (name, kind)
        for part in _parts(text):
            self.parts.append(part)
        literals = [part for part in self.parts if isinstance(part, str)]
        if not literals or max([len(one) for one in literals]) < SHORTEST:
            raise PatternError(
                f"{text!r} needs {SHORTEST} literal characters in a row"
            )
        for a, b in zip(self.parts, self.parts[1:]):
            if not isinstance(a, str) and not isinstance(b, str):
                raise PatternError(f"{text!r} needs text between two fields")

    def match(self, line: str):  # type: ignore[no-untyped-def]
        """Return the fields of a line as a dictionary, or None.

        Args:
            line: one line in which runs of blanks are one blank.
        """
        parts = self.parts
        if isinstance(parts[0], str):
            first, start = 0, line.find(parts[0])
        else:
            first, start = 1, line.find(parts[1])
        while start >= 0:
            found: dict = {}
            fits = True
            if first:
                name, kind = parts[0]
                value = _before(line, start, kind)
                fits = value != ""
                found[name] = value
            after = start + len(parts[first])
            if fits and _rest(parts, first + 1, line, after, found):
                return found
            start = line.find(parts[first], start + 1)
        return None

    def words(self) -> list:
        """Return the unbroken pieces of literal text."""
        found: list = []
        for part in self.parts:
            if isinstance(part, str):
                for word in part.split(" "):
                    word = word.strip(":.,;()[]{}<>'\"")
                    if len(word) > 3:
                        found.append(word)
        return found or [
            word
            for part in self.parts
            if isinstance(part, str)
            for word in part.split(" ")
            if word
        ]


def _parts(text: str) -> list:
    """Split a pattern into literal text and (name, kind)."""
    parts: list = []
    literal, at = "", 0
    while at < len(text):
        char = text[at]
        if text[at : at + 2] in ("{{", "}}"):
            literal += char
            at += 2
        elif char == "{":
            end = text.find("}", at)
            if end < 0:
                raise PatternError(f"{text!r} has a brace that isn't closed")
            name, _, kind = text[at + 1 : end].partition(":")
            kind = kind or "text"
            if not name or kind not in KINDS:
                raise PatternError(
                    f"{text!r}: {{{name}:{kind}}} needs a name and one of"
                    f" {', '.join(KINDS)}"
                )
            if literal:
                parts.append(literal)
            parts.append((name, kind))
            literal, at = "", end + 1
        elif char == "}":
            raise PatternError(f"{text!r} has a brace that isn't opened")
        else:
            if char in " \t":
                char = " "
            if char != " " or not literal.endswith(" "):
                literal += char
            at += 1
    if literal:
        parts.append(literal)
    return parts


def _before(line: str, end: int, kind: str) -> str:
    """Return what a field holds that the pattern begins with."""
    text = line[:end]
    if kind == "text":
        return text.strip()
    if kind == "word":
        return text.split(" ")[-1]
    start = end
    while start and text[start - 1].isdigit():
        start -= 1
    if start and start < end and text[start - 1] == "-":
        start -= 1
    return text[start:]


def _digits(line: str, at: int) -> int:
    """Return where the number that begins at `at` ends, or `at`."""
    end = at + 1 if line[at : at + 1] == "-" else at
    first = end
    while end < len(line) and line[end].isdigit():
        end += 1
    return end if end > first else at


def _rest(parts: list, index: int, line: str, at: int, found: dict) -> bool:
    """Match the parts from `index` on at a place in the line."""
    if index >= len(parts):
        return True
    part = parts[index]
    if isinstance(part, str):
        if not line.startswith(part, at):
            return False
        return _rest(parts, index + 1, line, at + len(part), found)
    name, kind = part
    if kind == "int":
        end = _digits(line, at)
        if end == at:
            return False
        found[name] = line[at:end]
        return _rest(parts, index + 1, line, end, found)
    if index + 1 == len(parts):
        end = len(line)
        if kind == "word":
            blank = line.find(" ", at)
            end = blank if blank >= 0 else end
        found[name] = line[at:end].strip()
        return kind == "text" or end > at
    end = line.find(parts[index + 1], at)
    while end >= 0:
        value = line[at:end]
        if kind == "word" and (not value or " " in value):
            if " " in value:
                return False
        else:
            found[name] = value.strip()
            if _rest(parts, index + 1, line, end, found):
                return True
        end = line.find(parts[index + 1], end + 1)
    return False


class Index:
    """The patterns of all messages, found by few words.

    One word stands for many patterns, so that a gigabyte of ordinary lines is
    searched for a few dozen words, and only lines that have one are matched.

    Args:
        entries: messages as the data files have them, each with `patterns`.
    """

    def __init__(self, entries: list) -> None:
        self.entries = entries
        patterns: list = []  # (Pattern, number of its entry)
        for number, entry in enumerate(entries):
            for text in entry["patterns"]:
                patterns.append((Pattern(text), number))
        worth: dict = {}
        for pattern, _ in patterns:
            for word in pattern.words():
                worth[word] = worth.get(word, 0) + _rare(word)
        self.words: list = []
        self.by_word: dict = {}
        for pattern in patterns:
            # Among equals the longest, then the alphabet: the same each time.
            words = pattern[0].words()
            best = max([(worth[word], len(word), word) for word in words])[2]
            if best not in self.by_word:
                self.words.append(best)
                self.by_word[best] = []
            self.by_word[best].append(pattern)

    def match(self, line: str, words: list):  # type: ignore[no-untyped-def]
        """Return (number of the entry, fields) for each message in a line.

        Args:
            line: one line in which runs of blanks are one blank.
            words: the words of the index that the line has.
        """
        found: list = []
        seen: list = []
        for word in words:
            for pattern, number in self.by_word.get(word, ()):
                if number not in seen:
                    fields = pattern.match(line)
                    if fields is not None:
                        seen.append(number)
                        found.append((number, fields, len(pattern.text)))
        # The most specific message first.
        found.sort(key=lambda one: (-one[2], one[0]))
        return [(number, fields) for number, fields, _ in found]


def _rare(word: str) -> float:
    """Return how much a word says: lines of a healthy run have the short words
    and the ordinary ones all the time."""
    if word in COMMON or len(word) < 5:
        return 0.01
    plain = word.isalpha() and word == word.lower()
    return (min(len(word), 9) - 4) * (0.3 if plain else 1.0)
