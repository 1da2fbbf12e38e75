"""Estimation questions: drawn from a seed, answered by the planner.

The same (kind, seed) is the same question everywhere: at the command line, at
build time and in the reader's browser, where MicroPython runs these files.
What is asked is in kinds.py; a derivation is the planner's own, line by line,
once with its numbers and once with round ones.
"""

import json

from lockstep.explore.planner_page import command
from lockstep.explore.svg import escaped
from lockstep.planner.figures import (
    Figure,
    PlanError,
    decimal,
    grouped,
    short,
)

from .kinds import KINDS, SHARES, TOPICS, Kind
from .units import amount, parsed

# What the browser is given, next to the planner and the explorables.
FILES = "__init__.py", "browser.py", "estimates.py", "kinds.py", "units.py"
SEEDS = 1000000  # from 0
FIRST = "zero-1", 1  # the question that the page is built with


class Draw:
    """Numbers that follow from a text, the same in every Python."""

    def __init__(self, text: str) -> None:
        self.state = 2166136261  # FNV-1a
        for letter in text:
            self.state = ((self.state ^ ord(letter)) * 16777619) % 2**32

    def __call__(self, choices: list):  # type: ignore[no-untyped-def]
        """One of them."""
        self.state = (self.state * 1664525 + 1013904223) % 2**32
        return choices[(self.state >> 8) % len(choices)]


def drawn(name: str, seed: int) -> tuple:
    """Return (given values, the planner's figures) for a kind and a seed."""
    kind = named(name)
    draw = Draw(f"{name} {seed}")
    while True:
        given: dict = {}
        for key, choices in kind.draws:
            value = choices(given) if callable(choices) else draw(choices)
            if key == "shape":
                given.update(value)
            else:
                given[key] = value
        found = kind.find(given)
        if kind.sensible(found):
            return given, found


def generate(name: str, seed: int) -> dict:
    """One question, as plain data.

    Its `value` is the planner's, in `unit`; `round` is what comes out in
    round numbers, as `by_hand` derives it; an answer within `factor` is right.
    PlanError for a kind that there is none of.
    """
    kind = named(name)
    given, found = drawn(name, seed)
    figure = found[kind.key]
    unit = "share" if kind.key in SHARES else figure.formula.unit
    hand = by_hand(figure)
    asked = None
    if kind.plan:
        inputs = {key: given[key] for key in kind.inputs() if key in given}
        # MicroPython's dictionaries keep no order.
        first, *flags = command(kind.plan, inputs).split(" --")
        asked = " --".join([first] + sorted(flags))
    return {
        "id": f"estimate:{name}:{seed}",
        "kind": name,
        "seed": seed,
        "topic": kind.topic,
        "title": kind.title,
        "question": filled(kind.text, given),
        "unit": unit,
        "value": figure.value,
        "answer": amount(figure.value, unit),
        "round": amount(hand[-1].value, unit),
        "round_value": hand[-1].value,
        "factor": kind.factor,
        "thumb": kind.thumb,
        "steps": [line(step) for step in figure.steps()],
        "derivation": [text(step) for step in figure.steps()],
        "by_hand": [text(step) for step in hand],
        "command": asked,
    }


def named(name: str) -> Kind:
    """Return the kind of that name."""
    if name not in KINDS:
        known = ", ".join(sorted(KINDS))
        raise PlanError(f"there is no kind {name}; there is {known}")
    return KINDS[name]


def line(step: Figure) -> list:
    """Name, formula, values, result and source of one figure."""
    return step.derivation() + [step.formula.source]


def text(step: Figure) -> str:
    """One figure in a line; what only stands in for another says so once."""
    name, formula, values, result = step.derivation()
    if formula == values:
        return f"{name} = {formula} = {result}"
    return f"{name} = {formula} = {values} = {result}"


def by_hand(figure: Figure) -> list:
    """Its figures again, by the same formulas, in round numbers: one that goes
    in keeps a digit, one that comes out two."""
    found: dict = {}
    for step in figure.steps():
        name = step.formula.name
        scope = {}
        for key, value in step.inputs.items():
            if isinstance(value, Figure):
                scope[key] = found[value.formula.name].value
            else:
                scope[key] = near(value, 1)
        hand = step.formula(scope)
        hand.value = near(hand.value, 2)
        found[name] = hand
    return [found[step.formula.name] for step in figure.steps()]


def near(value: float, digits: int) -> float:
    """Round to so many digits, one more if the number begins with 1. Whole
    numbers below 100, and values that aren't numbers, stay."""
    if isinstance(value, (bool, str)) or not value:
        return value
    if abs(value) < 100 and value == int(value):
        return value
    power, size = 0, abs(value)
    while size >= 10 ** (power + 1):
        power += 1
    while size < 10**power:
        power -= 1
    first = size / 10**power
    power -= digits if first < 2 else digits - 1
    # A little more, so that what lies in the middle goes up in every Python.
    if power >= 0:
        rounded = int(size / 10**power + 0.500001) * 10**power
    else:
        rounded = int(size * 10**-power + 0.500001) / 10**-power
    return -rounded if value < 0 else rounded


def filled(template: str, given: dict) -> str:
    """Fill in the numbers as a person says them."""
    for key in given:
        mark = "{" + key + "}"
        if mark in template:
            template = template.replace(mark, said(key, given[key]))
    return template


def said(key: str, value: object) -> str:
    """Format a number for a question."""
    if key in WORDS:
        return WORDS[key][value]
    if not isinstance(value, (int, float)):
        return str(value)
    if key in ("bytes", "memory"):
        return decimal(value, "B")
    if "bandwidth" in key:
        return decimal(value, "B/s")
    if key == "peak_flops":
        return decimal(value, "FLOP/s")
    if "latency" in key:
        return f"{short(round(value * 1e7) / 10)} µs"
    if key.endswith("_seconds"):
        return amount(value, "s")
    if key in ("efficiency", "overlap", "mfu"):
        return f"{short(round(value * 100))} %"
    if key == "price_gpu_hour":
        return f"${short(value)}"
    if key in ("params", "tokens"):
        for size, word in ((1e12, "trillion"), (1e9, "billion")):
            if value >= size:
                return f"{short(value / size)} {word}"
    return grouped(value) if value == int(value) else short(value)


WORDS: dict = {
    "optimizer": {
        "adam-mixed": "Adam in mixed precision, gradients in 16 bits",
        "adam-mixed-fp32-gradients": "Adam in mixed precision, gradients"
        " summed in 32 bits",
        "adam-fp32": "Adam with everything in 32 bits",
        "sgd-momentum-fp32": "SGD with momentum, everything in 32 bits",
    },
    "op": {
        "all_reduce": "all-reduce",
        "reduce_scatter": "reduce-scatter",
        "all_gather": "all-gather",
    },
    "schedule": {"gpipe": "GPipe", "1f1b": "1F1B"},
    "tied_embeddings": {
        True: "tied to it",
        False: "a matrix of its own",
    },
    "bytes_gradient": {2: "16 bits", 4: "32 bits"},
}


def check(card: dict, typed: str) -> tuple:
    """(whether the estimate is near enough, a line that says so). PlanError
    for a text that holds no estimate."""
    guess = parsed(typed, card["unit"])
    off = guess / card["value"]
    times = f"{max(off, 1 / off):.3g} times"
    right = 1 / card["factor"] <= off <= card["factor"]
    how = "right on it"
    if abs(off - 1) > 0.005:
        how = f"{times} too {'high' if off > 1 else 'low'}"
    said = f"{amount(guess, card['unit'])} is {how}"
    verdict = "within" if right else "not within"
    return right, (
        f"{said}, {verdict} a factor of {short(card['factor'])}."
        f" The planner says {card['answer']}, round numbers {card['round']}."
    )


def form() -> str:
    """Return the page's generator, with a first question in it."""
    choices = '<option value="">any kind</option>'
    for topic in TOPICS:
        choices += f'<optgroup label="{TOPICS[topic]}">'
        for name in KINDS:
            if KINDS[name].topic == topic:
                title = KINDS[name].title
                choices += f'<option value="{name}">{title}</option>'
        choices += "</optgroup>"
    first = generate(*FIRST)
    return (
        f'<form class="estimates" data-kind="{FIRST[0]}"'
        f' data-seed="{FIRST[1]}"><p class="estimates-ask"><label>Ask for'
        f" <select>{choices}</select></label></p>"
        f'<p class="estimates-question">{first["question"]}</p>'
        '<p class="estimates-ask"><label>Your estimate <input'
        ' autocomplete="off" autocapitalize="off" spellcheck="false"></label>'
        '<button class="md-button">Check</button></p>'
        '<p class="estimates-verdict" role="status"></p>'
        '<p><button type="button" class="md-button">Next question</button></p>'
        f'<div class="estimates-worked">{worked(first)}</div></form>'
    )


def examples() -> list:
    """One question of each topic, the first of its kinds."""
    found = []
    for topic in TOPICS:
        name = next(name for name in KINDS if KINDS[name].topic == topic)
        found.append(dict(generate(name, 1), family=TOPICS[topic]))
    return found


def worked(card: dict) -> str:
    """Return the derivation of a question, as HTML that unfolds."""
    rows = ""
    for name, formula, values, result, source in card["steps"]:
        shown = f"<code>= {escaped(formula)}</code>"
        if values != formula:
            shown += f"<code>= {escaped(values)}</code>"
        rows += (
            f"<p><b>{escaped(name)}</b>{shown}<code>= {escaped(result)}</code>"
            f"<small>{escaped(source)}</small></p>"
        )
    hand = "".join(f"<code>{escaped(one)}</code>" for one in card["by_hand"])
    if card["command"]:
        asked = escaped(card["command"])
        rows += f"<p><small>The planner alone:</small><code>{asked}</code></p>"
    return (
        '<details class="estimates-fold"><summary>The derivation</summary>'
        f"<p>{escaped(card['thumb'])}</p>{rows}"
        f"<p><b>{escaped(card['answer'])}</b>, and in round numbers"
        f" <b>{escaped(card['round'])}</b>:{hand}</p></details>"
    )


def live(name: str, seed: int, typed: str) -> str:
    """For the browser: JSON. `typed` is the estimate, or nothing yet."""
    if name not in KINDS:
        name = FIRST[0]
    one = generate(name, seed)
    answer: dict = {"kind": name, "seed": seed}
    answer["question"], answer["worked"] = one["question"], worked(one)
    answer["right"], answer["verdict"] = None, ""
    if typed:
        try:
            answer["right"], answer["verdict"] = check(one, typed)
        except PlanError as error:
            answer["verdict"] = str(error)
    return json.dumps(answer)
