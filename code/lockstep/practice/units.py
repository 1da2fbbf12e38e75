"""What somebody types as an estimate, and how an answer is said."""

from lockstep.planner.figures import LARGEST, PlanError, decimal, grouped, short

PREFIX = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
PREFIX.update({"e": 1e18, "z": 1e21, "y": 1e24})
COUNT = {"": 1, "k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6}
COUNT.update({"b": 1e9, "bn": 1e9, "billion": 1e9})
COUNT.update({"t": 1e12, "tn": 1e12, "trillion": 1e12})
TIME = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "sec": 1, "second": 1}
TIME.update({"min": 60, "minute": 60, "h": 3600, "hour": 3600})
TIME.update({"d": 86400, "day": 86400, "week": 604800, "w": 604800})
BINARY = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
MONEY = "in the price's currency"
# By unit of the answer: what may follow the number.
KNOWN: dict = {
    "s": dict(TIME, **{"": 1}),
    "days": dict({one: TIME[one] / 86400 for one in TIME}, **{"": 1}),
    "share": {"": 1, "%": 0.01, "percent": 0.01},
    "kWh": {"": 1, "kwh": 1, "mwh": 1e3, "gwh": 1e6},
    "B": {one + end: PREFIX[one] for one in PREFIX for end in ("b", "byte")},
    "FLOP": {one + end: PREFIX[one] for one in PREFIX for end in ("flop", "")},
    "FLOP/B": {"": 1, "flop/b": 1, "flop/byte": 1},
    MONEY: dict(COUNT, dollar=1),
}
KNOWN["B"].update({one + "ib": BINARY[one] for one in BINARY})
KNOWN["B"].update({one: PREFIX[one] for one in PREFIX})
for _unit in ("parameters", "tokens", "steps"):
    KNOWN[_unit] = dict(COUNT)
    for _one in COUNT:
        for _end in (_unit, _unit[:-1]):
            KNOWN[_unit][(_one + " " + _end).strip()] = COUNT[_one]
EXAMPLE = {"s": "40 ms or 3 h", "days": "20 days", "share": "12 % or 0.12"}
EXAMPLE.update({"B": "80 GB or 8e10", "FLOP": "6e23", "kWh": "3 GWh"})
EXAMPLE.update({"FLOP/B": "300", MONEY: "2 million"})


def parsed(typed: str, unit: str) -> float:
    """Parse an estimate into a number in `unit`: 1.2e9, 80 GB, 3 h, 12 %.

    PlanError for a text that holds none, or none that is above 0 and near
    enough to 1 to compute with.
    """
    text = typed.strip().replace(",", "").replace("$", "").lstrip("~≈ ")
    size, rest = 0.0, None
    for end in range(len(text), 0, -1):
        try:
            size, rest = float(text[:end]), text[end:].strip().lower()
            break
        except ValueError:
            pass
    known = KNOWN[unit]
    if rest is not None and rest not in known and rest.endswith("s"):
        rest = rest[:-1]
    right = EXAMPLE.get(unit, "1.2e9 or 70 billion")
    value = size * known.get(rest, 0)
    if not 1 / LARGEST < value < LARGEST:
        shown = typed.strip() or "nothing"
        raise PlanError(f"{shown} is no estimate here; type one as {right}")
    if unit == "share" and value > 1:
        raise PlanError(f"a share of {short(value)} is above 1; type {right}")
    return value


def amount(value: float, unit: str) -> str:
    """Format a number as people say it, with its unit."""
    if unit == "share":
        return f"{short(value * 100)} %"
    if unit == "s":
        for size, word, most in (
            (1e-6, "µs", 1e-3),
            (1e-3, "ms", 1),
            (1, "s", 120),
            (60, "min", 7200),
            (3600, "h", 172800),
        ):
            if value < most:
                return f"{short(value / size)} {word}"
        return f"{short(value / 86400)} days"
    if unit in ("parameters", "tokens", MONEY):
        money = unit == MONEY
        for size, word in (
            (1e12, "trillion"),
            (1e9, "billion"),
            (1e6, "million"),
        ):
            if value >= size:
                shown = f"{short(value / size)} {word}"
                break
        else:
            shown = grouped(round(value))
        return "$" + shown if money else f"{shown} {unit}"
    if unit == "FLOP" and value >= 1e18:
        return f"{value:.3e} FLOP".replace("e+", "e")
    if unit == "kWh" and value >= 1000:
        size, word = (1e6, "GWh") if value >= 1e6 else (1e3, "MWh")
        return f"{short(value / size)} {word}"
    return decimal(value, unit)
