"""`lockstep plan …`: the planner at the command line."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from json import dumps
from math import isfinite
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table
from tyro.constructors import PrimitiveConstructorSpec

from lockstep.planner import (
    activations,
    collectives,
    flops,
    memory,
    models,
    pipeline,
)
from lockstep.planner import layout as layouts
from lockstep.planner import search as searching
from lockstep.planner.figures import Figure, PlanError, one_of, quantity

Recompute = Literal["none", "selective", "full"]
Unprefixed = tyro.conf.arg(name="")


def number(text: str) -> float:
    """`7.5e9` as a number, `3e9` as a whole one."""
    value = float(text)
    if not isfinite(value):
        raise ValueError("not a finite number")
    return int(value) if value == int(value) else value


Number = Annotated[
    float,
    PrimitiveConstructorSpec(
        nargs=1,
        metavar="N",
        instance_from_str=lambda words: number(words[0]),
        is_instance=lambda value: isinstance(value, int | float),
        str_from_instance=lambda value: [f"{value:g}"],
    ),
]


@dataclass(frozen=True)
class Output:
    """How an answer is printed."""

    json: bool = False  # for machines: base units, one object
    explain: bool = False  # the way to each figure, line by line


@dataclass(frozen=True)
class Shape:
    """A model. What is given beside a preset takes the preset's place."""

    preset: str = ""  # gpt3-175b, llama3-8b, … as its error lists them
    layers: Number = 0
    hidden: Number = 0
    heads: Number = 0
    kv_heads: Number = 0  # default: heads
    head_dim: Number = 0  # default: hidden / heads
    ffn: Number = 0  # default: 4 hidden
    vocab: Number = 0
    positions: Number = 0  # learned ones; none with RoPE
    gated_mlp: bool = False
    tied_embeddings: bool = False
    bias: bool = False
    layer_norm: bool = False  # in place of RMS norm
    experts: Number = 0
    experts_per_token: Number = 0
    shared_experts: Number = 0
    expert_ffn: Number = 0  # default: ffn
    dense_layers: Number = 0

    def counted(self) -> dict[str, Any]:
        """The shape, and its parameters by part."""
        given = {
            field.name: value
            for field in fields(self)
            if (value := getattr(self, field.name)) != field.default
        }
        name = given.pop("preset", None)
        return models.params((models.preset(name) if name else {}) | given)


Model = Annotated[Shape, Unprefixed]
How = Annotated[Output, Unprefixed]
PLAIN = Output()


def params(model: Model, how: How = PLAIN) -> None:
    """Parameters, by part; active: those that one token goes through."""
    parts = "embedding", "attention", "mlp", "norm", "total", "active"
    show(model.counted(), parts, how)


def state(
    params: Number,
    dp: Number = 1,
    zero_stage: Number = 0,
    bytes_parameter: Number = 2,
    bytes_gradient: Number = 2,
    bytes_optimizer: Number = 12,
    how: How = PLAIN,
) -> None:
    """Bytes of parameters, gradients and optimizer on one rank.

    Args:
        params: of the whole model.
        dp: ranks that share it.
        zero_stage: 0 shards nothing, 1 the optimizer, 2 gradients too, 3 all.
        bytes_optimizer: a parameter; 12 is Adam with a master copy.
    """
    given = locals()
    parts = "parameters_bytes", "gradients_bytes", "optimizer_bytes"
    show(memory.memory(given), (*parts, "total_bytes"), how)


def kept(
    layers: Number,
    hidden: Number,
    heads: Number,
    sequence: Number,
    micro_batch: Number = 1,
    tp: Number = 1,
    sequence_parallel: bool = False,
    recompute: Recompute = "none",
    how: How = PLAIN,
) -> None:
    """Bytes that the backward pass keeps, of one micro-batch on one rank.

    Args:
        tp: ranks of tensor parallelism.
    """
    found = activations.activations(locals())
    show(found, ("bytes_per_layer", "total_bytes"), how)


def collective(
    op: str,
    bytes: Number,
    ranks: Number,
    algorithm: str = "ring",
    bandwidth: Number = 0,
    latency: Number = 0,
    how: How = PLAIN,
) -> None:
    """Bytes on the wire, and the time by latency and bandwidth.

    Args:
        bytes: the size column of nccl-tests: of the whole buffer.
        bandwidth: bytes per second that a rank sends at most.
        latency: seconds of one hop.
    """
    found = collectives.collective(locals())
    show(found, ("bytes_sent_per_rank", "seconds", "bus_factor"), how)


def bubble(
    stages: Number,
    microbatches: Number,
    schedule: str = "1f1b",
    virtual_stages: Number = 1,
    how: How = PLAIN,
) -> None:
    """The idle share of a pipeline, in both definitions."""
    found = pipeline.pipeline(locals())
    parts = "bubble_fraction_of_total", "bubble_overhead"
    show(found, (*parts, "in_flight_microbatches"), how)


def operations(
    model: Model,
    sequence: Number,
    params: Number = 0,
    tokens: Number = 0,
    gpus: Number = 0,
    peak_flops: Number = 0,
    tokens_per_second: Number = 0,
    count_embeddings: bool = True,
    count_attention: bool = False,
    recompute: Recompute = "none",
    how: How = PLAIN,
) -> None:
    """Operations of a token and of a run, MFU, HFU, days.

    Args:
        params: that a token goes through, in place of what the shape has.
        tokens: of the whole run.
        peak_flops: a second, of one GPU, as its data sheet has it.
        tokens_per_second: of the whole job.
        count_embeddings: 6 N with N all parameters; else without the tables.
        count_attention: the products of queries, keys and values too.
    """
    given = locals()
    unknown = dict.fromkeys(("embedding", "layers", "heads", "head_dim"), 0)
    given |= unknown if params and model == Shape() else model.counted()
    if params:
        given["active"] = params
    parts = "flops_per_token", "total_flops", "mfu", "hfu", "days"
    counted = "count_embeddings", "count_attention", "recompute"
    show(flops.flops(given), (*parts, *counted), how)


@dataclass(frozen=True)
class Cluster:
    """What a run has, and what it must come to."""

    gpus: Number
    sequence: Number
    global_batch: Number  # sequences in a step
    hardware: str = "h100"  # a100, h100 or h200; the flags below go before it
    peak_flops: Number = 0
    memory: Number = 0  # bytes of one GPU
    node_bandwidth: Number = 0  # bytes a second, one way
    network_bandwidth: Number = 0
    gpus_per_node: Number = 8
    efficiency: Number = 0.6  # of the peak, that matrix products reach
    overlap: Number = 0.8  # of computing, that communication can hide behind
    schedule: str = "1f1b"
    virtual_stages: Number = 1
    bytes_parameter: Number = 2
    bytes_gradient: Number = 2
    bytes_optimizer: Number = 12

    def given(self, model: Shape) -> dict[str, Any]:
        """It and the model, as the planner takes them."""
        one_of("hardware", self.hardware, tuple(sorted(layouts.HARDWARE)))
        numbers = layouts.HARDWARE[self.hardware]
        own = {k: v for k, v in vars(self).items() if v or k not in numbers}
        return model.counted() | numbers | own


On = Annotated[Cluster, Unprefixed]


def run(
    model: Model,
    on: On,
    tp: Number = 1,
    cp: Number = 1,
    pp: Number = 1,
    ep: Number = 1,
    dp: Number = 0,
    zero_stage: Number = 0,
    micro_batch: Number = 1,
    recompute: Literal["none", "full"] = "none",
    sequence_parallel: bool = False,
    how: How = PLAIN,
) -> None:
    """One layout: memory of the fullest rank, bytes sent, the step's time.

    Args:
        dp: what tp, cp and pp leave, if it is not given.
    """
    given = {
        k: v for k, v in locals().items() if k not in ("model", "on", "dp")
    }
    if dp:
        given["dp"] = dp
    show(layouts.layout(on.given(model) | given), OF_A_LAYOUT, how)


OF_A_LAYOUT = (
    *("dp", "microbatches", "parameters_bytes", "gradients_bytes"),
    *("optimizer_bytes", "activations_bytes", "logits_bytes"),
    *("buffers_bytes", "total_bytes", "data_bytes", "tensor_bytes"),
    *("context_bytes", "expert_bytes", "pipeline_bytes", "compute_seconds"),
    *("bubble_seconds", "exposed_seconds", "step_seconds"),
    *("tokens_per_second", "mfu"),
)


def search(
    model: Model,
    on: On,
    best: Number = 10,
    why_not: bool = False,
    how: How = PLAIN,
) -> None:
    """All layouts that fit, the fastest first.

    Args:
        best: how many to print.
        why_not: print those that cannot be, too, each with its reason.
    """
    fit, refused = searching.search(on.given(model))
    if not fit:
        raise PlanError(f"no layout fits; the first, {reason(*refused[0])}")
    first = fit[: int(best)]
    keys = "step_seconds", "total_bytes", "mfu"
    if how.json:
        print(
            dumps(
                [
                    c | {key: found[key].value for key in keys}
                    for c, found in first
                ]
            )
        )
        return
    console = Console(highlight=False, soft_wrap=True)
    table = Table(box=None)
    for name in (*fit[0][0], "step", "memory", "mfu"):
        table.add_column(name.replace("_", " "), justify="right")
    for choice, found in first:
        figures = [found[key] for key in keys]
        said = [quantity(one.value, one.formula.unit) for one in figures]
        decimal = (text.partition(" (")[0] for text in said)
        table.add_row(*map(str, choice.values()), *decimal)
    console.print(table)
    console.print(f"{len(fit)} layouts fit, {len(refused)} do not\n")
    launch, script, flags = searching.command(fit[0][1]).partition(".py")
    console.print(launch + script + flags.replace(" --", " \\\n  --"))
    if why_not:
        for one in refused:
            console.print(reason(*one))
    if how.explain:
        console.print()
        choice, found = fit[0]
        explain(console, {key: found[key] for key in keys})


def reason(choice: dict[str, Any], why: str) -> str:
    """A layout that cannot be, in a line."""
    return f"{' '.join(f'{k}={v}' for k, v in choice.items())}: {why}"


def show(found: dict[str, Any], keys: tuple[str, ...], how: Output) -> None:
    """Print those of the keys that were found."""
    asked = {key: found[key] for key in keys if key in found}
    if how.json:
        values = {
            key: one.value if isinstance(one, Figure) else one
            for key, one in asked.items()
        }
        print(dumps(dict.fromkeys(keys) | values))
        return
    console = Console(highlight=False, soft_wrap=True)
    table = Table(box=None, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for key, one in asked.items():
        said = str(one).lower()
        if isinstance(one, Figure):
            said = quantity(one.value, one.formula.unit)
        table.add_row(key.replace("_", " "), said)
    console.print(table)
    if how.explain:
        explain(console, asked)


def explain(console: Console, asked: dict[str, Any]) -> None:
    """All that the figures rest on, each once, line by line."""
    said: list[Figure] = []
    for one in asked.values():
        if isinstance(one, Figure):
            said += [step for step in one.steps() if step not in said]
    for step in said:
        console.print()
        console.print("\n  = ".join(step.derivation()))
        console.print(f"  ({step.formula.source})")


COMMANDS: dict[str, Callable[..., None]] = {
    "params": params,
    "memory": state,
    "activations": kept,
    "collective": collective,
    "pipeline": bubble,
    "flops": operations,
    "run": run,
    "search": search,
}


def main(args: list[str]) -> int:
    """`lockstep plan COMMAND …`; the exit code is 2 for what cannot be."""
    try:
        tyro.extras.subcommand_cli_from_dict(
            COMMANDS, prog="lockstep plan", args=args
        )
    except PlanError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
