"""A chart shows its data, to whoever sees it, hears it or reads its table."""

from __future__ import annotations

import re
from itertools import pairwise
from math import log10
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup, Tag
from playwright.sync_api import Page

from lockstep.experiments.benchmarks import timeline
from lockstep.experiments.demos.first_difference import COMPARED
from lockstep.experiments.peers.__main__ import HOME as PEERS
from lockstep.experiments.peers.tables import NEEDS
from lockstep.explore.svg import FONT
from lockstep.planner.checkpoints import young
from lockstep.planner.questions import ask
from lockstep.practice.figures import computed
from lockstep.site.pages import checkpoint_pictures, exam_pictures, pictures
from lockstep.site.pages.charts import (
    NARROW,
    WIDE,
    Axis,
    Chart,
    Lane,
    Series,
    bars,
    intervals,
    lanes,
    lines,
    ticks,
)
from lockstep.site.pages.pictures import PICTURES, chart

from .conftest import ROOT, Site
from .test_browser import FLAGS, Visit, browser  # noqa: F401

NUMBER = r"(-?[\d.]+)"
RING = "ring-all-reduce"


def drawn(made: Chart, width: int = WIDE) -> Tag:
    """The drawing of that width."""
    html = BeautifulSoup(made.html("x"), "html.parser")
    kind = "chart-narrow" if width == NARROW else "chart-wide"
    found = html.select_one(f"svg.{kind}")
    assert found is not None
    return found


def numbers(path: Tag) -> list[float]:
    """Of a path, in order; of a text, where it stands."""
    said = path["d"] if path.name == "path" else f"{path['x']} {path['y']}"
    return [float(x) for x in re.findall(NUMBER, str(said))]


class Scale:
    """What a place on an axis means, by two of its grid's lines."""

    def __init__(self, places: list[float], values: list[float]) -> None:
        assert len(places) == len(values)
        self.low, self.high = places[0], places[-1]
        self.first, self.last = values[0], values[-1]

    def __call__(self, place: float) -> float:
        share = (place - self.low) / (self.high - self.low)
        return self.first + share * (self.last - self.first)


def upright(svg: Tag) -> list[float]:
    """Where the lines of the grid stand."""
    grid = [p["d"] for p in svg.select("path.chart-grid")]
    found = [re.match(rf"M{NUMBER} [\d.]+V", str(d)) for d in grid]
    return sorted(float(m[1]) for m in found if m)


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_a_bar_is_as_long_as_its_value(width: int) -> None:
    rows = {"a": {"x": 3.0, "y": 0.5}, "b": {"x": 0.0, "y": 7.25}}
    axis = Axis("m", ticks(7.25))
    svg = drawn(Chart("t", "s", bars(rows, axis), [["", "x"]]), width)
    scale = Scale(upright(svg), [*axis.ticks])
    blocks = svg.select("rect.chart-edge")[2:]  # after the legend's
    found = [
        scale(float(b["x"]) + float(b["width"])) - scale(float(b["x"]))
        for b in blocks
    ]
    assert found == pytest.approx([3, 0.5, 0, 7.25], abs=0.02)
    begins = [scale(float(b["x"])) for b in blocks]
    assert begins == pytest.approx([0, 3, 0, 0], abs=0.02)
    said = [text.get_text() for text in svg.select("text")]
    assert {"a", "3.5", "b", "7.25", "x", "y", "m"} <= {*said}


@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize("log", [False, True])
def test_a_line_goes_through_its_points(width: int, log: bool) -> None:
    points = [(8.0, 0.5), (16.0, 0.125), (64.0, 0.0)]
    x, y = Axis("n", (8, 16, 32, 64), log=log), Axis("share", (0, 0.25, 0.5))
    one = Series("one", points)
    svg = drawn(
        Chart("t", "s", lines([one], x, y, {"here": 16}), [["", "x"]]), width
    )
    labels = {
        text.get_text(): float(text["x"])
        for text in svg.select("text")
        if text["text-anchor"] == "middle"
    }
    level = [numbers(p)[1] for p in svg.select("path.chart-grid")]
    up = Scale(level, [*y.ticks])
    lists = [numbers(p) for p in svg.select("path.chart-line")][1:]  # legend's
    (line,) = lists
    assert line[::2][1] == pytest.approx(labels["16"], abs=0.1)
    ratio = (line[2] - line[0]) / (line[4] - line[0])
    assert ratio == pytest.approx(1 / 3 if log else 8 / 56, abs=0.01)
    assert [up(at) for at in line[1::2]] == pytest.approx(
        [b for _, b in points], abs=0.005
    )
    marks = [numbers(p)[:2] for p in svg.select("path.chart-mark")][1:]
    assert marks == [line[i : i + 2] for i in (0, 2, 4)]
    (rule,) = svg.select("path.chart-rule")
    assert numbers(rule)[0] == pytest.approx(line[2], abs=0.01)


def test_an_interval_has_its_ends() -> None:
    axis = Axis("ratio", (0.9, 1.0, 1.1))
    made = intervals({"a": (1.02, 0.95, 1.05)}, axis, {"equal": 1.0})
    svg = drawn(Chart("t", "s", made, [["", "x"]]))
    scale = Scale(upright(svg), [*axis.ticks])
    bar, *ends = [numbers(p) for p in svg.select("path.chart-line")]
    assert [scale(bar[0]), scale(bar[2])] == pytest.approx([0.95, 1.05])
    assert [scale(end[0]) for end in ends] == pytest.approx([0.95, 1.05])
    (mark,) = svg.select("path.chart-mark")
    assert scale(numbers(mark)[0]) == pytest.approx(1.02, abs=1e-4)
    (rule,) = svg.select("path.chart-rule")
    assert scale(numbers(rule)[0]) == pytest.approx(1.0)


def test_a_span_lies_where_it_was() -> None:
    axis = Axis("us", (0, 50, 100))
    groups = {
        "rank 0": [
            Lane("phases", [(0, 10, 0), (10, 70, 1)]),
            Lane("sends", [(20, 40, None), (60, 95, None)]),
        ]
    }
    svg = drawn(
        Chart("t", "s", lanes(groups, ["load", "step"], axis), [["", "x"]])
    )
    scale = Scale(upright(svg), [*axis.ticks])
    found = []
    for path in svg.select("path.chart-span, path.chart-plain"):
        for span in re.findall(rf"M{NUMBER} [\d.]+H{NUMBER}", str(path["d"])):
            found.append([scale(float(at)) for at in span])
    assert [x for one in sorted(found) for x in one] == pytest.approx(
        [0, 10, 10, 70, 20, 40, 60, 95], abs=0.01
    )


def test_ticks_are_round_and_reach_the_end() -> None:
    for high in (0.47, 1, 3.2, 31.4e9, 120e9, 7):
        found = ticks(high)
        assert found[0] == 0
        assert found[-1] >= high > found[-2]
        steps = {round(b - a, 9) for a, b in pairwise(found)}
        assert len(steps) == 1
        assert 2 <= len(found) <= 6


# The pictures of the pages


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_named_said_and_told_in_a_table(name: str) -> None:
    html = chart(name)
    assert "\n" not in html, "Markdown would end the figure"
    assert not re.search(r"<script|\bstyle=|\bon\w+=|<style", html)
    figure = BeautifulSoup(html, "html.parser")
    ids = [str(e["id"]) for e in figure.select("[id]")]
    assert len(ids) == len({*ids})
    assert all(one.startswith(f"chart-{name}") for one in ids)
    for svg in figure.select("svg"):
        assert svg["role"] == ("group" if svg.select("a") else "img")
        title, says = (
            figure.find(id=one).get_text()  # type: ignore[union-attr]
            for one in str(svg["aria-labelledby"]).split()
        )
        assert title == figure.select_one("figcaption").get_text()  # type: ignore[union-attr]
        assert len(says) > len(title)
        for text in svg.select("text"):
            wide = len(text.get_text()) * FONT * 0.6
            x, place = float(text["x"]), text["text-anchor"]
            begin = (
                x - {"start": 0, "middle": wide / 2, "end": wide}[str(place)]
            )
            assert begin > -8, text
            assert begin + wide < float(svg["width"]) + 8, text
    used = {*re.findall(r"url\(#([\w-]+)\)", html)}
    assert used == {str(p["id"]) for p in figure.select("pattern")}
    head, *rows = figure.select("table tr")
    columns = head.select("th[scope=col]")
    assert len(columns) > 1
    assert rows
    for row in rows:
        assert len(row.select("td")) == len(columns)


def test_two_pictures_share_no_id() -> None:
    page = "".join(map(chart, PICTURES))
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len({*ids})


def table(name: str) -> list[list[str]]:
    """Rows of a picture's table, without its head."""
    page = BeautifulSoup(chart(name), "html.parser")
    rows = page.select("tbody tr")
    return [[c.get_text() for c in row.select("th, td")] for row in rows]


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_memory_over_a_step_is_drawn_as_high_as_it_is(width: int) -> None:
    """Llama 3 8B, two sequences of 8,192 tokens, FSDP2 on eight GPUs. At the
    loss: 12 bytes per parameter over eight, 168,064 bytes per token and block
    or the block's input alone, 12 bytes per logit, and the output layer. Both
    panels have one scale."""
    params, tokens, vocab, hidden = 8.030261248e9, 16384, 128256, 4096
    shards, output = 12 * params / 8, 2 * vocab * hidden
    logits = 12 * vocab * tokens
    rows = {row[0]: row[1:] for row in table("step-memory")}
    found, heights = [], []
    for title, each in {
        "keep all activations": 168064,
        "recompute each block": 2 * hidden,
    }.items():
        parts = [shards, 0, output, 32 * each * tokens, logits]
        said = [f"{part / 1e9:.1f} GB" for part in (*parts, sum(parts))]
        assert rows[f"{title}, loss"] == said
        found.append(sum(parts))
    svg = drawn(PICTURES["step-memory"](), width)
    paths = [numbers(p) for p in svg.select("path.chart-edge")]
    for start in (0, 5):
        places = [y for path in paths[start : start + 5] for y in path[1::2]]
        heights.append(max(places) - min(places))
    assert heights[0] / heights[1] == pytest.approx(found[0] / found[1], 1e-3)
    said = [text.get_text() for text in svg.select("text")]
    assert {f"{one / 1e9:.0f} GB at the loss" for one in found} <= {*said}


def test_more_gpus_help_fsdp2_and_not_ddp() -> None:
    """Llama 3 8B's 8.03 billion parameters at 16 bytes: whole on every GPU of
    DDP, and divided by the number of GPUs under FSDP2."""
    whole = 16 * 8.030261248
    assert {row[0]: row[-1] for row in table("sharding-state")} == {
        "DDP on 8 GPUs": f"{whole:.1f} GB",
        "DDP on 16 GPUs": f"{whole:.1f} GB",
        "FSDP2 on 8 GPUs": f"{whole / 8:.1f} GB",
        "FSDP2 on 16 GPUs": f"{whole / 16:.1f} GB",
    }
    for row in table("sharding-state"):
        weights, gradients, state, _ = (float(x.split()[0]) for x in row[1:])
        assert (gradients, state) == pytest.approx((weights, 2 * weights), 0.02)


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_a_sharded_step_draws_what_is_full_at_its_peaks(width: int) -> None:
    """Each line at a peak crosses the full weights of two layers and their full
    gradients, as FSDP2 holds them, and the text says 10 bytes per parameter of
    a layer. Every gather but the first, and the first of the backward pass, is
    on the network while a layer computes. Every box has its layer's number."""
    chart = PICTURES["sharding-step"]()
    assert " 10 bytes per parameter of one layer, 2 times " in chart.says
    svg = drawn(chart, width)
    lines = svg.select("path.chart-rule")
    assert len(lines) == 2
    for line in lines:
        at, top = numbers(line)[:2]
        crossed = []
        for box in svg.select("rect.chart-edge"):
            left, wide = float(box["x"]), float(box["width"])
            if left < at < left + wide and float(box["y"]) > top:
                crossed.append(str(box["fill"]))
        fills = [one.rpartition("fill-")[2] for one in crossed]
        assert sorted(fills) == ["1)", "1)", "4)", "4)"]
    named = [text.get_text() for text in svg.select("text.chart-halo")]
    assert sorted(x for x in named if x.isdigit()) == sorted("1234" * 5)
    spans = [row[1:] for row in table("sharding-step")]
    ends = [
        [tuple(map(int, x.split(" to "))) for x in cell.split(", ")]
        for row in spans
        for cell in row
    ]
    forward, weights = ends[0::4], ends[2::4]
    assert forward[0][0][0] == 21  # ms: 63/64 of 1.71 GB at 80 GB/s
    assert "80 GB/s" in chart.title
    for layer in range(1, len(spans)):
        computing, gathered = forward[layer - 1][0], weights[layer][0]
        assert gathered[0] == computing[0]


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_ddps_buckets_expose_less_than_one_bucket_or_many(width: int) -> None:
    """All gradients at the end expose 24.9 ms, DDP's buckets 7.1 and a bucket
    for each layer 15.9. The outlined waits are as wide, and no all-reduce
    starts before the backward pass of its last layer ends or the all-reduce
    before it does."""
    svg = drawn(PICTURES["ddp-overlap"](), width)
    scale = Scale(upright(svg), [0, 10, 20, 30, 40, 50, 60])
    waits = [numbers(p) for p in svg.select("path.chart-line")][1:]  # legend's
    found = [scale(left + wide + 1) - 32 for left, _, wide, *_ in waits]
    assert found == pytest.approx([24.9, 7.1, 15.9], abs=0.1)
    begins = [scale(left - 1) for left, *_ in waits]
    assert begins == pytest.approx([32] * 3, abs=0.01)
    ways: dict[str, list[list[float]]] = {}
    for way, layers, _, start, end in table("ddp-overlap"):
        last = int(layers.rpartition("–")[2])
        ways.setdefault(way, []).append([last, float(start), float(end)])
    for calls in ways.values():
        free = 0.0
        for last, start, end in calls:
            computed = 2.0 * (16 - last + 1)
            assert start == pytest.approx(max(computed, free), abs=0.11)
            free = end
    ends = [calls[-1][2] - 32 for calls in ways.values()]
    assert ends == pytest.approx([24.9, 7.1, 15.9], abs=0.06)


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_a_fault_is_drawn_ten_minutes_before_the_reports(width: int) -> None:
    """The kernel of node-7 logs the fault 2:05 after 03:00. Seven ranks start
    to wait two seconds later and report ten minutes after that; rank 5 trains
    until the fault and reports nothing."""
    rows = {row[0]: row[1:] for row in table("first-fault")}
    assert rows.pop("kernel") == ["node-7", "–", "Xid 79", "03:02:05"]
    assert rows.pop("rank 5") == ["node-7", "03:02:05", "nothing", "–"]
    assert len(rows) == 7
    for node, stops, logs, at in rows.values():
        assert node in {"node-6", "node-7"}
        assert (logs, stops[:7], at[:7]) == ("a timeout", "03:02:0", "03:12:0")
        assert stops >= "03:02:07"
    svg = drawn(PICTURES["first-fault"](), width)
    scale = Scale(upright(svg), [*range(14)])
    begins: dict[int, list[float]] = {}
    for path in svg.select("path.chart-span"):
        fill = str(path.get("fill", path["class"]))
        kind = int(re.findall(r"fill-(\d)", fill)[0])
        begins.setdefault(kind, []).append(scale(numbers(path)[0]))
    assert [len(begins[kind]) for kind in range(4)] == [8, 7, 7, 1]
    assert begins[1] == pytest.approx([2.13] * 7, abs=0.02)
    assert begins[2] == pytest.approx([12.13] * 7, abs=0.02)
    assert begins[3] == pytest.approx([2.083], abs=0.01)
    spans = [numbers(path) for path in svg.select("path.chart-rule")]
    assert len(spans) == 2
    for begin, _, _, end, *_ in spans:
        assert (scale(begin), scale(end)) == pytest.approx(
            (2.083, 12.124), abs=0.02
        )
    said = [text.get_text() for text in svg.select("text.chart-halo")]
    assert said == ["10 minutes", "prints nothing"]


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_a_flipped_bit_is_drawn_where_it_goes(width: int) -> None:
    """A weight that flips is wrong on rank 2 alone. A gradient that flips
    makes every rank's sum and weight wrong. Computed twice, the samples of
    ranks 1 and 2 have two results, and rank 2 computed one of each."""
    wrong: dict[str, list[int]] = {}
    for case, _, _, count in table("silent-spread"):
        wrong.setdefault(case, []).append(int(count))
    assert [*wrong.values()] == [[0, 0, 1, 0], [2, 2, 3, 2], [0, 1, 1, 0]]
    numbers_of = [row[2] for row in table("silent-spread")]
    assert numbers_of[2] == "gradient 3, sum 10, weight 26"
    assert numbers_of[5:7] == [
        "gradient 2, sum 74, weight 26",
        "gradient 67, sum 74, weight 26",
    ]
    assert numbers_of[9:11] == [
        "itself 2, next rank 66",
        "itself 67, next rank 3",
    ]
    svg = drawn(PICTURES["silent-spread"](), width)
    cells = [str(box["fill"]) for box in svg.select("rect[fill]")]
    found = [fill for fill in cells if fill.endswith("fill-1)")]
    assert len(found) == 1 + 9 + 2 + 1  # the last is the legend's
    assert len(svg.select("path.chart-mark")) == 1 + 9 + 2
    said = [text.get_text() for text in svg.select("text")]
    assert said[:2] == [
        "Rank 2 flips the bit that is worth 64.",
        "Weight = 100 − the sum of gradients.",
    ]
    assert [line for line in said if line.startswith("→")] == [
        "→ rank 2 differs",
        "→ All weights are equal",
        "→ rank 2 is in both pairs that differ",
    ]


def test_a_crash_loads_the_checkpoint_that_was_published_before_it() -> None:
    """The write of 847 GB at 20 GB/s takes 42 s, and begins 2 s after step 240,
    which ends at 20 s, and the publish takes 1.5 s; until 66 s, a restart loads
    step 120."""
    rows = table("checkpoint-save")
    assert [row[0] for row in rows] == ["1", "2", "3", "4"]
    for _, seconds, loads, lost in rows:
        at, trained = float(seconds), 239 + (float(seconds) >= 20)
        trained += int(max(at - 22, 0) // 10)
        newest = 240 if at >= 22 + 12 * 70.6 / 20 + 1.5 else 120
        assert (loads, lost) == (f"step {newest}", f"{trained - newest}")


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_a_save_is_drawn_while_the_steps_after_its_snapshot_train(
    width: int,
) -> None:
    svg = drawn(PICTURES["checkpoint-save"](), width)
    bars = [
        [float(str(rect[name])) for name in ("x", "y", "width")]
        for rect in svg.select("rect")
        if rect.get("height") == "20"
    ]
    paths = {
        kind: [
            [float(n) for n in re.findall(r"[\d.]+", str(path["d"]))]
            for path in svg.select(f"path.{kind}")
        ]
        for kind in ("chart-fill-1", "chart-fill-3", "chart-plain")
    }
    snapshot, publish = bars
    write = next(d for d in paths["chart-fill-1"] if d[3] == 20)
    assert snapshot[1] < write[1] == publish[1]
    assert snapshot[0] + snapshot[2] == pytest.approx(write[0], abs=0.02)
    assert write[0] + write[2] == pytest.approx(publish[0], abs=0.02)
    # 2 s of training time, and 847 GB at 20 GB/s
    assert write[2] / snapshot[2] == pytest.approx(21.18, 1e-2)
    ((left, _, switch, *_),) = paths["chart-plain"]  # loads step 120
    newer = next(d for d in paths["chart-fill-3"] if d[3] == 20)
    assert left < switch == newer[0]
    assert switch == pytest.approx(publish[0] + publish[2], abs=0.02)
    said = [text.get_text() for text in svg.select("text.chart-halo")]
    assert said[-3].endswith("42 s")
    assert [line[-3:] for line in said[-2:]] == ["120", "240"]


def test_a_save_in_the_picture_is_youngs_interval_after_the_last() -> None:
    """A save costs 2 s, and 512 GPUs fail at the rate of Llama 3's 419 failures
    in 54 days on 16,384."""
    between = 54 * 86400 * 16384 / 419 / 512
    steps = checkpoint_pictures.NEW - checkpoint_pictures.OLD
    best = young(checkpoint_pictures.STALL, between)
    assert steps * checkpoint_pictures.STEP == pytest.approx(best, 0.01)


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_a_ring_is_drawn_step_by_step(width: int) -> None:
    """Seven grids of four ranks and four chunks. In each of the first three
    steps, every rank gets one chunk from the rank before it and adds its own
    values; in the other three it keeps what it gets. The cells have the table's
    numbers, and triangles mark what has arrived."""
    rows = [[[*map(int, c.split())] for c in row[1:]] for row in table(RING)]
    grids = [[row[step] for row in rows] for step in range(7)]
    assert grids[0] == [[1] * 4] * 4
    assert grids[-1] == [[4] * 4] * 4
    for step in range(1, 7):
        for rank, counts in enumerate(grids[step]):
            above = grids[step - 1][rank - 1]
            chunk = (rank - 1 - step) % 4
            added = 1 if step < 4 else 0
            assert counts[chunk] == above[chunk] + added
    last = [grids[step][rank][3] for step, rank in enumerate((0, 1, 2, 3))]
    assert last == [1, 2, 3, 4]  # the page follows the last column
    svg = drawn(PICTURES[RING](), width)
    cells = svg.select("text.chart-count, text.chart-in")
    assert [int(text.get_text()) for text in cells] == [
        n for grid in grids for row in grid for n in row
    ]
    filled = [int(text.get_text()) for text in svg.select("text.chart-in")]
    assert min(filled) == 2
    # Each triangle is above a cell that has grown.
    arrows = [numbers(path) for path in svg.select("path.chart-arrow")][1:]
    assert len(arrows) == 6 * 4
    grown = [
        numbers(text)
        for step in range(1, 7)
        for rank in range(4)
        for chunk, text in enumerate(cells[16 * step + 4 * rank :][:4])
        if grids[step][rank][chunk] > grids[step - 1][rank][chunk]
    ]
    for x, y, *_ in arrows:
        under = [g for g in grown if g[0] == pytest.approx(x + 5, abs=0.1)]
        assert any(0 < below - y < 22 for _, below in under)


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_each_ring_leaves_a_node_through_a_different_nic(width: int) -> None:
    """Eight lines lead from one node to the other, one for each ring; one is
    solid. A NIC's 46 GB/s stand on each, and eight carry 365."""
    made = PICTURES["ring-nics"]()
    assert "carry 365 GB/s" in made.title
    svg = drawn(made, width)
    between = [
        path
        for path in svg.select("path.chart-line")
        if (found := numbers(path))[0] == found[2]  # upright
        and found[3] - found[1] > 50
    ]
    assert len({numbers(path)[0] for path in between}) == 8
    assert ["stroke-dasharray" in path.attrs for path in between] == [
        ring != 3 for ring in range(8)
    ]
    said = [text.get_text() for text in svg.select("text.chart-halo")]
    assert said == ["46"] * 8


def test_the_formula_predicts_published_all_reduces() -> None:
    """On four nodes of eight B200s, whose all-reduces were published, the
    formula for rings predicts the time of all buffers from 32 MiB to 16 GiB
    within 8 %, with a bandwidth from another cluster and NCCL's own latencies.
    Below, NCCL ran a tree, which beats the formula's ring at 1 MiB and loses
    to it at 16 MiB."""
    seen = 0
    for mib, _, _, predicted, measured, chosen in table("all-reduce-sizes"):
        size, took = int(mib.replace(",", "")), float(measured)
        hops = 56 * 3.4e-3 + 6 * 14e-3  # ms
        sent = 2 * 31 / 32 * size * 2**20
        assert float(predicted) == pytest.approx(hops + sent / 365e6, abs=0.005)
        if size >= 32:
            assert float(predicted) == pytest.approx(took, rel=0.08)
            seen += 1
        else:
            assert chosen.startswith("tree")
        if size in (1, 16):
            times = {1: ("0.28", "0.16"), 16: ("0.36", "0.45")}
            assert (predicted, measured) == times[size]
    assert seen == 10


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_rooflines_turn_where_bytes_arrive_as_fast_as_they_are_used(
    width: int,
) -> None:
    """An H100 computes 989 TFLOP/s, reads 3,350 GB/s, and receives 370 over
    NVLink and 46 over a NIC. On logarithmic axes the three slopes are equal,
    and the corners lie as far apart as the logarithms of the rates. Dashed
    lines lie at 79 and 40 % of the peak."""
    rates = [3350, 370, 46]
    svg = drawn(PICTURES["roofline"](), width)
    paths = [numbers(p) for p in svg.select("path.chart-line")][3:]  # legend's
    (x, _), *_ = turns = [tuple(path[2:4]) for path in paths]
    assert len({y for _, y in turns}) == 1
    slopes = [(a[3] - a[1]) / (a[2] - a[0]) for a in paths]
    assert slopes == pytest.approx([slopes[0]] * 3, rel=1e-3)
    decades = [log10(rates[0] / rate) for rate in rates[1:]]
    apart = [turn - x for turn, _ in turns[1:]]
    assert apart[1] / apart[0] == pytest.approx(decades[1] / decades[0], 1e-3)
    said = [text.get_text() for text in svg.select("text")]
    assert {"295", "2,700", "22,000", "989: the peak"} < {*said}
    assert [row[1:] for row in table("roofline")] == [
        ["295", "4.19", "214", "989"],
        ["2,700", "0.463", "23.7", "989"],
        ["22,000", "0.0575", "2.94", "377"],
    ]
    decade = (paths[1][1] - paths[1][3]) / log10(989)  # it starts at 1 TFLOP/s
    ruled = [numbers(rule)[1] for rule in svg.select("path.chart-rule")]
    roof = turns[0][1]
    assert [y - roof for y in ruled] == pytest.approx(
        [-log10(share) * decade for share in (0.79, 0.4)], rel=1e-2
    )
    assert paths[0][5] == turns[0][1]  # flat from the corner on
    marks = [numbers(p)[:2] for p in svg.select("path.chart-mark")]
    for (right, y), path in zip(marks, [*paths[:1] * 2, paths[2]], strict=True):
        assert right < path[2]
        assert y == pytest.approx(path[1] + slopes[0] * (right - path[0]), 1e-3)


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_a_group_uses_the_nics_of_its_gpus_and_a_rack_none(width: int) -> None:
    """One NIC of a node carries a group with one GPU per node, eight carry all
    GPUs, and a rack's 72 GPUs need none. The legend has one more of each."""
    svg = drawn(PICTURES["network-groups"](), width)
    assert len(svg.select("path.chart-stroke-2")) == 1 + 8 + 1
    assert len(svg.select("rect.chart-fill-0")) == 2 + 16 + 72 + 1
    # A path without a fill of its page would be black in dark mode.
    assert len(svg.select("path.chart-grid.chart-plain")) == 2 * 7
    assert table("network-groups") == [
        ["one GPU in each node", "1", "46 GB/s"],
        ["all GPUs of both nodes", "8", "365 GB/s"],
        ["a rack of GB200: 72 GPUs", "0", "680 GB/s"],
    ]


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_rows_after_columns_keep_the_widest_tensor_split(width: int) -> None:
    """On two GPUs, gathers of 28,672 and 8,192 numbers send half of each, and
    an all-reduce of 8,192 sends all of them. f(xA) is whole on both GPUs only
    where B is split by columns. Two halves make each split matrix."""
    assert [row[1:] for row in table("tensor-split")] == [
        ["all-gather", "f(xA)", "14,336 numbers"],
        ["all-gather", "y", "4,096 numbers"],
        ["all-reduce", "y", "8,192 numbers"],
    ]
    svg = drawn(PICTURES["tensor-split"](), width)
    said = [text.get_text() for text in svg.select("text")]
    assert {"sends 18,432", "sends 8,192"} <= {*said}
    boxes = [
        [float(box[key]) for key in ("x", "y", "width", "height")]
        for box in svg.select("rect.chart-edge")
    ][2:]  # after the legend's
    halves = [*zip(boxes[::2], boxes[1::2], strict=True)]
    assert len(halves) == 4 + 4  # A, f(xA), B and y; A, f(xA), B and its terms
    for (a, b, wide, high), second in halves[:6]:
        assert second == pytest.approx([a + wide, b, wide, high])
    (a, b, wide, high), second = halves[6]
    assert second == pytest.approx([a, b + high, wide, high])
    whole = [numbers(path) for path in svg.select("path.chart-edge")][1:]
    inner = 2 * halves[1][0][2]
    assert [path[2] == pytest.approx(inner) for path in whole] == [
        *(False, True, False),  # x, f(xA), y
        *(False, False),  # x, y
    ]


def test_sequence_parallelism_divides_what_tensor_parallelism_leaves() -> None:
    """A layer of Llama 3 70B keeps 12 + 4/8 + 8 * 3.5 bytes × hidden size per
    token, and 4 for each head. Eight are the norms' inputs and outputs, which
    tensor parallelism leaves whole. torch also keeps two gathered inputs."""
    hidden, heads = 8192, 64
    unit = 8192 * 80 / 1e9  # tokens and layers
    whole = (40.5 * hidden + 4 * heads) * unit
    norms = 8 * hidden * unit
    inside = (whole - norms) / 8
    kept = 2 * 7 / 8 * 2 * hidden * unit
    assert [row[1:] for row in table("tensor-activations")] == [
        [f"{part:.1f} GB" for part in (one, two, one + two)]
        for one, two in (
            (8 * inside, norms),
            (inside, norms),
            (inside, norms / 8 + kept),
            (inside, norms / 8),
        )
    ]
    layout = {"preset": "llama3-70b", "sequence": 8192, "gpus": 64}
    layout |= {"global_batch": 8, "tp": 8, "sequence_parallel": True}
    found = ask("run", layout | {"whiteboard": True})["activations_bytes"]
    assert found.value / 1e9 == pytest.approx(inside + norms / 8)


def bars_by_row(svg: Any, scale: Scale) -> list[list[tuple[float, float]]]:
    """Return the bars of each row below the legend, as times."""
    rows: dict[str, list[tuple[float, float]]] = {}
    for path in svg.select("path.chart-edge:not(.chart-plain)"):
        left, top, wide, *_ = numbers(path)
        rows.setdefault(f"{top:.1f}", []).append((left, wide))
    for box in svg.select("rect.chart-edge"):
        left, top, wide = (float(box[x]) for x in ("x", "y", "width"))
        rows.setdefault(f"{top:.1f}", []).append((left, wide))
    return [
        sorted((scale(left), scale(left + wide)) for left, wide in rows[top])
        for top in sorted(rows, key=float)
        if len(rows[top]) > 4
    ]


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_schedules_are_drawn_with_the_bubble_that_is_derived(
    width: int,
) -> None:
    """Four ranks, eight micro-batches. GPipe and 1F1B take 3 (8 + 3) forward
    passes and ZB-H1 takes 3 · 8 + 3, of which each rank computes for 3 · 8.
    Rank 0 holds eight micro-batches under GPipe, and four otherwise."""
    assert table("pipeline-schedules") == [
        ["GPipe", "33 F", "27 %", "8, 8, 8, 8"],
        ["1F1B", "33 F", "27 %", "4, 3, 2, 1"],
        ["ZB-H1", "27 F", "11 %", "4, 4, 4, 4"],
    ]
    svg = drawn(PICTURES["pipeline-schedules"](), width)
    rows = bars_by_row(svg, Scale(upright(svg), [0, 10, 20, 30, 33]))
    assert len(rows) == 12
    for row in rows:
        assert sum(b - a for a, b in row) == pytest.approx(24, abs=0.1)
        for (_, end), (begin, _) in pairwise(row):
            assert end <= begin + 0.01
    ends = [max(row[-1][1] for row in rows[i : i + 4]) for i in (0, 4, 8)]
    assert ends == pytest.approx([33, 33, 27], abs=0.02)
    heights = []
    for path in svg.select("path.chart-plain"):
        y = [float(x) for x in re.findall(rf"V{NUMBER}", str(path["d"]))]
        heights.append(max(y) - min(y))
    assert [x / min(heights) for x in heights] == pytest.approx([2, 1, 1])


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_gaps_tell_late_messages_from_a_slow_stage(width: int) -> None:
    """As planned, the last rank works without a pause. With late messages, it
    waits in the middle of the step, too. With a slow last stage, it doesn't,
    and the other ranks do."""
    assert [row[:2] for row in table("pipeline-gaps")] == [
        ["1F1B as planned", "33 F"],
        ["Late messages", "41 F"],
        ["A slow last stage", "39 F"],
    ]
    svg = drawn(PICTURES["pipeline-gaps"](), width)
    rows = bars_by_row(svg, Scale(upright(svg), [0, 10, 20, 30, 40, 41]))
    waits = [
        sum(
            max(0.0, begin - end)
            for (_, end), (begin, _) in pairwise(row)
            if 12 < begin < 24
        )
        for row in rows
    ]
    planned, late, slow = waits[:4], waits[4:8], waits[8:]
    assert planned == pytest.approx([0] * 4, abs=0.1)
    assert min(late) > 1
    assert slow[-1] == pytest.approx(0, abs=0.1)
    assert min(slow[:-1]) > 1


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_a_failures_bar_is_as_long_as_its_waits(width: int) -> None:
    """A hang costs 106 minutes with a person and 48 without, a crash 39, and a
    hang with every part shortened 10. Each bar ends at its sum."""
    svg = drawn(PICTURES["recovery"](), width)
    scale = Scale(upright(svg), [0, 40, 80, 120])
    blocks = svg.select("rect.chart-edge")[5:]  # after the legend's
    ends = [scale(float(b["x"]) + float(b["width"])) for b in blocks[4::5]]
    assert ends == pytest.approx([106, 48, 39, 580 / 60], abs=0.2)
    for (_, *waits, total), end in zip(table("recovery"), ends, strict=True):
        minutes = [float(wait.removesuffix(" min")) for wait in waits]
        assert sum(minutes) == pytest.approx(end, abs=0.2)
        assert float(total.removesuffix(" min")) == pytest.approx(end, abs=0.2)


def test_most_default_graces_are_too_short_for_two_steps_and_a_save() -> None:
    """Two steps of 10 s and 100 GB at 4 GB/s take 45 s. Only EC2's notice and
    Slurm's signal before the time limit are longer."""
    enough = [name for name, _, fits in table("grace") if fits == "yes"]
    assert enough == [
        "notice of an EC2 Spot instance",
        "Slurm, --signal=TERM@120, then 30 s",
    ]


def test_each_job_has_the_same_samples_and_deals_them_to_its_ranks() -> None:
    """Three steps of four samples, dealt by turns; the last job has four ranks
    for one step and two from then on."""
    samples, *jobs = [row[1:] for row in table("one-order")]
    assert len({*samples[:8], *samples[8:10]}) == 10  # an epoch of ten
    dealt = [[int(rank.removeprefix("rank ")) for rank in job] for job in jobs]
    assert dealt == [
        [0] * 12,
        [0, 1] * 6,
        [0, 1, 2, 3] * 3,
        [0, 1, 2, 3] + [0, 1] * 4,
    ]


def test_the_first_difference_is_the_one_that_the_exam_blames() -> None:
    """Samples, rates and RNG states are the same in all 18 steps. The state of
    the optimizer differs from step 9 on, and the weights from step 10 on."""
    rows = {row[0]: row[1:] for row in table("exam-first-difference")}
    assert [*rows] == [*COMPARED]
    same, first, follows = exam_pictures.KINDS
    optimizer = [same] * 8 + [first] + [follows] * 9
    weights = [same] * 9 + [follows] * 9
    assert [*rows.values()] == [*[[same] * 18] * 3, optimizer, weights]
    assert exam_pictures.recorded()[3] == "optimizer"


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_the_matrix_of_trainers_has_a_cell_for_each_need(width: int) -> None:
    """A cell is full, empty or hatched as its answer in the table, which the
    page's list of names agrees with."""
    rows = {row[0]: row[1:] for row in table("exam-matrix")}
    words = dict(exam_pictures.ANSWERS.values())
    svg = drawn(PICTURES["exam-matrix"](), width)
    said = [x.get_text() for x in svg.select("text")]
    full = len(svg.select("rect.chart-fill-0"))
    answers = [answer for row in rows.values() for answer in row]
    for how, found in (
        ("fill-0", full),
        ("stroke-0", len(svg.select("path.chart-stroke-0"))),
        ("", said.count("–")),
    ):
        expected = [a for a in answers if words[a] == how]
        assert found == len(expected) + 1  # the legend's
    listed = (PEERS / "result.md").read_text("utf-8")
    for number, need in enumerate(NEEDS):
        (line,) = re.findall(
            rf"^\| {re.escape(need)} \| (.*?) \|", listed, re.M
        )
        named = {one.rstrip("\\*") for one in line.split(", ")} - {"none"}
        assert named == {
            name for name, row in rows.items() if words[row[number]] == "fill-0"
        }


def test_the_bubble_is_that_of_the_schedules_papers() -> None:
    rows = {row[0]: row[1:] for row in table("bubble")}
    assert rows["8"] == [
        f"{700 / 15:.3g} %",
        f"{700 / 23:.3g} %",
        "22.6 %",
        "–",
    ]
    assert rows["128"][0] == f"{700 / 135:.3g} %"
    assert {row[3] for count, row in rows.items() if count != "8"} == {"0 %"}


def test_the_loss_that_is_drawn_is_the_one_recorded() -> None:
    curves = pictures.data(pictures.LOSSES)["curves"]
    found = {int(row[0]): row[1:] for row in table("loss")}
    for i, name in enumerate(pictures.CURVES):
        for step, loss in curves[name]:
            if step in found:
                assert found[step][i] == f"{loss:.4f}"
    svg = drawn(PICTURES["loss"]())
    level = sorted(numbers(p)[1] for p in svg.select("path.chart-grid"))[::-1]
    said = [t for t in svg.select("text") if t["text-anchor"] == "end"]
    up = Scale(level, [float(t.get_text()) for t in said])
    (line,) = svg.select("path.chart-line.chart-stroke-0")[1:]
    first = pictures.SHOWN[0] - 1
    assert [up(at) for at in numbers(line)[1::2]] == pytest.approx(
        [x for _, x in curves["whole"]][first : pictures.SHOWN[1]], abs=0.005
    )


def test_the_ratios_are_the_benchmarks() -> None:
    over = pictures.data(pictures.BENCHMARK)["summary"]["over"]
    rows = {row[0]: row[1:] for row in table("benchmark")}
    for model, rivals in over.items():
        for rival, one in rivals.items():
            row = rows[f"{pictures.LOOPS[rival]}, {model}"]
            assert row == [
                f"{one[key]:.3f}" for key in ("median", "low", "high")
            ]


@pytest.mark.parametrize("name", ["late", "apart", "overlap"])
def test_a_timeline_is_drawn_from_its_trace(name: str) -> None:
    trace = timeline.load(name)
    step = timeline.steps(trace)[-1]
    begin, end = timeline.window(trace, step)
    svg = drawn(PICTURES[f"trace-{name}"]())
    scale = Scale(upright(svg), ticks(end - begin))
    found = [
        [scale(float(a)), scale(float(b))]
        for path in svg.select("path.chart-plain")
        for a, b in re.findall(rf"M{NUMBER} [\d.]+H{NUMBER}", str(path["d"]))
    ]
    expected = []
    for rank in (0, 1):
        mine = timeline.lanes(timeline.of_rank(trace, rank), step)
        for lane in ("computes", "sends"):
            expected += [
                [max(a, begin) - begin, min(b, end) - begin]
                for _, (a, b) in mine[lane]
            ]
    one = scale(0.011) - scale(0)  # what two digits of a place come to
    for drawn_, recorded in zip(found, expected, strict=True):
        assert drawn_ == pytest.approx(recorded, abs=one)


# What is missing


def test_missing_data_are_one_clear_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pictures, "LOSSES", tmp_path / "gone.json")
    with pytest.raises(ValueError, match=r"^no data for a chart: gone\.json"):
        computed('{{ chart("loss") }}', "planner/", chart=chart)
    with pytest.raises(ValueError, match="there is no chart 'lost'; there are"):
        computed('{{ chart("lost") }}', "planner/", chart=chart)
    with pytest.raises(timeline.BadTrace, match=r"no trace 'x' .* none"):
        timeline.load("x", tmp_path)


# In a browser


def shown(page: Page, scheme: str, width: int, folder: Path) -> None:
    """All pictures on one page, as the site's style sheets have them."""
    assets = ROOT / "docs" / "assets"
    css = "".join(
        (assets / f"{x}.css").read_text() for x in ("extra", "charts")
    )
    body = "".join(map(chart, PICTURES))
    file = folder / "charts.html"
    file.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Charts'
        "</title><style>html{font-size:20px}body{margin:16px;background:"
        f"var(--md-default-bg-color);color:var(--md-default-fg-color)}}{css}</style>"
        f'<body data-md-color-scheme="{scheme}" class="md-typeset"><main><h1>'
        f"Charts</h1>{body}</main>"
    )
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(file.as_uri())


SIZES = """
[...document.querySelectorAll(".chart svg")]
  .filter((svg) => svg.getClientRects().length)
  .flatMap((svg) => [...svg.querySelectorAll("text")].map((text) =>
    parseFloat(getComputedStyle(text).fontSize) * svg.getScreenCTM().a))
"""
COLORS = """
[...document.querySelectorAll(".chart svg *")].flatMap((e) => {
  const { fill, stroke } = getComputedStyle(e);
  const own = e.closest("defs") ? e.tagName == "rect" : true;
  const hatch = e.matches(".chart-hatch, .chart-grid");
  const shape = e.matches(".chart-span, .chart-plain, .chart-edge");
  const text = e.matches("text:not(.chart-on, .chart-in)");
  const seen = shape || text || e.matches("pattern rect");
  const line = e.matches(".chart-line, .chart-mark, .chart-rule");
  return [
    own && seen && !hatch && fill.startsWith("rgb") ? fill : null,
    line && stroke.startsWith("rgb") ? stroke : null,
  ].filter(Boolean);
})
"""


def luminance(color: str) -> float:
    """As WCAG 2 defines it."""
    parts = [int(x) / 255 for x in re.findall(r"\d+", color)[:3]]
    linear = [
        x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4
        for x in parts
    ]
    return sum(
        w * x for w, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True)
    )


@pytest.fixture(scope="module")
def tab(request: pytest.FixtureRequest) -> Page:
    return request.getfixturevalue("browser").new_page()


@pytest.mark.parametrize("scheme", ["default", "slate"])
def test_it_is_seen_in_either_scheme(
    tab: Page, tmp_path: Path, scheme: str, node_modules: Path
) -> None:
    shown(tab, scheme, 1280, tmp_path)
    body = "getComputedStyle(document.body).backgroundColor"
    page = luminance(tab.evaluate(body))
    found = {*tab.evaluate(COLORS)}
    assert len(found) > 5
    for color in found:
        low, high = sorted((page, luminance(color)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, color
    tab.add_script_tag(path=node_modules / "axe-core" / "axe.min.js")
    tab.evaluate(
        "document.querySelectorAll('details').forEach(d => d.open = 1)"
    )
    result: dict[str, Any] = tab.evaluate("axe.run()")
    assert result["passes"]
    assert [
        (v["id"], v["nodes"][0]["html"][:200]) for v in result["violations"]
    ] == []


@pytest.mark.parametrize("width", [360, 600, 700, 800, 1280])
def test_letters_keep_their_size_on_every_screen(
    tab: Page, tmp_path: Path, width: int
) -> None:
    shown(tab, "default", width, tmp_path)
    sizes = tab.evaluate(SIZES)
    assert len(sizes) > 50
    assert min(sizes) >= 12
    assert max(sizes) <= 20
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.xdist_group("site")
def test_on_the_site_letters_are_large_enough_for_a_phone(
    browser: Any,  # noqa: F811
    site: Site,
) -> None:
    phone: Any = {"width": 360, "height": 800}
    with Visit(browser, site, viewport=phone) as visit:
        with_charts = [
            a for a, h in site.pages().items() if 'class="chart"' in h
        ]
        assert len(with_charts) >= 4
        for file in timeline.FOLDER.glob("*.json"):
            published = site.folder / "performance" / "traces" / file.name
            assert published.read_bytes() == file.read_bytes()
        for address in with_charts:
            page = visit.open(address)
            assert min(page.evaluate(SIZES)) >= 12, address
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 360, address
            visit.assert_clean(address)
