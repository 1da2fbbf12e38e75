"""Lab 09, otherwise: dictionaries, numbers in three digits, other layouts."""

from typing import Any


def said(
    numbers: dict[str, float], layout: dict[str, Any] | None = None
) -> dict[str, Any]:
    """An answer that was given aloud: its text is a keyword or two."""
    parts = {
        "problem": "memory or time",
        "mechanism": "split it",
        "communication": "less of it",
        "trade_off": "complexity",
        "measurement": "a trace",
    }
    score = dict.fromkeys(parts, 1)
    return {**parts, "numbers": numbers, "layout": layout or {}, "score": score}


ANSWERS = {
    "A1": said(
        {"whole_gb": 53.4, "ddp_gb": 4.95, "fsdp_gb": 7.42},
        {"dp": 8, "zero_stage": 1, "micro_batch": 4},
    ),
    "A2": said(
        {"state_gb": 128, "one_gb": 94.5, "again_s": 4.5},
        {"tp": 2, "sequence_parallel": True, "zero_stage": 1},
    ),
    "A3": said(
        {"state_gb": 1130, "kept_gb": 218, "three_d_s": 16.6},
        {"dp": 4, "tp": 8, "pp": 2, "sequence_parallel": True, "zero_stage": 1},
    ),
    "A4": said(
        {"optimizer_gb": 56.2, "again_gb": 78.8, "small_gb": 28.3},
        {"tp": 4, "sequence_parallel": True},
    ),
    "A5": said({"single_gb": 48, "mixed_gb": 48, "summed_gb": 54}),
    "A6": said(
        {"kept_gb": 32.4, "split_gb": 13.6, "more_s": 1.99},
        {"tp": 8, "pp": 2, "sequence_parallel": True, "zero_stage": 1},
    ),
    "A7": said({"weights_gb": 141, "cache_gb": 42.9, "four_gb": 46}),
    "A8": said(
        {"state_gb": 747, "gathered_gb": 552, "expert_gb": 30.1},
        {"ep": 8, "zero_stage": 2, "recompute": "full"},
    ),
    "B1": said(
        {"far_gb": 2580, "near_gb": 1200, "stage_gb": 1.07},
        {"tp": 8, "pp": 4, "sequence_parallel": True, "zero_stage": 1},
    ),
    "B2": said(
        {"full_gb": 192, "across_gb": 3.89, "best_gb": 67.3},
        {"cp": 2, "zero_stage": 3, "shard": 4},
    ),
    "B3": said(
        {"full_gb": 747, "once_gb": 31.1, "best_gb": 60.3},
        {"zero_stage": 3, "shard": 8},
    ),
    "B4": said(
        {"draft_gb": 104, "ring_s": 5.33, "attention_s": 11.4},
        {"tp": 2, "cp": 8, "sequence_parallel": True, "zero_stage": 1},
    ),
    "B5": said(
        {"far_gb": 888, "far_layers_s": 18, "best_gb": 122},
        {"pp": 32, "ep": 8, "zero_stage": 1},
    ),
    "B6": said({"apart_ms": 205, "fused_ms": 5.21, "tree_us": 195}),
    "B7": said({"flat_s": 1.26, "across_gb": 3.5, "two_ms": 202}),
    "B8": said(
        {"efficiency": 0.643, "middle_gb": 379, "best_s": 0.196},
        {"dp": 512, "zero_stage": 2},
    ),
    "C1": said(
        {"of_total": 0.304, "filled_total": 0.0986, "best_s": 14},
        {"dp": 8, "tp": 8, "pp": 4, "sequence_parallel": True, "zero_stage": 1},
    ),
    "C2": said(
        {"of_total": 0.319, "parts_total": 0.105, "parts_gb": 8.59},
        {
            "dp": 8,
            "tp": 8,
            "pp": 16,
            "sequence_parallel": True,
            "zero_stage": 1,
            "schedule": "interleaved",
            "virtual_stages": 8,
        },
    ),
    "C3": said({"send_s": 0.237, "wait_s": 0.723, "lost": 461}),
    "C4": said(
        {"best_ms": 124, "needed": 517, "eight": 4130}, {"micro_batch": 32}
    ),
    "C5": said(
        {"ways": 4, "four_exposed_s": 0.497, "best_s": 1.02},
        {
            "tp": 8,
            "sequence_parallel": True,
            "zero_stage": 2,
            "micro_batch": 2,
        },
    ),
    "C6": said({"saved_gb": 847, "one_s": 423, "all_s": 26.5}),
    "C7": said({"mtbf_h": 12.2, "interval_min": 52.8, "short_share": 0.959}),
    "C8": said(
        {"few_days": 24.8, "cost": 95.3, "days": 6.2}, {"zero_stage": 2}
    ),
}
