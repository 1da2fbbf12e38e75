"""The simulated fleet keeps its account, agrees with Daly's formula where that
holds, and comes near what fleets have published."""

from __future__ import annotations

import json
from dataclasses import replace
from math import sqrt
from random import Random
from typing import Any

import pytest

from lockstep.cli import main
from lockstep.experiments.fleet import tables
from lockstep.experiments.fleet.__main__ import FIRST, RESULT
from lockstep.experiments.fleet.answer import answer
from lockstep.experiments.fleet.recovery import (
    AUTOMATIC,
    JOB,
    WAYS,
    cost,
    lost,
    parts,
)
from lockstep.experiments.fleet.reports import REPORTS
from lockstep.experiments.fleet.settings import (
    CAUSES,
    DAY,
    HOUR,
    LEFT_OUT,
    PLANNED,
    Fleet,
)
from lockstep.experiments.fleet.simulation import simulate
from lockstep.planner.checkpoints import young
from lockstep.site.pages import pictures

NEVER = 1e12  # hours
# Daly's assumptions: any failure stops the job at once, and a node is there.
DALY = Fleet(
    gpus=1_000,
    host_mtbf_hours=0,
    network_mtbf_hours=0,
    software_mtbf_hours=0,
    detect_seconds=0,
    hang_share=0,
    diagnose_seconds=0,
    load_seconds=0,
    repair_hours=0,
)
# Nothing interrupts it.
CALM = replace(DALY, gpu_mtbf_hours=NEVER, save_every_seconds=1_000)


def drawn(seed: int) -> Fleet:
    """A fleet to which everything happens."""
    chance = Random(seed)
    return Fleet(
        gpus=chance.choice([64, 1_000]),
        days=chance.uniform(1, 20),
        gpu_mtbf_hours=chance.uniform(500, 5_000),
        host_mtbf_hours=chance.uniform(500, 5_000),
        network_mtbf_hours=chance.uniform(500, 5_000),
        software_mtbf_hours=chance.uniform(500, 5_000),
        hang_share=chance.random(),
        manual_share=chance.random(),
        swap_seconds=chance.uniform(0, 100),
        spares=chance.randrange(5),
        save_seconds=chance.uniform(1, 300),
        save_every_seconds=chance.uniform(1, 5_000),
        straggler_mtbf_hours=chance.uniform(500, 5_000),
        straggler_slowdown=chance.uniform(0, 2),
        planned_every_hours=chance.uniform(1, 50),
        planned_seconds=chance.uniform(0, 3_000),
    )


@pytest.mark.parametrize("seed", range(12))
def test_all_kinds_of_time_add_up_to_the_wall_clock(seed: int) -> None:
    """The times by kind of a simulated run add up to its wall-clock time, with
    failures, stragglers, planned stops and too few spares."""
    fleet = drawn(seed)
    run = simulate(fleet, fleet.save_every_seconds, seed)
    assert run.wall == pytest.approx(fleet.days * DAY, rel=1e-9)
    assert min(run.seconds.values()) >= 0
    assert run.failures > 0


def test_a_seed_decides_on_everything() -> None:
    first, again, other = (simulate(drawn(1), 600, s) for s in (1, 1, 2))
    assert first == again
    assert first.seconds != other.seconds


@pytest.mark.parametrize(
    ("mtbf_hours", "restart", "save", "every"),
    [(8, 300, 10, 0), (2, 600, 60, 1_800), (1, 1_800, 30, 0)],
)
def test_it_agrees_with_daly_where_his_assumptions_hold(
    mtbf_hours: float, restart: float, save: float, every: float
) -> None:
    """With exponential failures, nothing to detect and a node at once, a
    simulated fleet loses what Daly's formula says, within 4 %, also where
    failures often strike during a restart."""
    fleet = replace(
        DALY,
        days=mtbf_hours * 100,  # 2,400 failures a run
        gpu_mtbf_hours=mtbf_hours * 1_000,
        restart_seconds=restart,
        save_seconds=save,
        save_every_seconds=every,
    )
    found = answer(fleet, 4)
    lost = 1 - found.goodput.mean
    assert lost == pytest.approx(1 - found.formula, rel=0.04)
    assert found.mttf_hours.mean == pytest.approx(mtbf_hours, rel=0.03)
    assert found.formula_mttf_hours == pytest.approx(mtbf_hours)


@pytest.mark.parametrize("name", REPORTS)
def test_what_the_formula_leaves_out_is_the_difference(name: str) -> None:
    """Daly's formula is too high by the points of the causes that the answer
    names, within 1.5 points."""
    found = answer(REPORTS[name].fleet, 10)
    left_out = sum(found.shares[kind] for kind in LEFT_OUT)
    apart = found.formula - found.goodput.mean
    assert apart == pytest.approx(left_out, abs=0.015)


def test_the_sentence_names_the_largest_cause_first() -> None:
    few = answer(replace(REPORTS["llama3"].fleet, spares=8), 5)
    assert "more.\nIt leaves out, in points: waiting for nodes" in few.why()
    assert "agrees within 0.5 points" in answer(DALY, 5).why()


def test_detection_and_diagnosis_cost_what_they_take() -> None:
    """A share of failures shows no error and is found by the timeout."""
    fleet = replace(
        DALY,
        days=400,
        gpu_mtbf_hours=8_000,
        detect_seconds=60,
        hang_share=0.25,
        hang_seconds=1_800,
        diagnose_seconds=300,
    )
    run = simulate(fleet, 1_000, 0)
    each = run.seconds["detection"] / run.failures
    assert each == pytest.approx(0.75 * 60 + 0.25 * 1_800, rel=0.1)
    assert run.seconds["diagnosis"] == pytest.approx(300 * run.failures)


def test_a_share_of_failures_waits_for_people() -> None:
    fleet = replace(
        DALY, days=400, gpu_mtbf_hours=8_000, manual_share=0.5, manual_hours=3
    )
    run = simulate(fleet, 1_000, 0)
    each = run.seconds["people"] / HOUR / run.failures
    assert each == pytest.approx(0.5 * 3, rel=0.15)


def test_without_spares_a_job_waits_for_each_repair() -> None:
    fleet = replace(
        DALY, days=2_000, gpu_mtbf_hours=24_000, spares=0, repair_hours=5
    )
    run = simulate(fleet, 1_000, 0)
    each = run.seconds["nodes"] / HOUR / run.failures
    assert each == pytest.approx(5, rel=0.1)
    swaps = replace(fleet, spares=50, swap_seconds=100)
    run = simulate(swaps, 1_000, 0)
    assert run.seconds["nodes"] == 0
    assert run.seconds["swap"] == pytest.approx(100 * run.failures)


def test_a_software_failure_takes_no_node() -> None:
    fleet = replace(CALM, software_mtbf_hours=500, spares=0, repair_hours=24)
    run = simulate(fleet, 1_000, 0)
    assert run.stops["software"] == run.failures > 100
    assert run.seconds["nodes"] == 0


def test_spares_for_the_mean_and_two_deviations_are_enough() -> None:
    """With spares for the mean number of nodes in repair and two standard
    deviations more, Llama 3's fleet loses less than a point to waiting for
    nodes; with spares for the mean alone, over 5 points."""
    fleet = REPORTS["llama3"].fleet
    rates = fleet.rates()
    evicted = sum(rates[cause] for cause in CAUSES if cause != "software")
    mean = evicted * fleet.repair_hours * HOUR
    assert mean == pytest.approx(6.6, abs=0.05)
    enough = round(mean + 2 * sqrt(mean))
    shares = [
        answer(replace(fleet, spares=spares), 20).shares["nodes"]
        for spares in (round(mean), enough)
    ]
    assert shares[0] > 0.05
    assert shares[1] < 0.01
    rows = json.loads(RESULT.read_text())["spares"]
    assert enough in [row["spares"] for row in rows]


def test_one_slow_node_lengthens_every_step() -> None:
    slow = replace(
        CALM,
        days=2,
        straggler_mtbf_hours=1,  # of 125 nodes: from the first minutes on
        straggler_slowdown=0.25,
        straggler_hours=NEVER,
    )
    run = simulate(slow, 1_000, 0)
    training = run.seconds["kept"] + run.seconds["slow"]
    assert run.seconds["slow"] / training == pytest.approx(0.2, rel=2e-3)


def test_a_slow_node_is_replaced_without_losing_steps() -> None:
    found = replace(
        CALM,
        straggler_mtbf_hours=125 * 48,
        straggler_hours=12,
        spares=0,
        repair_hours=6,
    )
    run = simulate(found, 1_000, 0)
    assert run.stops[PLANNED] > 5
    assert run.seconds["replay"] == 0
    assert run.seconds["nodes"] > 0


def test_a_planned_stop_saves_first() -> None:
    fleet = replace(
        CALM, days=10, planned_every_hours=24, planned_seconds=1_000
    )
    run = simulate(fleet, 7_000, 0)
    assert run.stops[PLANNED] == 9
    assert run.seconds[PLANNED] == pytest.approx(
        9 * (1_000 + fleet.restart_seconds)
    )
    # 12 saves before each stop and before the end, and one for each stop.
    assert run.seconds["saving"] == pytest.approx(10 * (10 * 12 + 9))
    assert run.seconds["replay"] == 0
    assert run.failures == 0
    assert run.mttf_hours == float("inf")


def test_a_failure_loses_what_is_not_saved() -> None:
    """Half of an interval on average, where failures are rare."""
    fleet = replace(DALY, days=800, gpu_mtbf_hours=8_000)
    run = simulate(fleet, 1_000, 0)
    assert run.seconds["replay"] / run.failures == pytest.approx(500, rel=0.05)
    saves = (run.seconds["kept"] + run.seconds["replay"]) / 1_000
    assert run.seconds["saving"] == pytest.approx(10 * saves, rel=0.02)


@pytest.mark.parametrize("name", REPORTS)
def test_a_simulated_fleet_comes_near_its_report(name: str) -> None:
    """The simulated goodput of each published fleet lies within the band that
    its report states, above the published one."""
    report = REPORTS[name]
    found = answer(report.fleet, 20)
    if report.goodput is not None:
        over = found.goodput.mean - report.goodput
        assert 0 <= over <= report.band
    if report.mttf_hours is not None:
        # Of 1,024 GPUs, from jobs of 8: 9 hours, where 7.9 were measured.
        tolerance = 0.15 if name == "rsc-1024" else 0.03
        assert found.mttf_hours.mean == pytest.approx(
            report.mttf_hours, rel=tolerance
        )


def test_rates_add_up_to_what_was_counted() -> None:
    """Llama 3's 419 failures and 47 planned stops, ByteRobust's 155 and 20, and
    the hosts that OPT-175B lost."""
    for name, failures, stops in (
        ("llama3", 419, 47),
        ("byterobust", 155, 20),
        ("megascale", 100, 0),
        ("opt", 105, 0),
    ):
        fleet = REPORTS[name].fleet
        seconds = fleet.days * DAY
        counted = sum(fleet.rates().values()) * seconds
        assert counted == pytest.approx(failures)
        if stops:
            assert seconds / HOUR / fleet.planned_every_hours == pytest.approx(
                stops
            )


def test_every_report_has_its_source_and_its_words() -> None:
    fields = {*Fleet.__dataclass_fields__}
    for report in REPORTS.values():
        assert report.url.startswith("https://")
        assert len(report.quote) > 40
        assert report.why
        assert {*report.assumed} <= fields
        assert report.goodput or report.mttf_hours


def test_the_recorded_result_is_what_the_simulation_gives() -> None:
    found: dict[str, Any] = json.loads(RESULT.read_text())
    for name, report in REPORTS.items():
        now = answer(report.fleet, FIRST)
        assert now.goodput.mean == pytest.approx(
            found["reports"][name]["first"]["mean"], rel=1e-9
        )
        assert now.formula == pytest.approx(found["reports"][name]["formula"])
    assert RESULT.with_suffix(".md").read_text() == tables.tables(found)


def test_recorded_what_costs_most() -> None:
    """Restarts cost Llama 3's fleet most, saves ByteRobust's, and waiting
    OPT-175B's."""
    head, *rows = pictures.fleets().table
    most = {
        name: head[1:-1][parts.index(max(parts))]
        for name, *cells in rows
        for parts in [[float(cell.removesuffix(" %")) for cell in cells[:-1]]]
    }
    assert most["Llama 3 405B"] == "restarts"
    assert most["ByteRobust"] == "saves"
    assert most["OPT-175B"] == "waiting"


def test_llama_3_with_the_middle_of_each_range() -> None:
    """If Llama 3's fleet took the middle of the published ranges, 8.5 minutes
    to find a node and 12.5 to restart, it would keep 84 % of its time."""
    fleet = REPORTS["llama3"].fleet
    assert (fleet.diagnose_seconds, fleet.restart_seconds) == (120, 300)
    slow = replace(fleet, diagnose_seconds=510, restart_seconds=750)
    assert answer(slow, 10).goodput.mean == pytest.approx(0.84, abs=0.005)


def test_recorded_numbers_that_the_page_states() -> None:
    """The simulated goodput is 91 % for Llama 3 and 21 points too high for
    OPT-175B; 12 spares of 2,048 nodes are 0.6 %."""
    found: dict[str, Any] = json.loads(RESULT.read_text())["reports"]
    assert round(found["llama3"]["goodput"]["mean"], 2) == 0.91
    over = found["opt"]["goodput"]["mean"] - (REPORTS["opt"].goodput or 0)
    assert over == pytest.approx(0.21, abs=0.005)
    assert 12 / REPORTS["llama3"].fleet.nodes == pytest.approx(0.006, abs=5e-4)
    assert found["llama3"]["interval"] == pytest.approx(470, abs=10)


def test_the_formula_leaves_out_the_wait_for_a_spare() -> None:
    """Where a failure costs at most a tenth of the time between failures, the
    simulated ETTR is below the formula's by half a point to a point, which is
    the time in which no spare is ready. Where a person restarts the job, it is
    two points above."""
    found = json.loads(RESULT.read_text())["handled"]
    for name, fleet in WAYS.items():
        one = found[name]
        assert one["formula"] == pytest.approx(1 - lost(fleet))
        over = one["simulated"] - one["formula"]
        if name == "a person restarts":
            assert over == pytest.approx(0.02, abs=0.005)
        else:
            assert 0.005 < -over < 0.01
            assert over + one["nodes"] == pytest.approx(0, abs=0.004)


def test_a_twentieth_of_the_mttf_keeps_95_percent() -> None:
    """If a failure costs a twentieth of the MTTF, the simulated ETTR is 95 %
    within half a point, on 1,024 GPUs and on 16,384. The cost is 24 minutes at
    7.9 hours and 9 minutes at 3.1."""
    for nodes, hours, minutes in ((128, 7.9, 24), (2_048, 3.1, 9)):
        seconds = hours * HOUR / 20
        assert round(seconds / 60) == minutes
        fleet = replace(
            JOB,
            gpus=8 * nodes,
            host_mtbf_hours=hours * nodes,
            hang_share=0,
            detect_seconds=0.1 * seconds,
            diagnose_seconds=0.1 * seconds,
            restart_seconds=0.2 * seconds,
            load_seconds=0.1 * seconds,
            save_seconds=0.001,
            save_every_seconds=seconds,  # Half of it is lost.
            spares=100,
        )
        assert cost(fleet) == pytest.approx(seconds)
        assert answer(fleet, 10).goodput.mean == pytest.approx(0.95, abs=0.005)


def test_the_parts_of_a_failure_that_the_chapter_states() -> None:
    """An automatic restart after a hang takes 600 + 120 + 300 + 60 + 1,800 s,
    which are 48 minutes; after a crash 39, and 41 on average. With every part
    shortened it takes 100 + 60 + 90 + 30 + 300 s, after a crash 8.2 minutes,
    and 8.4 on average, which leaves 98 %. With a person it takes more than
    twice 48 minutes. Young's interval for saves of 10 s is 13 minutes."""
    crash, hang = parts(JOB, False), parts(JOB, True)
    assert WAYS[AUTOMATIC] == JOB
    assert [*hang.values()] == [600, 120, 300, 60, 1_800]
    assert sum(hang.values()) == 48 * 60
    assert sum(crash.values()) == 39 * 60
    assert round(cost(JOB) / 60) == 41
    person = sum(parts(WAYS["a person restarts"], True).values())
    assert person > 2 * sum(hang.values())
    short = [*parts(WAYS["every part shortened"], True).values()]
    assert short == [100, 60, 90, 30, 300]
    assert round(sum(short) / 60) == 10
    shortened = WAYS["every part shortened"]
    assert round(sum(parts(shortened, False).values()) / 60, 1) == 8.2
    assert round(cost(shortened) / 60, 1) == 8.4
    assert (shortened.save_seconds, shortened.save_every_seconds) == (1, 600)
    assert round(1 - lost(shortened), 2) == 0.98
    assert round(young(JOB.save_seconds, 7.9 * HOUR) / 60) == 13
    assert sum(JOB.rates().values()) == pytest.approx(1 / (7.9 * HOUR))


def asked(words: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The answer of the command, for machines."""
    assert main(["plan", "fleet", *words.split(), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_command_answers_for_machines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = asked("--gpus 1e3 --days 30 --runs 3", capsys)
    assert found["goodput"]["low"] <= found["goodput"]["mean"]
    assert sum(found["shares"].values()) == pytest.approx(1)
    assert {"formula", "interval", "stops", "why"} <= found.keys()


def test_what_is_given_takes_the_place_of_a_reports_input(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also where it is the default of another fleet."""
    usual = asked("--report bloom --runs 2", capsys)
    spared = asked("--spares 16 --report bloom --runs 2", capsys)
    rare = asked("--report bloom --gpu-mtbf-hours 79000 --runs 2", capsys)
    assert usual["interval"] == spared["interval"] == 10_520
    assert rare["formula_mttf_hours"] > usual["formula_mttf_hours"]


def test_a_run_without_a_failure_has_no_time_to_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = asked("--gpus 8 --days 0.1 --runs 2", capsys)
    assert found["mttf_hours"]["mean"] is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--spares -1", "--spares is -1; it must be 0 or more"),
        ("--gpus 1.5", "--gpus is 1.5; it must be a whole number from 1"),
        ("--hang-share 2", "--hang-share is 2; it must be from 0 to 1"),
        ("--days 0", "--days is 0; it must be above 0"),
        ("--runs 0", "--runs is 0; it must be a whole number from 1"),
        ("--seed 0.5", "--seed is 0.5; it must be a whole number"),
        ("--report llama9", "--report is llama9; it must be one of llama3"),
        ("--days 1e9", "interruptions in one run are more than 100,000"),
        (
            " ".join(f"--{cause}-mtbf-hours 0" for cause in CAUSES),
            "nothing fails; give --gpu-mtbf-hours",
        ),
    ],
)
def test_bad_input_is_one_line(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "fleet", *words.split()]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert said in line


def test_the_command_says_where_the_hours_go(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["plan", "fleet", "--report", "opt", "--runs", "3"]) == 0
    said = capsys.readouterr().out
    for words in ("goodput (ETTR)", "waiting for people", "Daly's formula"):
        assert words in said
