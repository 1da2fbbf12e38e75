"""The planner's page: its forms and answers as HTML.

The site's build writes one worked example for each question with it, and the
reader's browser, in MicroPython, all that is asked later.
"""

import json

from lockstep.explore import found_layouts
from lockstep.explore.svg import escaped
from lockstep.planner.figures import (
    LARGEST,
    TOO_FAR,
    Figure,
    PlanError,
    decimal,
    flag,
    number,
    plain,
    words,
)
from lockstep.planner.questions import (
    CHOICES,
    HELD,
    QUESTIONS,
    about,
    ask,
    choices,
)

EXAMPLES: list = [
    (
        "run",
        "One layout",
        [("preset", "llama3-70b"), ("gpus", 512), ("hardware", "h100")]
        + [("sequence", 8192), ("global_batch", 1024), ("tp", 4), ("cp", 1)]
        + [("pp", 4), ("ep", 1), ("zero_stage", 1), ("micro_batch", 1)]
        + [("recompute", "full"), ("sequence_parallel", True)]
        + [("tokens", 15e12)],
    ),
    (
        "search",
        "All layouts",
        [("preset", "llama3-70b"), ("gpus", 512), ("hardware", "h100")]
        + [("sequence", 8192), ("global_batch", 1024)],
    ),
    (
        "memory",
        "Memory of the state",
        [("params", 7.5e9), ("dp", 64), ("zero_stage", 1), ("shard", 0)]
        + [("optimizer", "adam-mixed")],
    ),
    (
        "activations",
        "Activations",
        [("layers", 96), ("hidden", 12288), ("heads", 96), ("sequence", 2048)]
        + [("micro_batch", 1), ("tp", 8), ("sequence_parallel", True)]
        + [("recompute", "selective")],
    ),
    ("params", "Parameters", [("preset", "llama3-8b")]),
    (
        "flops",
        "Operations, time and cost",
        [("preset", "llama3-405b"), ("sequence", 8192), ("tokens", 15.6e12)]
        + [("gpus", 16384), ("peak_flops", 989e12)]
        + [("tokens_per_second", 2.7e6), ("count_attention", False)],
    ),
    (
        "pair",
        "Pair representation",
        [("trunk", "alphafold3"), ("residues", 2000), ("attention", "scores")]
        + [("recompute", "none")],
    ),
    (
        "collective",
        "A collective",
        [("op", "all_reduce"), ("bytes", 1e9), ("ranks", 64)]
        + [("algorithm", "hierarchical"), ("bandwidth", 46e9)]
        + [("latency", 1e-5), ("node_bandwidth", 370e9)]
        + [("node_latency", 2e-6)],
    ),
    (
        "pipeline",
        "The bubble",
        [("stages", 4), ("microbatches", 16), ("schedule", "interleaved")]
        + [("virtual_stages", 2)],
    ),
    (
        "goodput",
        "Goodput",
        [("gpus", 16384), ("gpu_mtbf_hours", 50000), ("save_seconds", 60)]
        + [("restart_seconds", 600)],
    ),
]
PASSING = "activations_bytes", "logits_bytes", "buffers_bytes", "system_bytes"
LABELS = {
    "optimizer_bytes": "optimizer state",
    "absent_bytes": "gradients that the fullest moment lacks",
    "optimizer_seconds": "the optimizer's pass",
    "straggler": "waiting for stragglers",
    "system": "CUDA, NCCL and fragmentation",
    "width": "factor of the interval",
    "dominant": "largest uncertainty",
    "outside": "outside the data",
    "buffers": "gathered layers, or buckets",
    "data": "sent for data parallelism",
    "tensor": "sent for tensor parallelism",
    "context": "sent for context parallelism",
    "expert": "sent to experts",
    "pipeline": "sent to the next stage",
    "compute": "computing",
    "bubble": "idle: the bubble",
    "exposed": "waiting for communication",
    "hidden": "communication that hides",
}
# What inputs are called; others are called as at the command line.
NAMES = {
    "preset": "model",
    "gpus": "GPUs",
    "sequence": "tokens in a sequence",
    "global_batch": "sequences in a batch",
    "micro_batch": "micro-batch",
    "tp": "tensor parallel (tp)",
    "cp": "context parallel (cp)",
    "pp": "pipeline stages (pp)",
    "ep": "expert parallel (ep)",
    "dp": "data parallel (dp)",
    "zero_stage": "ZeRO stage",
    "recompute": "recompute activations",
    "tokens": "tokens in all",
    "gpu_mtbf_hours": "hours between a GPU's failures",
    "save_seconds": "seconds that a save stops the job",
    "restart_seconds": "seconds to restart",
}
STEP = (
    "compute_seconds",
    "bubble_seconds",
    "exposed_seconds",
    "optimizer_seconds",
    "straggler_seconds",
)


def page() -> str:
    """Every question with its example, and the form to ask another."""
    choices = "".join(
        f'<option value="{name}">{title}</option>'
        for name, title, _ in EXAMPLES
    )
    said = (
        '<div class="planner"><p class="planner-ask"><label>Ask for '
        f"<select>{choices}</select></label> "
        '<button type="button" class="md-button">Copy link</button></p>'
    )
    for name, title, given in EXAMPLES:
        first = ' class="planner-shown"' if name == EXAMPLES[0][0] else ""
        said += (
            f'<section data-ask="{name}"{first}>'
            f'<h2 id="ask-{name}">{title}</h2>'
            f"<p>{QUESTIONS[name].says}</p>{form(name, dict(given))}"
            f'<div class="planner-answer">{answer(name, dict(given))}</div>'
            "</section>"
        )
    return said + "</div>"


def form(name: str, given: dict) -> str:
    """The inputs: those of the example, and folded away the others."""
    example = dict(next(one for other, _, one in EXAMPLES if other == name))
    first, rest, opened = "", "", ""
    for key, default in QUESTIONS[name].inputs:
        said = control(name, key, default, given)
        if key in example:
            first += said
        else:
            rest += said
            if given.get(key, default) != default:
                opened = " open"
    said = f'<form><div class="planner-inputs">{first}</div>'
    if rest:
        said += (
            f'<details class="planner-more"{opened}>'
            "<summary>More inputs</summary>"
            f'<div class="planner-inputs">{rest}</div></details>'
        )
    return f'{said}<p class="planner-help" id="{name}-help"></p></form>'


def control(question: str, key: str, default: object, given: dict) -> str:
    """One input with its label. Its help is what a pointer finds, and what is
    shown below the form while it is edited."""
    value = given.get(key, default)
    told = f'name="{key}" title="{escaped(about(question, key))}"'
    told += f' aria-describedby="{question}-help"'
    label = NAMES.get(key, key.replace("_", " "))
    if isinstance(default, bool):
        checked = " checked" if value else ""
        box = f'<input type="checkbox" {told}{checked}>'
        return f"<label>{label} {box}</label>"
    if key in CHOICES:
        known = choices(question, key)
        options = '<option value="">none</option>' if default == "" else ""
        options += "".join(
            f"<option{' selected' if one == value else ''}>{one}</option>"
            for one in known
        )
        return f"<label>{label} <select {told}>{options}</select></label>"
    shown = "" if value is None else escaped(typed(value))
    return (
        f"<label>{label} <input {told}"
        f' inputmode="decimal" autocomplete="off" value="{shown}"></label>'
    )


def typed(value: object) -> str:
    """As somebody would type it."""
    if isinstance(value, str):
        return value
    text = f"{value:.12g}"
    if len(text) < 7 or "e" in text:
        return text.replace("e+", "e")
    digits = text.rstrip("0")
    power = len(text) - 1
    if "." in text or len(digits) > 5:
        return text
    return digits[0] + ("." + digits[1:] if digits[1:] else "") + f"e{power}"


def read(name: str, texts: dict) -> dict:
    """Inputs as typed, or as a link has them, as values. PlanError for a
    number that is none, or that is too far from 1 to compute with."""
    found: dict = {}
    for key, default in QUESTIONS[name].inputs:
        text = str(texts.get(key, "")).strip()
        if not text:
            continue
        if isinstance(default, bool):
            found[key] = text.lower() in ("1", "true", "on")
        elif key in CHOICES and key != "zero_stage":
            found[key] = text
        else:
            try:
                found[key] = number(text)
            except ValueError:
                right = "it must be a number"
            else:
                if not found[key] or 1 / LARGEST <= abs(found[key]) <= LARGEST:
                    continue
                right = f"it must be 0 or from {1 / LARGEST} to {LARGEST}"
            shown = text if len(text) < 40 else text[:30] + "…"
            raise PlanError(f"{flag(key)} is {shown}; {right}")
    return found


def readable(name: str, texts: dict) -> dict:
    """The inputs that `read` takes, without the others."""
    found: dict = {}
    for key in texts:
        try:
            found.update(read(name, {key: texts[key]}))
        except PlanError:
            continue
    return found


def answer(name: str, given: dict) -> str:
    """The answer to a question, or in one line why there is none."""
    try:
        return written(name, given)
    except PlanError as error:
        return refused(str(error))
    except (ArithmeticError, ValueError):
        return refused(TOO_FAR)


def written(name: str, given: dict) -> str:
    """The answer to a question that has one."""
    found = ask(name, given)
    keys = [key for key in QUESTIONS[name].keys if found.get(key, "") != ""]
    headline = ""
    for key in ("verdict", "remedy"):
        if key in keys:
            keys.remove(key)
            headline += f'<p class="planner-{key}">{escaped(found[key])}</p>'
    steps: list = []
    for key in keys:
        if isinstance(found[key], Figure):
            steps += [s for s in found[key].steps() if s not in steps]
    others = [step for step in steps if step.formula.name not in keys]
    said = headline + drawn(found)
    if "fit" in found:
        said += found_layouts.written(found, lambda c: address(given, c))
    for key in keys:
        said += row(name, key, found[key], interval(found, key))
    if others:
        said += (
            '<details class="planner-others"><summary>What they rest on'
            "</summary>"
        )
        said += "".join(row(name, one.formula.name, one) for one in others)
        said += "</details>"
    return said + f"<pre><code>{escaped(command(name, given))}</code></pre>"


def address(given: dict, choice: dict) -> str:
    """A link to one of the layouts that a search found."""
    one = dict(given)
    one.update(choice)
    one["sequence_parallel"] = choice["tp"] > 1
    pairs = [f"{key}={text}" for key, text in query("run", one)]
    return "?" + "&".join(pairs)


def refused(why: str) -> str:
    """Why there is no answer."""
    return f'<p class="planner-refused" role="alert">{escaped(why)}</p>'


def interval(found: dict, key: str) -> str:
    """Return the ends of a figure's 90 % interval, if it has one."""
    if key + "_low" not in found:
        return ""
    unit = found[key].formula.unit
    low, high = (
        decimal(plain(found[key + end]), unit) for end in ("_low", "_high")
    )
    return f"<small>{low} to {high}</small>"


def row(question: str, key: str, one: object, ends: str = "") -> str:
    """A figure, which unfolds into formula, values and source."""
    said = f"<span>{label(key)}</span>"
    if not isinstance(one, Figure):
        text = str(one).lower()
        return f'<p class="planner-row">{said} <b>{escaped(text)}</b></p>'
    formula = one.formula
    _, _, values, result = one.derivation()
    text = "".join(
        f'<a href="#{question}-{word}">{word}</a>'
        if is_name and isinstance(one.inputs[word], Figure)
        else escaped(word)
        for word, is_name in words(formula.text)
    )
    return (
        f'<details class="planner-row"><summary>{said} <b>{escaped(result)}'
        f'</b>{ends}</summary><p id="{question}-{key}"><code>{text}</code>'
        f"<code>= {escaped(values)}</code><code>= {escaped(result)}</code>"
        f"<small>{escaped(formula.source)}</small></p></details>"
    )


def drawn(found: dict) -> str:
    """Memory and time of a rank as bars, as far as they were found."""
    said = ""
    if HELD[0] in found:
        parts = [key for key in HELD + PASSING if key in found]
        total = plain(found["total_bytes"])
        limit = plain(found["memory"]) if "memory" in found else 0
        title = f"Memory of the fullest rank: {amount(found['total_bytes'])}"
        if limit:
            verdict = "of" if total <= limit else "do not fit into"
            title += f" {verdict} {decimal(limit, 'B')}"
        held = {key: plain(found[key]) for key in parts}
        held["gradients_bytes"] -= plain(found.get("absent_bytes", 0))
        lanes = [[(key, held[key]) for key in parts]]
        said += bars(title, lanes, max(total, limit), "B")
    if STEP[0] in found:
        parts = [key for key in STEP if key in found]
        computed, idle, waited = (plain(found[key]) for key in STEP[:3])
        sent = sum(
            plain(found[kind + "_seconds"])
            for kind in ("layer", "data", "context")
        )
        hidden = max(0, sent - waited)
        lanes = [
            [(key, plain(found[key])) for key in parts],
            [
                ("", max(0, computed - hidden)),
                ("hidden", hidden),
                ("", idle),
                ("exposed_seconds", waited),
            ],
        ]
        title = f"One step: {amount(found['step_seconds'])}"
        total = max(plain(found["step_seconds"]), hidden + idle + waited)
        said += bars(title, lanes, total, "s")
    return said


def bars(title: str, lanes: list, total: float, unit: str) -> str:
    """Lanes of parts that lie end to end, in shares of `total`; a part without
    a name is a gap."""
    said = f'<figure class="planner-bars"><figcaption>{title}</figcaption>'
    legend, listed = "", []
    for lane in lanes:
        said += '<div aria-hidden="true">'
        for key, value in lane:
            name = part(key)
            kind = f"part-{name.replace('_', '-')}"
            share = 100 * value / total if total else 0
            said += f'<span class="{kind}" style="width:{share:.3f}%"></span>'
            if name and value and name not in listed:
                listed.append(name)
                shown = f"{label(key)} {decimal(value, unit)}"
                legend += f'<li class="{kind}">{shown}</li>'
        said += "</div>"
    return f"{said}<ul>{legend}</ul></figure>"


def part(key: str) -> str:
    """A figure's name without the unit, which stands beside the number."""
    return key.replace("_bytes", "").replace("_seconds", "")


def label(key: str) -> str:
    """A figure's name in words."""
    short = part(key)
    return LABELS.get(key, LABELS.get(short, short.replace("_", " ")))


def amount(figure: Figure) -> str:
    """A figure's value in decimal units."""
    return decimal(figure.value, figure.formula.unit)


def changed(name: str, given: dict) -> list:
    """The inputs that differ from their defaults, in the question's order."""
    return [
        (key, given[key])
        for key, default in QUESTIONS[name].inputs
        if given.get(key, default) != default
    ]


def command(name: str, given: dict) -> str:
    """The same question at the command line."""
    said = f"lockstep plan {name}"
    for key, value in changed(name, given):
        if isinstance(value, bool):
            said += " " + flag(key if value else "no_" + key)
        else:
            said += f" {flag(key)} {typed(value)}"
    return said


def query(name: str, given: dict) -> list:
    """What a link to this question says: pairs of text."""
    pairs = [["ask", name]]
    for key, value in changed(name, given):
        text = "01"[value] if isinstance(value, bool) else typed(value)
        pairs.append([key, text])
    return pairs


def live(name: str, texts: str, new_form: bool) -> str:
    """For the browser: JSON in, JSON out. `texts` are inputs as typed; the
    answer has the `html`, the link's `query` and, if it is asked for, a
    `form`."""
    if name not in QUESTIONS:
        name, texts = "run", "{}"
    said: dict = {"ask": name}
    asked = json.loads(texts)
    try:
        given = read(name, asked)
        said["html"], said["query"] = answer(name, given), query(name, given)
    except PlanError as error:
        given, said["html"] = readable(name, asked), refused(str(error))
    if new_form:
        said["form"] = form(name, given)
    return json.dumps(said)
