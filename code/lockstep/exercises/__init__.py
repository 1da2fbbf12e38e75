"""What a reader is asked to do, and gets points for: labs, drills, bugs, and
the interview cut typed from memory.

`silent` has the seventeen faulty trainers that the bugs are made of, `grading`
how an answer is judged on ranks that may hang. What a solution is built from
belongs to `parallel`; hard questions and cards belong to `practice`.
"""
