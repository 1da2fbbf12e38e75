"""Published runs: one JSON object a line, each checked when it is read.

A row names the run, the figures that its source publishes, and the command that
asks the planner for the same run. To add a run, add a line to `rows.jsonl`;
`pytest tests/experiments/published_runs` says what is wrong with it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from datetime import date
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lockstep.planner.figures import PlanError, flag, number
from lockstep.planner.questions import CHOICES, QUESTIONS, complete

ROWS = Path(__file__).with_name("rows.jsonl")
ASK = ["lockstep", "plan", "run"]
# Tokens a second and the seconds of a step say the same thing twice, and
# sources round both.
AGREE = 0.02
_FILE = r"^github:(?P<repository>[\w.-]+/[\w.-]+)@([0-9a-f]{40}):(\S+)$"
_COUNTS = (
    r"^$|^(model|hardware), "
    r"(attention in full|attention halved \(causal\)|not stated)$"
)


class Published(BaseModel):
    """The figures that a source prints, at least one of them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tokens_per_s_per_gpu: float | None = Field(None, gt=0)
    step_s: float | None = Field(None, gt=0)
    tflops_per_gpu: float | None = Field(None, gt=0)
    mfu: float | None = Field(None, gt=0, lt=1)
    memory_gb: float | None = Field(None, gt=0)


class Row(BaseModel):
    """A published run, and the question that asks the planner for it.

    - `source`, `address`: which figures, down to the row of a table, and where:
      an address, or `github:OWNER/NAME@COMMIT:PATH`
    - `checked`: the day on which somebody last opened it
    - `precision`: of the matmuls
    - `assumed`: what the source leaves open, and how the command fills it in
    - `counts`: which operations the source's TFLOP/s or MFU count: the model's
      or all that the hardware did, and attention in full or halved
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[A-Za-z0-9][\w.-]*$")
    source: str = Field(min_length=1)
    address: str = Field(pattern=rf"^https?://\S+$|{_FILE}")
    checked: date
    model: str = Field(min_length=1)
    hardware: str = Field(min_length=1)
    precision: Literal["fp32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4"]
    parallelism: str = Field(min_length=1)
    command: str
    published: Published
    assumed: str
    counts: str = Field("", pattern=_COUNTS)

    @property
    def origin(self) -> str:
        """Return the source's name: a repository, or who published it."""
        if repository := re.match(r"github:([\w./-]+)", self.source):
            return repository[1]
        return re.split(r"[,:(]", self.source)[0].strip()

    @property
    def link(self) -> str:
        """Return the address at which a browser finds the source."""
        if file := re.match(_FILE, self.address):
            repository, commit, path = file.groups()
            return f"https://github.com/{repository}/blob/{commit}/{path}"
        return self.address

    @property
    def share(self) -> str:
        """Return the planner's share of the peak that counts operations as the
        source does. A source that doesn't say is read as counting what causal
        kernels compute, half of attention."""
        if self.counts.startswith("hardware"):
            return "hfu"
        return "mfu" if self.counts.endswith("in full") else "mfu_causal"

    @property
    def chip(self) -> str:
        """Return the accelerator's name, without its memory and network."""
        named = re.match(r"(TPU|RTX) \w+|[\w-]+", self.hardware)
        return named[0] if named else self.hardware

    @cached_property
    def given(self) -> dict[str, Any]:
        """Return the inputs of the planner's question.

        Raises:
            ValueError: the command asks something else.
        """
        return inputs(self.command)


def inputs(command: str) -> dict[str, Any]:
    """Read a `lockstep plan run` command as the command line reads it, and
    return its inputs and the defaults of all others.

    Raises:
        ValueError: a flag is unknown, or lacks its value, or is missing.
    """
    words = iter(shlex.split(command))
    if [next(words, "") for _ in ASK] != ASK:
        raise ValueError(f"the command must begin with {' '.join(ASK)}")
    known = dict(QUESTIONS["run"].inputs)
    given: dict[str, Any] = {}
    for word in words:
        name = word.removeprefix("--").replace("-", "_")
        if word in ("--json", "--explain"):
            continue
        if name not in known or word != flag(name):
            raise ValueError(f"{word} is not a flag of {' '.join(ASK)}")
        default = known[name]
        if default is None:
            default = CHOICES.get(name, [0])[0]
        if isinstance(default, bool):
            given[name] = True
            continue
        value = next(words, "")
        try:
            given[name] = value if isinstance(default, str) else number(value)
        except ValueError:
            raise ValueError(f"{word} needs a number, not {value!r}") from None
    return complete("run", QUESTIONS["run"].inputs, given)


def read(path: Path = ROWS) -> list[Row]:
    """Return all rows of a file.

    Raises:
        ValueError: rows are bad, one line for each.
    """
    found: list[Row] = []
    bad: list[str] = []
    for at, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        where = f"{path.name}:{at}"
        try:
            row = json.loads(line)
            where += f": {row['id']}"
            found.append(Row.model_validate(row))
        except ValidationError as error:
            bad.append(f"{where}: {'; '.join(_said(error))}")
        except (ValueError, LookupError, TypeError):
            bad.append(f"{where}: not a JSON object with an id")
        else:
            faults = [*_faults(found[-1], {one.id for one in found[:-1]})]
            bad += [f"{where}: {fault}" for fault in faults[:1]]
    if bad:
        raise ValueError("\n".join(bad))
    return found


@cache
def rows() -> dict[str, Row]:
    """Return the repository's rows by their id."""
    return {row.id: row for row in read()}


def _said(error: ValidationError) -> Iterator[str]:
    for one in error.errors(include_url=False):
        name = ".".join(map(str, one["loc"]))
        yield f"{name}: {one['msg'][0].lower()}{one['msg'][1:]}"


def _faults(row: Row, before: set[str]) -> Iterator[str]:
    if row.id in before:
        yield "another row has this id"
    published = row.published
    if not published.model_dump(exclude_none=True):
        yield "published: no figure"
    try:
        given = row.given
    except (PlanError, ValueError) as error:
        yield f"command: {error}"
        return
    if published.tokens_per_s_per_gpu and published.step_s:
        tokens = given["global_batch"] * given["sequence"]
        rate = tokens / published.step_s / given["gpus"]
        if abs(rate / published.tokens_per_s_per_gpu - 1) > AGREE:
            yield (
                f"published: {tokens:,} tokens in {published.step_s} s on"
                f" {given['gpus']} GPUs are {rate:.4g} tokens/s per GPU, not"
                f" {published.tokens_per_s_per_gpu}"
            )
