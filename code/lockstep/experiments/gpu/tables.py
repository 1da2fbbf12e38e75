"""The measurements as tables, beside what the planner says."""

from functools import cache
from typing import Any

from lockstep.experiments.gpu.settings import FSDP2, Shape
from lockstep.experiments.markdown import sections, table
from lockstep.planner.layout import WHITEBOARD
from lockstep.planner.questions import ask

Found = dict[str, Any]
PEAK = 989e12  # FLOP/s of an H100's and an H200's matrix units in bf16, dense
PRECISIONS = {
    "fp32": "fp32",
    "tf32": "fp32, products in TF32",
    "bf16": "bf16 by autocast",
    "fp16": "fp16 by autocast, loss scaled",
    FSDP2: "bf16 by FSDP2's policy",
}


def tables(found: Found) -> str:
    """All of them, in one text."""
    return sections(
        found,
        formats,
        sizes,
        rows,
        moved,
        precisions,
        batches,
        recomputed,
        kept,
        attention,
        biased,
        loss,
        launches,
        updates,
        copies,
        repeats,
        others,
        machine,
    )


def digits(number: float) -> str:
    """Three of them: 1,861, 170, 0.539."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def tera(rate: float) -> str:
    """FLOP/s in TFLOP/s."""
    return digits(rate / 1e12)


def giga(count: float) -> str:
    """Bytes in GB."""
    return f"{count / 1e9:.1f}"


def small(number: float) -> str:
    """1.6 × 10⁻⁶."""
    first, power = f"{number:.1e}".split("e")
    raised = str(int(power)).translate(
        str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    )
    return f"{first} × 10{raised}"


def milli(took: float) -> str:
    """Seconds in ms."""
    return digits(took * 1e3)


@cache
def planned(batch: int, recompute: str) -> dict[str, float]:
    """The planner's answer for a step of the decoder on one GPU, all state in
    fp32."""
    given = {
        **WHITEBOARD,
        **Shape().planned(),
        "gpus": 1,
        "zero_stage": 0,
        "optimizer": "adam-fp32",
        "sequence": 4096,
        "global_batch": batch,
        "micro_batch": batch,
        "recompute": recompute,
        "loss": "eager",
    }
    answer = ask("run", given)
    return {name: getattr(of, "value", of) for name, of in answer.items()}


def parts_at_the_loss(found: Found, row: Found) -> dict[str, float]:
    """Bytes in use at a step's peak, counted by hand: there are no gradients
    yet, and an eager loss has twelve bytes for each logit. What a block keeps
    is the planner's figure, and of selective recomputation the measured one."""
    again = row["recompute"]
    plan = planned(row["batch"], "full" if again == "selective" else again)
    kept = plan["kept_per_layer"]
    if again == "selective":
        (one,) = (r for r in found["kept"] if r["recompute"] == again)
        kept = one["bytes_per_block"] * row["batch"] / one["batch"]
    return {
        "weights and moments": plan["parameters_bytes"]
        + plan["optimizer_bytes"],
        "what blocks keep": Shape().layers * kept,
        "loss": 12.0 * row["tokens"] * Shape().vocab,
        "gathered output layer": 2 * plan["embedding"],
    }


def at_the_loss(found: Found, row: Found) -> float:
    """All of them."""
    return sum(parts_at_the_loss(found, row).values())


def mfu(row: Found) -> float:
    """Of the peak, counting what the model needs and no recomputation."""
    needed = planned(row["batch"], "none")["flops_per_token"] * row["tokens"]
    return float(needed / row["seconds"] / PEAK)


def step(found: Found, **which: Any) -> Found:
    """The one step that was measured so."""
    usual = {"recompute": "none", "precision": FSDP2, "compiled": False}
    wanted = {**usual, "offload": False, **which}
    each = (*found["steps"], *found["offload"])
    (row,) = (r for r in each if all(r[k] == v for k, v in wanted.items()))
    return dict(row)


def formats(found: Found) -> str:
    """Products of large matrices."""
    return table(
        ["format of the operands", "TFLOP/s", "relative error"],
        (
            [r["format"], tera(r["flops_per_second"]), small(r["error"])]
            for r in found["formats"]
        ),
    )


def sizes(found: Found) -> str:
    """Products by the length of their sides."""
    return table(
        ["n", "µs", "TFLOP/s", "of the peak"],
        (
            [
                f"{r['n']:,}",
                digits(2 * r["n"] ** 3 / rate * 1e6),
                tera(rate),
                f"{100 * rate / PEAK:.2g} %",
            ]
            for r in found["sizes"]
            for rate in [r["flops_per_second"]]
        ),
    )


def rows(found: Found) -> str:
    """A batch through one weight."""
    return table(
        ["rows", "µs", "TFLOP/s", "TB/s"],
        (
            [
                f"{r['rows']:,}",
                f"{r['seconds'] * 1e6:,.0f}",
                tera(r["flops_per_second"]),
                f"{r['bytes_per_second'] / 1e12:.2f}",
            ]
            for r in found["rows"]
        ),
    )


def moved(found: Found) -> str:
    """What reads and writes, and computes little."""
    return table(
        ["operation", "TB/s"],
        (
            [r["what"], f"{r['bytes_per_second'] / 1e12:.2f}"]
            for r in found["moved"]
        ),
    )


def precisions(found: Found) -> str:
    """A step of two sequences, by format."""
    return table(
        ["format", "ms a step", "MFU", "peak, GB"],
        (
            [
                named,
                milli(row["seconds"]),
                f"{100 * mfu(row):.0f} %",
                giga(row["peak"]),
            ]
            for name, named in PRECISIONS.items()
            for row in [step(found, batch=2, precision=name)]
        ),
    )


def batches(found: Found) -> str:
    """A step by sequences, eager and compiled."""
    return table(
        ["sequences", "ms a step", "tokens/s", "MFU"],
        (
            [
                f"{row['batch']}{', compiled' if row['compiled'] else ''}",
                milli(row["seconds"]),
                f"{row['tokens'] / row['seconds']:,.0f}",
                f"{100 * mfu(row):.0f} %",
            ]
            for batch in (1, 2, 4, 8)
            for compiled in (False, True)
            for row in found["steps"]
            if (row["batch"], row["compiled"]) == (batch, compiled)
            and (row["precision"], row["recompute"]) == (FSDP2, "none")
        ),
    )


def recomputed(found: Found) -> str:
    """Time and peak, and the peak that is planned."""
    cells = []
    for row in found["steps"]:
        if row["precision"] != FSDP2 or row["compiled"]:
            continue
        plain = step(found, batch=row["batch"])
        plan = "–"
        if row["recompute"] != "selective":
            total = planned(row["batch"], row["recompute"])["total_bytes"]
            plan = giga(total)
        cells.append(
            [
                f"{row['batch']}, {row['recompute']}",
                milli(row["seconds"]),
                f"{row['seconds'] / plain['seconds']:.2f}",
                giga(row["peak"]),
                giga(at_the_loss(found, row)),
                plan,
            ]
        )
    cells.sort(key=lambda cell: cell[0])
    head = ["sequences, recomputed", "ms a step", "× none", "peak, GB"]
    return table([*head, "counted at the loss", "planner"], cells)


def kept(found: Found) -> str:
    """What the backward pass keeps of one block."""
    return table(
        ["recomputed", "measured, bytes", "planned"],
        (
            [
                row["recompute"],
                f"{row['bytes_per_block']:,.0f}",
                "–"
                if row["recompute"] == "selective"
                else f"{planned(2, row['recompute'])['kept_per_layer']:,.0f}",
            ]
            for row in found["kept"]
        ),
    )


def attention(found: Found) -> str:
    """Causal attention, forward and backward."""
    return table(
        ["tokens, kernel", "ms", "TFLOP/s", "peak beyond inputs, GB"],
        (
            [
                f"{row['tokens']:,}, {row['backend']}",
                milli(row["seconds"]),
                tera(row["flops_per_second"]),
                f"{row['peak'] / 1e9:.2f}",
            ]
            if "seconds" in row
            else [f"{row['tokens']:,}, {row['backend']}", "refuses", "", ""]
            for row in found["attention"]
        ),
    )


def biased(found: Found) -> str:
    """With a bias that learns."""
    return table(
        ["kernel", "ms", "peak beyond inputs, GB"],
        (
            [
                row["backend"],
                milli(row["seconds"]),
                f"{row['peak'] / 1e9:.2f}",
            ]
            if "seconds" in row
            else [row["backend"], "refuses", ""]
            for row in found["biased"]
        ),
    )


def loss(found: Found) -> str:
    """Of the output layer."""
    return table(
        ["loss", "ms", "peak, GB"],
        (
            [r["how"], milli(r["seconds"]), giga(r["peak"])]
            for r in found["loss"]
        ),
    )


def launches(found: Found) -> str:
    """A small model's step: time, kernels, and time in kernels."""
    return table(
        [
            "how",
            *("1 sequence: ms", "of them in kernels", "kernels"),
            *("64 sequences: ms", "in kernels then"),
        ],
        (
            [
                r["how"],
                milli(r["seconds_1"]),
                milli(r["busy_1"]),
                f"{r['kernels_1']:.0f}",
                milli(r["seconds_64"]),
                milli(r["busy_64"]),
            ]
            for r in found["launches"]
        ),
    )


def updates(found: Found) -> str:
    """AdamW by its implementation."""
    return table(
        ["AdamW", "ms", "beyond state, GB"],
        (
            [r["how"], milli(r["seconds"]), giga(r["beyond_state"])]
            for r in found["updates"]
        ),
    )


def copies(found: Found) -> str:
    """Between host and GPU."""
    return table(
        ["direction", "host memory pageable, GB/s", "pinned"],
        (
            [
                name,
                *(
                    giga(r["bytes_per_second"])
                    for pinned in (False, True)
                    for r in found["copies"]
                    if (r["to"], r["pinned"]) == (to, pinned)
                ),
            ]
            for to, name in (("GPU", "host → GPU"), ("host", "GPU → host"))
        ),
    )


def repeats(found: Found) -> str:
    """Calls whose bits are those of the first."""
    return table(
        ["operation", "as it is", "deterministic"],
        (
            [r["what"], f"{100 * r['alike']:.0f} %", f"{100 * r['told']:.0f} %"]
            for r in found["twice"]
        ),
    )


def others(found: Found) -> str:
    """A row among others."""
    return table(
        ["rows in the batch", "same bits as in one of 4,096?", "difference"],
        (
            [
                f"{r['batch']:,}",
                "yes" if r["alike"] else "no",
                small(r["off"]) if r["off"] else "0",
            ]
            for r in found["batches"]
        ),
    )


def machine(found: Found) -> str:
    """Where, when and with what this was measured."""
    gpu, versions = found["gpu"], found["versions"]
    said = {
        "GPU": f"{gpu['name']}, {gpu['memory'] / 2**30:.0f} GiB, one of it",
        "Host": f"{found['machine']['cores']} cores,"
        f" {found['machine']['memory']}",
        "Versions": f"Python {versions['Python']}, torch {versions['torch']}"
        f" with CUDA {gpu['cuda']}",
        "Measured": f"{found['date']}, revision `{found['revision']}`;"
        " medians of few repeats after a warm-up",
    }
    return "".join(f"- **{name}**: {text}\n" for name, text in said.items())
