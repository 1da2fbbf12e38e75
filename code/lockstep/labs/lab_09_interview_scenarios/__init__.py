"""Lab 09: interview scenarios.

**The strongest answer names fewer frameworks and more bytes.** "I would use
FSDP" is a label; "the optimizer is 12 of 16 bytes a parameter, so I shard that
first" is a decision that somebody can check.

Read a scenario and answer it aloud, then in five lines: the problem, the
mechanism, its communication, the trade-off, the measurement that would prove
you wrong. Add two or three numbers and, where one is asked for, a layout.

The grader computes the numbers and judges the layout by the planner. Nobody
greps your prose: you score it yourself, by a rubric that says what a complete
line names and what is missing most often. Then you see a strong answer.
"""
