"""What may differ between two runs, and what may not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lockstep.site.verify.normalize import normalize, tidy

A, B = "3f" * 32, "c0" * 32


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("at 2026-11-21T08:47:01.5Z", "at 2026-11-22 09:00:00+01:00"),
        ("[08:47:01] done", "[23:59:59.25] done"),
        ('{"time": 1763714.1, "step": 1}', '{"time": 2, "step": 1}'),
        ('{"duration_s": 1.25e-3}', '{"duration_s": 3}'),
        ('{"save_seconds": 1}', '{"save_seconds": 2.5}'),
        ("took 1.5 s", "took 12 s"),
        ("took 15ms", "took 7 ms"),
        ("1 passed in 9.5s", "1 passed in 61.25s (0:01:01)"),
        ("812.5 samples/s", "9 samples/s"),
        ("(pid 4711) left", "(pid 12) left"),
        ('"pid": 4711', '"pid": 12'),
        ("torch 2.13.0", "torch 2.14.1+cpu"),
        ('"torch_version": "2.13.0"', '"torch_version": "2.14.0"'),
        ("in /tmp/a1/runs", "in /home/x/y/runs"),
        ("in ~/a/runs", "in ~/b/c/runs"),
        (f"{A} {A} {B}", f"{B} {B} {A}"),
        (f"weights {A[:16]}", f"weights {B[:16]}"),
        ("a   1\nb\n", "a 1  \nb"),
    ],
)
def test_what_may_differ_compares_equal(one: str, other: str) -> None:
    assert normalize(one) == normalize(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("step 40", "step 41"),
        ("4 steps", "5 steps"),
        ("accuracy 0.96", "accuracy 0.97"),
        ('{"exactly_once": true}', '{"exactly_once": false}'),
        ('{"steps": 40}', '{"steps": 41}'),
        ("runs/demo", "runs/other"),
        ("loss 1.5", "loss 2.5"),
        # Two runs that ended alike must go on ending alike.
        (f"{A} {A}", f"{A} {B}"),
        (f"{A} {B}", f"{A} {A}"),
        ("123456789012 bytes", "223456789012 bytes"),
        ("a\nb", "a b"),
    ],
)
def test_what_may_not_differ_is_kept(one: str, other: str) -> None:
    assert normalize(one) != normalize(other)


PLAN = "lockstep plan run --gpus 8 \\\n    --tp 2 | head -n 2\n"


@pytest.mark.parametrize(
    ("commands", "compared"),
    [
        (PLAN, True),
        (PLAN * 2, True),
        (PLAN + "lockstep audit runs/a\n", False),
        ("torchrun train.py\n", False),
    ],
)
def test_a_time_that_was_computed_may_not_differ(
    commands: str, compared: bool
) -> None:
    one, other = (f"step  {s} s" for s in (14, 15))
    same = normalize(one, commands) == normalize(other, commands)
    assert same is not compared
    assert normalize("step  14 s", commands) == normalize("step 14 s", commands)


def test_published_output_names_no_machine(tmp_path: Path) -> None:
    text = f"{tmp_path}/runs/a {tmp_path} {sys.prefix}/bin {Path.home()}/b"
    assert tidy(text, tmp_path) == "runs/a . .venv/bin ~/b"
