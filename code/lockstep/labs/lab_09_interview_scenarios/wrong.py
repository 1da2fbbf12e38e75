"""Lab 09's wrong answers: the strong answers, of which one is changed."""

from lockstep.grading.mutants import Mutant

SOURCE = "lockstep.labs.lab_09_interview_scenarios.solution"


def changed(
    name: str,
    fails: set[str],
    scenario: str,
    fields: str,
    first: str = "",
    seconds: float | None = None,
) -> Mutant:
    """Return the answers, of which the scenario's `one` has these `fields`."""
    added = f"""
from dataclasses import replace

{first}one = ANSWERS["{scenario}"]
ANSWERS["{scenario}"] = replace(one, {fields})
"""
    return Mutant(name, (("", added),), fails, seconds)


MUTANTS = (
    # The layout brings the memory that it lacks.
    changed("buys_memory", {"legal layouts"}, "A2",
            'layout={"dp": 8, "memory": 640e9}'),
    changed("ddp_for_all", {"layouts fit"}, "B2", 'layout={"dp": 256}'),
    changed("dies", {"numbers on memory"}, "A5",
            "numbers=Aborts(one.numbers)", """\
import os


class Aborts(dict[str, float]):
    def get(self, *_: object) -> None:
        os.abort()


"""),
    # A starved GPU gets seven colleagues.
    changed("eight_for_one", {"legal layouts"}, "C4",
            'layout={"dp": 8, "micro_batch": 8}'),
    changed("experts_everywhere", {"layouts in time"}, "B5",
            'layout=one.layout | {"ep": 64}'),
    # FSDP gathers once for each micro-batch.
    changed("gathers_once", {"numbers on bytes"}, "B3",
            'numbers=one.numbers | {"full_gb": one.numbers["full_gb"] / 16}'),
    changed("gib_for_gb", {"numbers on memory"}, "A7",
            "numbers={n: x * 1e9 / 2**30 for n, x in one.numbers.items()}"),
    changed("idle_over_work", {"numbers on time"}, "C1",
            'numbers=one.numbers | {"of_total": 7 / 16}'),
    changed("more_ranks_than_sequences", {"legal layouts"}, "C5",
            'layout={"dp": 1024, "zero_stage": 3}'),
    changed("no_measurement", {"five parts"}, "B1", 'measurement=" "'),
    # A job on 4,096 GPUs fails far more often than one GPU.
    changed("one_gpus_failures", {"numbers on time"}, "C7",
            'numbers=one.numbers | {"mtbf_h": 50000}'),
    changed("one_mark_for_all", {"own score"}, "A3", 'score={"problem": 2}'),
    # Recomputes before anything is split.
    changed("recomputes_first", {"layouts in time"}, "A6",
            'layout={"dp": 8, "tp": 8, "zero_stage": 1, "recompute": "full"}'),
    changed("searches_for_ever", {"numbers on time"}, "C7",
            "numbers=Searches(one.numbers)", """\
from itertools import count


class Searches(dict[str, float]):
    def get(self, *_: object) -> int:
        return next(each for each in count() if each < 0)


""", seconds=10),
    # The state fits under ZeRO-1.
    changed("stage_by_state", {"layouts fit"}, "A2",
            'layout={"dp": 8, "zero_stage": 1}'),
    # Leaves out the activations.
    changed("state_is_all", {"numbers on memory"}, "A1",
            'numbers=one.numbers | {"whole_gb": 22.6}'),
    # Bytes over bandwidth, as if hops were free.
    changed("time_is_bytes", {"numbers on bytes"}, "B6",
            'numbers={"apart_ms": 0.105, "fused_ms": 0.105, "tree_us": 105}'),
    changed("two_bytes_of_adam", {"numbers on memory"}, "A4",
            'numbers=one.numbers | '
            '{"optimizer_gb": one.numbers["optimizer_gb"] / 3}'),
)
