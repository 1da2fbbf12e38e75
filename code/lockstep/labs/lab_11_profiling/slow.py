"""Lab 11: the four slow trainers, where answers have imported them from."""

from lockstep.instruments.slow_trainers import *  # noqa: F403
