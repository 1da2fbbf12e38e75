"""A figure knows how it came about: its formula, its source, what went in.

A formula is text, and the text is what is evaluated: what a reader is shown is
what was computed.
"""

from math import ceil, log2

from .checkpoints import daly, slowdown

FUNCTIONS = {
    "ceil": ceil,
    "daly": daly,
    "log2": log2,
    "max": max,
    "min": min,
    "slowdown": slowdown,
}
KEYWORDS = "if", "else", "and", "or", "not"
PREFIXES = "YZEPTGMk"


LARGEST = 1e30  # what somebody may give, and the smallest is its inverse
TOO_FAR = (
    "these numbers are too large, or too small, together; bring the largest"
    " and the smallest closer to 1"
)


class PlanError(ValueError):
    """What cannot be planned: in one line, what is wrong and what is right."""


class Formula:
    """`name` = `text`, in `unit`; `source` is who says so."""

    def __init__(self, name: str, text: str, unit: str, source: str) -> None:
        self.name, self.text = name, " ".join(text.split())
        self.unit, self.source = unit, source
        self.code = compile(self.text, name, "eval")
        self.inputs: list = []
        for word, is_name in words(self.text):
            if is_name and word not in self.inputs:
                self.inputs.append(word)

    def __call__(self, scope: dict) -> "Figure":
        """The figure that `scope`, numbers and figures by name, comes to."""
        # A picture asks for thousands of these at a change: one loop, no calls.
        inputs, values = {}, {}
        for name in self.inputs:
            given = inputs[name] = scope[name]
            values[name] = given.value if isinstance(given, Figure) else given
        return Figure(eval(self.code, FUNCTIONS, values), self, inputs)


class Figure:
    """A number, with the formula and the inputs that it came from."""

    def __init__(self, value: float, formula: Formula, inputs: dict) -> None:
        self.value, self.formula, self.inputs = value, formula, inputs

    def __float__(self) -> float:
        return float(self.value)

    def substituted(self) -> str:
        """The formula with its inputs' values in place of their names."""
        return "".join(
            short(plain(self.inputs[word])) if is_name else word
            for word, is_name in words(self.formula.text)
        )

    def steps(self) -> list:
        """The figures that it rests on, each once, and itself at the end."""
        found: list = []
        for name in self.formula.inputs:
            given = self.inputs[name]
            if isinstance(given, Figure):
                for step in given.steps():
                    if step not in found:
                        found.append(step)
        found.append(self)
        return found

    def derivation(self) -> list:
        """Name, formula, what was put in, and what came out."""
        return [
            self.formula.name,
            self.formula.text,
            self.substituted(),
            quantity(self.value, self.formula.unit),
        ]


def derive(scope: dict, formulas: list) -> dict:
    """`scope` and what the formulas make of it, each from those before."""
    scope = dict(scope)
    for formula in formulas:
        scope[formula.name] = formula(scope)
    return scope


def plain(given: "float | Figure") -> float:
    """The number in it."""
    return given.value if isinstance(given, Figure) else given


def words(text: str) -> list:
    """A formula taken apart: (word, whether it names an input)."""
    found: list = []
    word = ""
    for letter in text + " ":
        if letter.isalpha() or letter == "_" or (word and letter.isdigit()):
            word += letter
            continue
        if word:
            is_input = word not in FUNCTIONS and word not in KEYWORDS
            # 1e9 is a number: its e follows a digit.
            number = found and found[-1][0].isdigit() and word[0] == "e"
            found.append((word, is_input and not number))
            word = ""
        found.append((letter, False))
    return found[:-1]


def short(value: float) -> str:
    """A number in few characters."""
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return four_digits(value)


def four_digits(value: float) -> str:
    """Round to four digits. A tie goes away from zero: CPython would take the
    even digit there, and MicroPython doesn't."""
    return f"{value * (1 + 1e-12):.4g}"


def quantity(value: float, unit: str) -> str:
    """With its unit; bytes in decimal and in binary units."""
    if unit == "B" and abs(value) >= 1000:
        return f"{scaled(value, 1000)}B ({scaled(value, 1024)}iB)"
    if unit == "parameters":
        return f"{grouped(value)} {unit}"
    if unit in ("B", "B/s", "FLOP", "FLOP/s"):
        return f"{scaled(value, 1000)}{unit}"
    if abs(value) >= 10000:
        digits = len(str(int(abs(value)))) - 4  # all but four are noise
        return f"{grouped(round(value / 10**digits) * 10**digits)} {unit}"
    return f"{short(value)} {unit}".strip()


def decimal(value: float, unit: str) -> str:
    """With its unit, in decimal units alone."""
    return quantity(value, unit).split(" (")[0]


def percent(share: float, decimals: int | None = None) -> str:
    """A share: 41.2 %, to three digits or to so many decimals."""
    value = 100 * share
    text = f"{value:.3g}" if decimals is None else short(round(value, decimals))
    return text + " %"


def grouped(value: float) -> str:
    """In groups of three digits."""
    digits = str(int(value))
    start = len(digits) % 3 or 3
    found = digits[:start]
    for place in range(start, len(digits), 3):
        found += "," + digits[place : place + 3]
    return found


def scaled(value: float, base: int) -> str:
    """Of bytes and the like: a number under the base, and its prefix."""
    for power in range(len(PREFIXES), 0, -1):
        if abs(value) >= base**power:
            prefix = PREFIXES[-power]
            if base == 1024:
                prefix = prefix.upper()
            return f"{four_digits(value / base**power)} {prefix}"
    return f"{four_digits(value)} "


def number(text: str) -> float:
    """`7.5e9` as a number, `3e9` as a whole one; ValueError, if it is none."""
    value = float(text)
    if not abs(value) < float("inf"):
        raise ValueError("not a finite number")
    return int(value) if value == int(value) else value


def refuse(name: str, value: float | str, right: str) -> None:
    """Raise PlanError for an input."""
    shown = value if isinstance(value, str) else short(value)
    raise PlanError(f"{flag(name)} is {shown}; it must be {right}")


def flag(name: str) -> str:
    """An input as the command line has it."""
    return "--" + name.replace("_", "-")


def whole(name: str, value: float, least: int = 1) -> int:
    """`value` as an integer; PlanError, if it is none or below `least`."""
    if value != int(value) or value < least:
        refuse(name, value, f"a whole number from {least}")
    return int(value)


def above(name: str, value: float) -> float:
    """`value`; PlanError, if it is not above 0."""
    if not value > 0:
        refuse(name, value, "above 0")
    return value


def at_least(name: str, value: float, least: float = 0) -> float:
    """`value`; PlanError, if it is below `least`."""
    if not value >= least:
        refuse(name, value, f"{short(least)} or more")
    return value


def one_of(name: str, value: float | str, choices: tuple) -> None:
    """PlanError, if `value` is none of the choices."""
    if value not in choices:
        known = ", ".join(str(choice) for choice in choices)
        refuse(name, value, f"one of {known}")


def divides(name: str, value: int, other: str, whole_of: int) -> None:
    """PlanError unless `value` divides `whole_of`."""
    if whole_of % value:
        refuse(name, value, f"a divisor of {flag(other)}, {whole_of}")
