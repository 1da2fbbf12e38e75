"""What became of every prompt, from the record of a run alone."""

import json
from collections import Counter
from pathlib import Path
from typing import Any


def lineage(root: Path) -> list[dict[str, Any]]:
    """Return the record's steps without those that a later launch replaced."""
    kept: list[dict[str, Any]] = []
    for line in (root / "record.jsonl").read_text().splitlines():
        said = json.loads(line)
        if "launch" in said:
            kept = [one for one in kept if one["step"] <= said["launch"]]
        elif "step" in said:
            kept.append(said)
    return kept


def audit(root: Path) -> dict[str, list[int]]:
    """Positions trained, refused and in flight at the end of a run; settled
    twice; and lost: asked, and in none of these."""
    steps = lineage(root)
    end = json.loads((root / "record.jsonl").read_text().splitlines()[-1])
    trained = [p for one in steps for p in one["trained"]]
    refused = [p for one in steps for p in one["refused"]]
    settled = Counter(trained + refused)
    known = {*settled, *end["end"]}
    return {
        "trained": trained,
        "refused": refused,
        "in flight": end["end"],
        "twice": sorted(p for p, times in settled.items() if times > 1),
        "lost": sorted({*range(end["cursor"])} - known),
    }


def ratios(root: Path) -> dict[int, dict[str, float]]:
    """Return, by lag in versions, the number of tokens; their ratio's mean,
    standard deviation and share beyond the clip; and the means of the reported
    -log p and of the reported distribution's entropy."""
    total: dict[int, list[float]] = {}
    for one in lineage(root):
        for lag, *row in one["lags"]:
            old = total.get(lag, [0.0] * len(row))
            total[lag] = [a + b for a, b in zip(old, row, strict=True)]
    return {
        lag: {
            "tokens": n,
            "mean": s / n,
            "spread": max(0.0, square / n - (s / n) ** 2) ** 0.5,
            "clipped": clipped / n,
            "surprise": surprise / n,
            "entropy": entropy / n,
        }
        for lag, (n, s, square, clipped, surprise, entropy) in sorted(
            total.items()
        )
    }


def reward(root: Path, last: int = 10) -> tuple[float, float]:
    """Mean reward of the first and of the last steps."""
    every = [one["reward"] for one in lineage(root)]
    return sum(every[:last]) / last, sum(every[-last:]) / last
