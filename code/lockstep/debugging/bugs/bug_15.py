"""Bug 15: rank 0's backward pass is slow, and nothing is wrong with it."""

COMPLAINT = """
When the second node had a slow disk, rank 0's log blamed `backward`, and alone
on a machine that is fast. Rank 1's phases were all short, yet its steps took as
long as rank 0's. When I sum up a rank's phases, today as well, I do not get to
the time that has passed between two lines of its log.
"""
LOG = r"""
$ train 2 --run-dir a --max-steps 40 --checkpoint-every-steps 1 > last
$ sed 's/\(\.[0-9]\{3\}\)[0-9]*/\1/g; s/"h2d".*"fo/"fo/' a/events/*0.jsonl > s
$ grep '"phases"' s | grep -o '"time": [0-9.]*\|"phases".*}' | tail -n 4
"time": 1795328600.004
"phases": {"forward": 0.005, "backward": 0.003, "optimizer": 0.001}, "rank": 0
"time": 1795328600.032
"phases": {"forward": 0.001, "backward": 0.007, "optimizer": 0.001}, "rank": 0
"""
HINTS = [
    "Where do ranks meet in a step? Which phase is that in?",
    "A rank that waits is a victim. What does the other one do meanwhile?",
    "Walk through a step and a save, and name what no timer runs in.",
]
ELSE = """
A slow network, a slow node, Python's garbage collector. Once every part of a
step has its own phase, the rank and the phase that cause the wait can be read.
"""
OTHER = "11"
PLANTED = {
    "15": [
        (
            '        with r.log.phase("load"): own, x, y = next(source)\n',
            "        own, x, y = next(source)\n",
        ),
        (
            """\
            # world size. The last pass waits for the all-reduce as well.
            with r.log.phase("sync" if last else "backward"):
""",
            """\
            # world size.
            with r.log.phase("backward"):
""",
        ),
        (
            'with log.phase("checkpoint"): save(r, {**state, **about})',
            "save(r, {**state, **about})",
        ),
    ]
}
