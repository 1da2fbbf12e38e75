"""Bug 16: the loss in the log depends on the number of ranks."""

COMPLAINT = """
The same run, without dropout, on one process and on two: the weights agree to
rounding, and the loss in the log differs in the second digit. When the second
node was sick last week nothing in the log showed it. I would have expected its
own file to tell, but there is nothing in it.
"""
LOG = r"""
$ train 1 --run-dir a --micro-batch-size 64 --dropout 0 --max-steps 10 > one
$ train 2 --run-dir b --micro-batch-size 32 --dropout 0 --max-steps 10 > two
$ grep -o '"loss": [0-9.]\{6\}' one two
one:"loss": 1.4302
two:"loss": 1.4680
$ wc -l b/events/*
   4 b/events/attempt-0-rank-0.jsonl
   0 b/events/attempt-0-rank-1.jsonl
   4 total
"""
HINTS = [
    "Of which samples is the loss that is logged?",
    "How long is each rank's file of events?",
    "There are two places: what is logged, and who logs.",
]
ELSE = """
Dropout, another order of additions, other samples. Equal weights at the end
rule them out: only what is said differs.
"""
OTHER = "17"
PLANTED = {
    "16": [
        ("# 7. Metrics: every rank logs.\n", "# 7. Metrics.\n"),
        (
            """\
        self.events.write(json.dumps(record) + "\\n")
""",
            """\
        if self.who["rank"] == 0:
            self.events.write(json.dumps(record) + "\\n")
""",
        ),
        (
            """\
            dist.all_reduce(total)
            loss = total.item() / batch
""",
            """\
            loss = total.item() / len(ids)
""",
        ),
    ]
}
