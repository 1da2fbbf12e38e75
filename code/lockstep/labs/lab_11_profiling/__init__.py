"""Lab 11: four slow trainers, and the phase that is to blame.

**Three of these four trainers wait in the all-reduce, and it is slow in one.**
A rank that is late with its own work makes the others wait in the next
collective, so the phase that takes the time need not be the phase that wastes
it.

All four run the same code with other settings, so reading it does not tell.
Write a timer whose phases add up to the step, and read a trace for the
communication that no computation hides. Then name phase and rank, and fix it.

The grader moves the timer's clock by hand, counts calls, multiplications and
CPU time, and lets the store answer late. Weights and checkpoints have to be
those of the slow trainers.
"""
