"""The reference trainer: a core shown whole, and rooms that attach to it."""
