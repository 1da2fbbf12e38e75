"""Patterns are literal text with fields, found by few words."""

import pytest

from lockstep.explain import catalog
from lockstep.explain.lines import clock, front, when
from lockstep.explain.patterns import Index, Pattern, PatternError

WORK = "WorkNCCL(SeqNum={seq:int}, OpType={op:word}, Timeout(ms)={ms:int})"


@pytest.mark.parametrize(
    ("pattern", "line", "fields"),
    [
        (WORK, "x WorkNCCL(SeqNum=-7, OpType=BROADCAST, Timeout(ms)=600) y",
         {"seq": "-7", "op": "BROADCAST", "ms": "600"}),
        (WORK, "WorkNCCL(SeqNum=a, OpType=BROADCAST, Timeout(ms)=600)", None),
        (WORK, "WorkNCCL(SeqNum=1, OpType=A B, Timeout(ms)=600)", None),
        ("{who:word} invoked oom-killer", "[1] python invoked oom-killer: x",
         {"who": "python"}),
        ("Error in {{braces}} of {name}", "Error in {braces} of a file ",
         {"name": "a file"}),
        ("failed  in   step {n:int}", "failed in step 12", {"n": "12"}),
        ("from {a} to the {b:word} end", "from x to y to the z end",
         {"a": "x to y", "b": "z"}),
        ("only literal text", "not it", None),
    ],
)  # fmt: skip
def test_a_pattern_matches_anywhere_in_a_line(
    pattern: str, line: str, fields: dict[str, str] | None
) -> None:
    assert Pattern(pattern).match(line) == fields


@pytest.mark.parametrize(
    "text",
    ["short {a}", "{a:float} of many words", "a brace { that is not closed",
     "a brace } that is not opened", "{a}{b} without text between"],
)  # fmt: skip
def test_a_pattern_that_cannot_be_read_is_one_line(text: str) -> None:
    with pytest.raises(PatternError) as error:
        Pattern(text)
    assert "\n" not in str(error.value)


def test_every_message_finds_its_own_example() -> None:
    """The index finds every message of the data in its own example."""
    index = catalog.index()
    for number, entry in enumerate(index.entries):
        found = []
        for line in entry["example"].splitlines():
            line = " ".join(line.split())
            words = [word for word in index.words if word in line]
            found += [n for n, _ in index.match(line, words)]
        assert number in found, entry["id"]


def test_few_words_stand_for_many_patterns() -> None:
    entries = [
        {"id": str(n), "patterns": [f"Watchdog caught the event called {n}"]}
        for n in range(50)
    ]
    index = Index(entries)
    assert index.words == ["Watchdog"]
    line = "Watchdog caught the event called 17"
    assert [n for n, _ in index.match(line, ["Watchdog"])] == [
        17,
        1,
    ]  # the most specific first


@pytest.mark.parametrize(
    ("line", "rank", "node", "text"),
    [
        ("[rank3]: boom", 3, "", "boom"),
        ("[rank3]:   indented", 3, "", "  indented"),
        ("[rank3]:[E1128 03:12:07.1 x.cpp:1] boom", 3, "",
         "[E1128 03:12:07.1 x.cpp:1] boom"),
        ("[default12]:boom", 12, "", "boom"),
        ("[RANK 2] boom", 2, "", "boom"),
        ("[1,5]<stderr>:boom", 5, "", "boom"),
        ("7: boom", 7, "", "boom"),
        (" 7: boom", 7, "", "boom"),
        ("[pod/pretrain-3/pytorch] [rank1]: boom", 1, "pretrain-3", "boom"),
        ("node-17: [rank9]: boom", 9, "node-17", "boom"),
        ("2026-11-28T04:44:20.118223Z [rank1]: boom", 1, "", "boom"),
        ("(Worker pid=41, ip=10.0.1.75) [rank3]: boom", 3, "10.0.1.75", "boom"),
        ("Nov 28 05:11:03 cn-234 kernel: boom", None, "cn-234", "kernel: boom"),
        ("cn-7:3468:3905 [4] NCCL INFO boom", None, "cn-7",
         "cn-7:3468:3905 [4] NCCL INFO boom"),
        ("KeyError: 'a'", None, "", "KeyError: 'a'"),
        ("torch.OutOfMemoryError: CUDA", None, "",
         "torch.OutOfMemoryError: CUDA"),
        ("step-3: loss 2.1", None, "", "step-3: loss 2.1"),
        ("srun: error: n1: task 0: Killed", None, "",
         "srun: error: n1: task 0: Killed"),
    ],
)  # fmt: skip
def test_prefixes_name_rank_and_node(
    line: str, rank: int | None, node: str, text: str
) -> None:
    """Prefixes of torchrun, Slurm, mpirun, Ray, pdsh, syslog and Kubernetes
    name the rank and the node of a line."""
    found = front(line)
    assert (found.rank, found.node, found.text) == (rank, node, text)


@pytest.mark.parametrize(
    ("line", "year", "shown"),
    [
        ("[rank0]:[E1128 03:12:07.5 P.cpp:1] x", 0, "28 Nov 03:12:07"),
        ("[E321 02:07:08.408 P.cpp:1] x", 0, "21 Mar 02:07:08"),
        ("W0124 16:00:17.241000 20671 api.py:897] x", 0, "24 Jan 16:00:17"),
        ("2026-11-28 03:12:07,118 INFO x", 2026, "28 Nov 03:12:07"),
        ("2026-11-28T03:12:07.118Z x", 2026, "28 Nov 03:12:07"),
        ("2026-11-28T03:12:07+02:00 x", 2026, "28 Nov 01:12:07"),
        ("  time      : 2026-11-28_03:12:07", 2026, "28 Nov 03:12:07"),
        ("*** JOB 1 ON n CANCELLED AT 2026-11-28T03:12:07 ***", 2026,
         "28 Nov 03:12:07"),
        ("Nov  8 03:12:07 node kernel: x", 0, "8 Nov 03:12:07"),
        ("[Sun Nov 29 03:12:07 2026] x", 2026, "29 Nov 03:12:07"),
    ],
)  # fmt: skip
def test_times_are_read_in_every_format(
    line: str, year: int, shown: str
) -> None:
    """Dates of Python's and C++'s loggers, Slurm, syslog, `dmesg -T` and
    Kubernetes are read, with their zone."""
    found = when(line)
    assert found is not None
    assert found[0] == year
    assert clock(found[1]) == shown


@pytest.mark.parametrize(
    "line", ["no time", "12:13:46 INFO only a clock", "ratio 1:2:3", "a:bb:cc"]
)
def test_lines_without_a_date_have_no_time(line: str) -> None:
    assert when(line) is None
