"""Our schedules and stages beside torch's own and beside the planner."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed import pipelining

from lockstep.experiments.demos import bytes_on_wire
from lockstep.labs.lab_06_pipeline import grader
from lockstep.parallel import pipeline as ours
from lockstep.planner.communication import PIPELINE
from lockstep.trainer.process import joined
from tests import ranks

WIDTH = 8
# Frames, and what torch's stages tell each other about shapes.
SLACK: dict[str, Any] = {"rel": 2e-3, "abs": 4096}
THEIRS = {
    "gpipe": pipelining.ScheduleGPipe,
    "1f1b": pipelining.Schedule1F1B,
    "interleaved": pipelining.ScheduleInterleaved1F1B,
}
CASES = [("gpipe", 1), ("1f1b", 1), ("interleaved", 2), ("interleaved", 3)]
SENDING = CASES[1:3]


def schedule(
    name: str, stage: int, stages: int, micro_batches: int, chunks: int
) -> list[ours.Action]:
    """Ours, of that name."""
    given = stage, stages, micro_batches
    if name == "interleaved":
        return ours.interleaved_schedule(*given, chunks)
    plain = {"gpipe": ours.gpipe_schedule, "1f1b": ours.one_f_one_b_schedule}
    return plain[name](*given)


def weighed(output: Tensor, target: Tensor) -> Tensor:
    return ((output - target) ** 2 * target).sum()


class Cut:
    """This rank's parts of a model that is the same in every call."""

    def __init__(self, me: Any, chunks: int, rows: int = 2) -> None:
        self.stage, self.stages = me.rank, me.world_size
        torch.manual_seed(0)
        every = [
            nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
            for _ in range(self.stages * chunks)
        ]
        self.micro_batches = 2 * self.stages
        self.inputs, self.targets = torch.rand(
            2, self.micro_batches, rows, WIDTH
        )
        self.parts = every[self.stage :: self.stages]
        self.first, self.last = me.rank == 0, me.rank == self.stages - 1

    def ours(self, name: str) -> Callable[[], list[Tensor]]:
        """A step."""
        stage = ours.PipelineStage(self.parts, weighed, self.inputs[0])
        given = self.stage, self.stages, self.micro_batches, len(self.parts)
        actions = schedule(name, *given)
        return lambda: stage.run(
            actions,
            list(self.inputs) if self.first else (),
            list(self.targets) if self.last else (),
        )

    def theirs(self, name: str) -> Callable[[], list[Tensor]]:
        """The same step."""
        cpu, number = torch.device("cpu"), self.stages * len(self.parts)
        parts = [
            pipelining.PipelineStage(
                part, self.stage + chunk * self.stages, number, cpu
            )
            for chunk, part in enumerate(self.parts)
        ]
        self.order: list[tuple[str, int, int]] = []
        for chunk, part in enumerate(parts):
            for kind, action in (("F", "forward"), ("B", "backward")):
                self.note(part, f"{action}_one_chunk", kind, chunk)
        made = THEIRS[name](
            parts if name == "interleaved" else parts[0],  # type: ignore[arg-type]
            self.micro_batches,
            loss_fn=weighed,
            scale_grads=False,
        )

        def step() -> list[Tensor]:
            losses: list[Tensor] = []
            whole = [self.inputs.flatten(0, 1)] if self.first else []
            target = self.targets.flatten(0, 1) if self.last else None
            made.step(*whole, target=target, losses=losses)
            return losses

        return step

    def note(self, part: Any, method: str, kind: str, chunk: int) -> None:
        """What torch does, in order: `pipeline_order` is not what 1F1B runs."""
        act = getattr(part, method)

        def noted(number: int, *args: Any, **kwargs: Any) -> Any:
            self.order.append((kind, number, chunk))
            return act(number, *args, **kwargs)

        setattr(part, method, noted)


def gradients(parts: list[nn.Sequential]) -> list[Any]:
    """Of every parameter, and None from then on."""
    found = []
    for parameter in (p for part in parts for p in part.parameters()):
        assert parameter.grad is not None
        found.append(parameter.grad.tolist())
        parameter.grad = None
    return found


def steps() -> list[Any]:
    """For every case, ours and torch's: losses, gradients, order."""
    with joined(60, ranks.store()) as me:
        return [compared(Cut(me, chunks), name) for name, chunks in CASES]


def compared(cut: Cut, name: str) -> Any:
    """Two results for each: the second step finds all shapes known."""
    mine, theirs = cut.ours(name), cut.theirs(name)
    results = [
        ([loss.item() for loss in step()], gradients(cut.parts))
        for step in (mine, theirs, mine, theirs)
    ]
    return results, cut.order


@pytest.mark.parametrize("stages", [2, 3])
def test_losses_gradients_and_order_are_torchs(stages: int) -> None:
    """Losses, gradients and the order of actions are those of torch's
    `ScheduleGPipe`, `Schedule1F1B` and `ScheduleInterleaved1F1B`, on every
    stage."""
    every = ranks.run_ranks(stages, steps)
    for place, (name, chunks) in enumerate(CASES):
        for rank, found in enumerate(every):
            results, order = found[place]
            losses = [len(result[0]) for result in results]
            assert losses == [2 * stages if rank == stages - 1 else 0] * 4
            for result in results[1:]:
                for mine, other in zip(results[0], result, strict=True):
                    for a, b in zip(mine, other, strict=True):
                        torch.testing.assert_close(
                            torch.tensor(a), torch.tensor(b)
                        )
            given = rank, stages, 2 * stages, chunks
            assert order == [tuple(a) for a in schedule(name, *given)] * 2, name


def sent() -> list[tuple[int, int]]:
    """Bytes that this rank sends in a step, by the kernel's count, and those
    of a boundary tensor; for each of SENDING."""
    with joined(60, ranks.store()) as me:
        found = []
        for name, chunks in SENDING:
            cut = Cut(me, chunks, rows=1 << 11)
            step = cut.ours(name)
            step()  # connects
            found.append((bytes_on_wire.sent(step), cut.inputs[0].nbytes))
        return found


def test_a_stage_sends_what_is_planned() -> None:
    """The middle one of three stages sends the bytes that the planner says, as
    the kernel counts them. The two ends send one message less per micro-batch,
    under 1F1B and under the interleaved schedule."""
    every = ranks.run_ranks(3, sent)
    for place, (_, chunks) in enumerate(SENDING):
        counts = [found[place][0] for found in every]
        given = {"pp": 3, "microbatches": 6, "virtual_stages": chunks}
        given |= {"tp": 1, "sequence_parallel": False}
        given |= {"activation_bytes": every[0][place][1]}
        plan = float(PIPELINE(given))
        end = plan * (1 - 1 / (2 * chunks))
        assert counts == pytest.approx([end, plan, end], **SLACK)


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("rounds", [1, 2, 4])
@pytest.mark.parametrize(("name", "chunks"), [*CASES, ("interleaved", 1)])
def test_bubble_and_activations_are_the_planners(
    name: str, chunks: int, rounds: int, stages: int
) -> None:
    sizes = stages, rounds * stages, chunks
    plan = grader.planned(name, sizes)
    lists = [schedule(name, stage, *sizes) for stage in range(stages)]
    grader.complete(name, sizes, lists)
    overhead = idle(lists, sizes, message=0)
    assert overhead == pytest.approx(float(plan["bubble_overhead"]))
    held = grader.held(lists) / chunks
    assert held == pytest.approx(float(plan["in_flight_microbatches"]))


def idle(
    lists: grader.Lists, sizes: tuple[int, int, int], message: float
) -> float:
    """Over the time of work. ``message`` is in forwards of a whole stage:
    what crosses a boundary is as large however a stage is cut."""
    _, microbatches, chunks = sizes
    work = 3 * microbatches * chunks
    return grader.time("", lists, message * chunks) / work - 1


def test_messages_that_take_time() -> None:
    """When a message takes half a forward's time, four stages with 16
    micro-batches idle 25.0 % under GPipe, 47.9 % under 1F1B, 24.0 % with two
    interleaved chunks, and 65.6 % with the chunks one forward ahead. The last
    two idle alike when messages take no time."""
    found, held = {}, {}
    for name, chunks in CASES[:3]:
        sizes = 4, 16, chunks
        lists = [schedule(name, stage, *sizes) for stage in range(4)]
        found[name] = idle(lists, sizes, message=0.5)
        held[name] = grader.held(lists) / chunks
        if name == "interleaved":
            one_ahead = [
                ours.alternate(
                    [action for action in actions if action.kind == "F"],
                    [action for action in actions if action.kind == "B"],
                    warm_up=(chunks - 1) * 4 + 3 - stage,
                )
                for stage, actions in enumerate(lists)
            ]
            found["one ahead"] = idle(one_ahead, sizes, message=0.5)
            held["one ahead"] = grader.held(one_ahead) / chunks
            at_once = idle(one_ahead, sizes, message=0)
            assert at_once == idle(lists, sizes, message=0)
    rounded = {name: round(idles, 3) for name, idles in found.items()}
    assert rounded == {
        "gpipe": 0.25,
        "1f1b": 0.479,
        "interleaved": 0.24,
        "one ahead": 0.656,
    }
    assert held == {"gpipe": 16, "1f1b": 4, "interleaved": 5.5, "one ahead": 4}


def test_rounds_must_be_full() -> None:
    """Two stages refuse an interleaved schedule of three micro-batches."""
    with pytest.raises(ValueError, match="2 stages, 3 micro-batches"):
        ours.interleaved_schedule(0, 2, 3, 2)
