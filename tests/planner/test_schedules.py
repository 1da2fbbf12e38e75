"""Pipeline schedules and their clock beside the papers, torch and the lab."""

from typing import Any

import pytest
from torch.distributed.pipelining._schedule_visualizer import get_schedule_ops

from lockstep.labs.lab_06_pipeline import grader
from lockstep.parallel import pipeline as parallel
from lockstep.planner.clock import Played
from lockstep.planner.figures import PlanError
from lockstep.planner.pipeline import pipeline
from lockstep.planner.schedules import SCHEDULES, Schedule

Steps = list[list[tuple[str, int, int]]]
SIZES = [(1, 2), (2, 4), (3, 6), (4, 8), (4, 16), (8, 16), (8, 24)]

# Qi et al. 2024, figure 3: four devices, eight micro-batches.
FIGURE_3 = {
    "zb-h1": """
        F1 F2 F3 F4 I1 W1 F5 I2 W2 F6 I3 W3 F7 I4 W4 F8 I5 W5 I6 W6 I7 W7 I8 W8
        F1 F2 F3 I1 F4 I2 W1 F5 I3 W2 F6 I4 W3 F7 I5 W4 F8 I6 W5 I7 W6 I8 W7 W8
        F1 F2 I1 F3 I2 F4 I3 W1 F5 I4 W2 F6 I5 W3 F7 I6 W4 F8 I7 W5 I8 W6 W7 W8
        F1 I1 F2 I2 F3 I3 F4 I4 W1 F5 I5 W2 F6 I6 W3 F7 I7 W4 F8 I8 W5 W6 W7 W8
    """,
    "zb-h2": """
        F1 F2 F3 F4 F5 F6 F7 I1 W1 F8 I2 W2 I3 W3 I4 W4 I5 W5 I6 W6 I7 W7 I8 W8
        F1 F2 F3 F4 F5 I1 F6 I2 F7 I3 W1 F8 I4 W2 I5 W3 I6 W4 I7 W5 I8 W6 W7 W8
        F1 F2 F3 I1 F4 I2 F5 I3 F6 I4 F7 I5 W1 F8 I6 W2 I7 W3 I8 W4 W5 W6 W7 W8
        F1 I1 F2 I2 F3 I3 F4 I4 F5 I5 F6 I6 F7 I7 W1 F8 I8 W2 W3 W4 W5 W6 W7 W8
    """,
}


def written(steps: Steps) -> str:
    """As the paper's figure has it, from 1."""
    return " ".join(f"{kind}{number + 1}" for ((kind, number, _),) in steps)


@pytest.mark.parametrize("name", FIGURE_3)
def test_zero_bubble_schedules_are_the_papers_figure(name: str) -> None:
    """ZB-H1 and ZB-H2 for four ranks and eight micro-batches are, action by
    action, those of figure 3 of Qi et al."""
    lines = FIGURE_3[name].strip().splitlines()
    schedule = Schedule(name, 4, 8)
    assert [written(one) for one in schedule.steps] == [
        line.strip() for line in lines
    ]


def torchs(name: str, ranks: int, micro_batches: int, parts: int) -> Any:
    """torch's table, for each rank, as ours are written."""
    table = get_schedule_ops(name, ranks, micro_batches, parts)
    found = []
    for rank, actions in enumerate(table):
        steps = []
        for action in actions:
            if action is not None:
                every = action.sub_actions or (action,)
                steps.append([ours(one, rank, name, ranks) for one in every])
        found.append(steps)
    return found


def ours(action: Any, rank: int, name: str, ranks: int) -> Any:
    """torch counts parts of the model, and we count those of a rank."""
    place = action.stage_index
    part = place // ranks
    if SCHEDULES[NAMED[name]][2]:
        part = int(place != rank)
    return action.computation_type.value, action.microbatch_index, part


NAMED = {
    "Interleaved1F1B": "interleaved",
    "ZBVZeroBubble": "zbv",
    "DualPipeV": "dualpipev",
}


@pytest.mark.parametrize(("ranks", "micro_batches"), SIZES)
@pytest.mark.parametrize("name", NAMED)
def test_v_shaped_and_interleaved_lists_are_torchs(
    name: str, ranks: int, micro_batches: int
) -> None:
    """The lists of interleaved 1F1B, ZB-V and DualPipeV are, action by action
    and pair by pair, the tables that torch 2.13 makes for the same sizes."""
    for parts in (2, 3) if name == "Interleaved1F1B" else (2,):
        schedule = Schedule(NAMED[name], ranks, micro_batches, parts)
        table = torchs(name, ranks, micro_batches, parts)
        assert schedule.steps == table


@pytest.mark.parametrize(("ranks", "micro_batches"), [*SIZES, (4, 3), (2, 5)])
@pytest.mark.parametrize("name", ["gpipe", "1f1b", "interleaved"])
def test_lists_and_clock_are_the_labs(
    name: str, ranks: int, micro_batches: int
) -> None:
    """GPipe, 1F1B and interleaved lists are those that lab 06 builds. Played
    on our clock they take as long as on the lab's, with messages of no time
    and with late ones. The lab's unit is a forward of one part."""
    parts = 2 if name == "interleaved" else 1
    if name == "interleaved" and micro_batches % ranks:
        with pytest.raises(PlanError, match="microbatches"):
            Schedule(name, ranks, micro_batches, parts)
        return
    schedule = Schedule(name, ranks, micro_batches, parts)
    make: Any = {
        "gpipe": parallel.gpipe_schedule,
        "1f1b": parallel.one_f_one_b_schedule,
        "interleaved": parallel.interleaved_schedule,
    }[name]
    asked = (parts,) if name == "interleaved" else ()
    lists = [
        [tuple(action) for action in make(rank, ranks, micro_batches, *asked)]
        for rank in range(ranks)
    ]
    assert [[one for (one,) in steps] for steps in schedule.steps] == lists
    # The lab's clock has one rank send to itself.
    for message in (0, 0.25, 0.5) if ranks > 1 else (0,):
        alone = grader.time(name, lists, message * parts) / parts
        assert Played(schedule, message).end == pytest.approx(alone)


@pytest.mark.parametrize(("ranks", "micro_batches"), SIZES)
@pytest.mark.parametrize("name", ["gpipe", "1f1b", "interleaved", "zb-h1"])
def test_the_clock_idles_as_planned(
    name: str, ranks: int, micro_batches: int
) -> None:
    """GPipe, 1F1B, interleaved 1F1B with two parts and ZB-H1 take, on the
    clock, the bubble over ideal that the planner's formulas say, and hold as
    many micro-batches."""
    parts = 2 if name == "interleaved" else 1
    asked = {"stages": ranks, "microbatches": micro_batches}
    asked |= {"schedule": name, "virtual_stages": parts}
    plan = pipeline(asked)
    schedule = Schedule(name, ranks, micro_batches, parts)
    over = Played(schedule).overhead()
    assert over == pytest.approx(float(plan["bubble_overhead"]))
    most = float(plan["in_flight_microbatches"])
    assert max(schedule.held()) == pytest.approx(most)


@pytest.mark.parametrize(("ranks", "micro_batches"), SIZES[1:])
def test_no_rank_idles_under_zb_h2_and_zb_v(
    ranks: int, micro_batches: int
) -> None:
    """Where forward and both halves of the backward take equally long, and
    micro-batches are enough, no rank waits between its first and last action
    under ZB-H2 and ZB-V. Ranks begin one after the other, though, by a forward
    of a part each, so a step that ends when all have ended is longer: by
    ranks - 1 forwards under ZB-H2, half of that under ZB-V."""
    if micro_batches < 2 * ranks - 1:
        return
    for name, late in (("zb-h2", 1), ("zbv", 0.5)):
        played = Played(Schedule(name, ranks, micro_batches))
        assert played.staggered() == pytest.approx(0)
        ideal = 3 * micro_batches
        assert played.end == pytest.approx(ideal + late * (ranks - 1))


def test_zb_v_holds_what_1f1b_holds_and_zb_h2_nearly_twice() -> None:
    """On four ranks 1F1B holds 4, 3, 2 and 1 micro-batches, ZB-H1 and ZB-V 4 on
    every rank, ZB-H2 7 and DualPipeV 4.5."""
    held = {
        name: Schedule(name, 4, 16, 2).held()
        for name in ("1f1b", "zb-h1", "zbv", "zb-h2", "dualpipev")
    }
    assert held == {
        "1f1b": [4, 3, 2, 1],
        "zb-h1": [4] * 4,
        "zbv": [4] * 4,
        "zb-h2": [7] * 4,
        "dualpipev": [4.5] * 4,
    }


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.parametrize("exchange", [0, 0.25, 0.5, 1])
def test_dualpipev_idles_as_deepseek_says(exchange: float, ranks: int) -> None:
    """The last rank waits for (PP/2 - 1)(F&B + B - 3W), the bubble in
    DeepSeek-V3's table, with all-to-alls of up to one forward in each pass. A
    rank holds two of the PP parts; F, B and W are a part's times, all-to-alls
    included, and F&B is that of an overlapped pair, in which they hide.
    Without all-to-alls every rank waits as long."""
    schedule = Schedule("dualpipev", ranks, 3 * ranks)
    played = Played(schedule, exchange=exchange)
    backward, of_weights = (2 + exchange) / 2, 1 / 2
    pair = max(3, 2 * exchange) / 2
    bubble = (ranks - 1) * (pair + backward - 3 * of_weights)
    for bars in played.bars if exchange == 0 else played.bars[-1:]:
        busy = sum(end - start for start, end, *_ in bars)
        assert played.end - busy == pytest.approx(bubble)


def test_overlapped_pairs_hide_all_to_alls() -> None:
    """Four ranks, 16 micro-batches, all-to-alls of one and a half forwards in
    each pass: 1F1B takes 137.5 % more than computing alone, ZB-V 109.4 %, and
    DualPipeV 42.2 %."""
    found = {
        name: round(Played(Schedule(name, 4, 16), exchange=1.5).overhead(), 3)
        for name in ("1f1b", "zbv", "dualpipev")
    }
    assert found == {"1f1b": 1.375, "zbv": 1.094, "dualpipev": 0.422}


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("message", [0.1, 0.25, 0.5])
def test_1f1b_pays_two_messages_for_nearly_every_micro_batch(
    ranks: int, message: float
) -> None:
    """On the clock, a micro-batch more costs 1F1B three forwards and, of two
    messages, (ranks - 1) / ranks. It costs GPipe three forwards."""

    def step(name: str, micro_batches: int) -> float:
        return Played(Schedule(name, ranks, micro_batches), message).end

    few, many = 4 * ranks, 8 * ranks
    each = (step("1f1b", many) - step("1f1b", few)) / (many - few)
    assert each == pytest.approx(3 + 2 * message * (ranks - 1) / ranks)
    each = (step("gpipe", many) - step("gpipe", few)) / (many - few)
    assert each == pytest.approx(3)
    ends = 3 * (few + ranks - 1) + 2 * (ranks - 1) * message
    assert step("gpipe", few) == pytest.approx(ends)


def test_what_late_messages_do_to_each_schedule() -> None:
    """Four ranks, 16 micro-batches, over ideal with messages of no time and of
    half a forward: GPipe 18.8 and 25.0 %, 1F1B 18.8 and 47.9, interleaved with
    two parts 9.4 and 24.0, ZB-H1 6.2 and 18.8, ZB-V 3.1 and 17.7, ZB-H2 6.2
    and 9.4, DualPipeV 6.2 and 40.6, all to the end of the last rank."""
    found = {
        name: [
            round(100 * Played(Schedule(name, 4, 16, 2), message).overhead(), 1)
            for message in (0, 0.5)
        ]
        for name in SCHEDULES
    }
    assert found == {
        "gpipe": [18.8, 25.0],
        "1f1b": [18.8, 47.9],
        "interleaved": [9.4, 24.0],
        "zb-h1": [6.2, 18.8],
        "zb-h2": [6.2, 9.4],
        "zbv": [3.1, 17.7],
        "dualpipev": [6.2, 40.6],
    }


@pytest.mark.parametrize("message", [0.1, 0.5, 1, 1.5])
def test_a_second_forward_ahead_hides_messages(message: float) -> None:
    """With two forwards of warm-up for each later rank instead of one, 1F1B on
    four ranks takes as long as GPipe with the same late messages, up to one
    and a half forwards each, and holds 7 micro-batches instead of 4."""
    schedule = Schedule("1f1b", 4, 16)
    for rank, steps in enumerate(schedule.steps):
        actions = [action for step in steps for action in step]
        forwards = [action for action in actions if action[0] == "F"]
        backwards = [action for action in actions if action[0] == "B"]
        ahead = parallel.alternate(forwards, backwards, 2 * (3 - rank))  # type: ignore[arg-type]
        schedule.steps[rank] = [[action] for action in ahead]
    assert max(schedule.held()) == 7
    late = Played(Schedule("gpipe", 4, 16), message).end
    assert Played(schedule, message).end == pytest.approx(late)


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
def test_the_slowest_stage_sets_the_pace(name: str) -> None:
    """If the last stage takes a quarter of a forward more, with its backward in
    proportion, a step of m micro-batches on p ranks takes 3.75 m forwards and
    3 (p - 1): the slow stage never waits."""
    for ranks, micro_batches in ((2, 4), (4, 8), (8, 16)):
        played = Played(Schedule(name, ranks, micro_batches), extra=0.25)
        expected = 3.75 * micro_batches + 3 * (ranks - 1)
        assert played.end == pytest.approx(expected)


def test_what_no_schedule_can_do_is_refused() -> None:
    """Interleaving wants whole rounds, DualPipeV a micro-batch for each part;
    and there is no schedule of another name."""
    with pytest.raises(PlanError, match="microbatches"):
        Schedule("interleaved", 4, 6, 2)
    with pytest.raises(PlanError, match="at least 8"):
        Schedule("dualpipev", 4, 7)
    with pytest.raises(PlanError, match="schedule"):
        Schedule("zb-h3", 4, 8)


def test_a_list_that_waits_for_itself_is_refused() -> None:
    """The clock tells a deadlock from a long wait."""
    schedule = Schedule("gpipe", 2, 2)
    schedule.steps[0].reverse()
    with pytest.raises(PlanError, match="rank 0 waits for ever"):
        Played(schedule)


@pytest.mark.parametrize(("ranks", "parts"), [(2, 2), (4, 2), (4, 3), (8, 4)])
def test_interleaving_hides_messages_of_a_part(ranks: int, parts: int) -> None:
    """A message that takes no longer than the forward pass of a part delays
    interleaved 1F1B by 2(vp - 1) messages at its ends. A longer one delays
    every micro-batch."""

    def took(micro_batches: int, message: float) -> float:
        lists = Schedule("interleaved", ranks, micro_batches, parts)
        return Played(lists, message).end

    m = 8 * ranks
    for message in (0.5 / parts, 1 / parts):
        ends = 3 * (ranks - 1) / parts + 2 * (parts * ranks - 1) * message
        assert took(m, message) == pytest.approx(3 * m + ends)
    slow = 1.2 / parts
    assert took(2 * m, slow) - took(m, slow) > 1.01 * 3 * m
