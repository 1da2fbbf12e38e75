"""What is practiced without a machine: hard questions, cards, estimates, and
the rubric of a mock interview.

All of it is data that pages show and a browser asks. What is solved in code and
graded belongs to `labs`, `drills` and `debugging`.
"""
