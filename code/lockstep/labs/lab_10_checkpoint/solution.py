"""Lab 10: one solution, which the handbook quotes."""

from lockstep.parallel.resume import (
    Loader,
    load,
    newest,
    prune,
    publish,
    share,
)

__all__ = ["Loader", "load", "newest", "prune", "publish", "share"]
