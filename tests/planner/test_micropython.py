"""The browser computes with the planner's own files, and to the same bits."""

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from lockstep.planner.pipeline import SCHEDULES
from lockstep.planner.presets import PRESETS
from tests import micropython
from tests.planner.answer_all import answer

NUMBER = re.compile(r"[\d.]+(e[+-]?\d+)?")


def drawn(chance: random.Random) -> tuple[str, dict[str, Any]]:
    """A question, sensible or not."""
    pick, power = chance.choice, lambda most: 2 ** chance.randint(0, most)
    heads = power(7)
    model = {
        "layers": chance.randint(1, 130),
        "hidden": heads * power(7),
        "heads": heads,
        "kv_heads": power(4),
        "vocab": power(17),
        "ffn": chance.randint(0, 9999),
        "positions": pick([0, 2048]),
        **{name: chance.randint(0, 1) for name in ("gated_mlp", "bias")},
        "tied_embeddings": chance.randint(0, 1),
        "layer_norm": chance.randint(0, 1),
        "experts": pick([0, 0, 8, 64]),
        "experts_per_token": pick([0, 1, 2, 8]),
        "shared_experts": chance.randint(0, 2),
        "dense_layers": power(2),
    }
    run = {"recompute": pick(["none", "selective", "full", "some"])}
    questions: dict[str, dict[str, Any]] = {
        "params": model,
        "memory": {
            "params": 10 ** chance.uniform(6, 13),
            "dp": power(12),
            "zero_stage": chance.randint(0, 4),
            "shard": pick([0, 4]),
            "optimizer": pick(["", "muon"]),
            "bytes_gradient": pick([2, 4]),
        },
        "activations": {
            **{name: model[name] for name in ("layers", "hidden", "heads")},
            "sequence": power(15),
            "micro_batch": power(3),
            "tp": power(3),
            "sequence_parallel": chance.randint(0, 1),
            **run,
        },
        "pair": {
            "trunk": pick(["", "alphafold2", "alphafold3"]),
            "residues": chance.randint(1, 4096),
            "channels": power(8),
            "heads": power(4),
            "sequences": pick([0, 0, 512]),
            "rows": pick([1, 1, 2, 3]),
            "columns": pick([1, 1, 2]),
            "attention": pick(["scores", "chunks", "fused", "flash"]),
            "recompute": pick(["none", "full", "some"]),
        },
        "collective": {
            "op": pick(["all_reduce", "all_gather", "broadcast", "gather"]),
            "bytes": chance.uniform(0, 1e10),
            "ranks": chance.randint(0, 64),
            "algorithm": pick(["ring", "tree", "hierarchical"]),
            "gpus_per_node": power(3),
            "node_bandwidth": 1e11,
            "latency": 1e-6,
            "bandwidth": pick([0, chance.uniform(1e9, 1e11)]),
        },
        "pipeline": {
            "stages": power(4),
            "microbatches": chance.randint(1, 64),
            "schedule": pick(SCHEDULES),
            "virtual_stages": power(2),
        },
        "flops": {
            **model,
            "sequence": power(17),
            "gpus": power(14),
            "tokens": 10 ** chance.uniform(9, 14),
            "peak_flops": 989e12,
            "tokens_per_second": 10 ** chance.uniform(3, 8),
            "count_embeddings": chance.randint(0, 1),
            "count_attention": 1,
            "price_gpu_hour": 2,
            "watts_gpu": 700,
            **run,
        },
    }
    questions["goodput"] = {
        "gpus": power(14),
        "gpu_mtbf_hours": 10 ** chance.uniform(0, 5),
        "save_seconds": chance.uniform(0, 300),
        "restart_seconds": chance.uniform(0, 900),
    }
    questions["run"] = {
        "preset": pick(sorted(PRESETS)),
        "gpus": 64 * power(6),
        "sequence": 8192,
        "global_batch": 64 * power(5),
        "tp": power(3),
        "cp": power(3),
        "pp": power(3),
        "ep": power(3),
        "zero_stage": chance.randint(0, 3),
        "micro_batch": power(1),
        "recompute": pick(["none", "selective", "full"]),
        "sequence_parallel": 1,
    }
    room = pick(sorted(questions))
    return room, questions[room]


@pytest.mark.usefixtures("node_modules")
def test_500_questions_have_the_same_answers() -> None:
    """The planner's files give the same answers, or the same refusals, to 500
    random questions in MicroPython as in CPython."""
    chance = random.Random(1)
    asked = [drawn(chance) for _ in range(500)]
    program = Path(__file__).with_name("answer_all.py").read_text("utf-8")
    answers = json.loads(micropython.printed(program, asked))
    refused = 0
    for question, theirs in zip(asked, answers, strict=True):
        ours = answer(*question)
        refused += ours[0][2] == ""
        for mine, other in zip(ours, theirs, strict=True):
            assert other[0] == mine[0], question
            assert other[1] == pytest.approx(mine[1], rel=1e-14), question
            # Its last digit shown may be rounded to the other side.
            assert NUMBER.sub("#", other[2]) == NUMBER.sub("#", mine[2])
    assert 50 < refused < 350
