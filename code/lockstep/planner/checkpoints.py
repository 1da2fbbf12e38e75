"""How often to save, and what failures cost all the same.

All times are in one unit, here seconds. Failures are taken to be independent
and equally likely at every moment, restarts included. The module keeps to what
MicroPython runs.
"""

from math import exp, sqrt


# --8<-- [start:young_daly]
def young(save_seconds: float, mtbf_seconds: float) -> float:
    """Work between two saves, to first order: Young 1974."""
    return sqrt(2 * save_seconds * mtbf_seconds)


def daly(save_seconds: float, mtbf_seconds: float) -> float:
    """Work between two saves, to higher order: Daly 2006."""
    if save_seconds >= 2 * mtbf_seconds:
        return mtbf_seconds
    root = sqrt(save_seconds / (2 * mtbf_seconds))
    first = young(save_seconds, mtbf_seconds)
    return first * (1 + root / 3 + root * root / 9) - save_seconds


def slowdown(
    interval: float, save: float, restart: float, mtbf: float
) -> float:
    """Expected run time over the work alone, 1.0 or more, where every
    `interval` of work is saved: Daly's complete cost function."""
    retried = exp((interval + save) / mtbf) - 1
    return mtbf * exp(restart / mtbf) * retried / interval


def young_daly(
    save_seconds: float, restart_seconds: float, mtbf_seconds: float
) -> tuple[float, float]:
    """The seconds of work between two saves, and the expected slowdown.

    ValueError for a time that is not above zero; a restart may take none.
    """
    if min(save_seconds, mtbf_seconds) <= 0 or restart_seconds < 0:
        raise ValueError("times must be above zero")
    interval = daly(save_seconds, mtbf_seconds)
    cost = slowdown(interval, save_seconds, restart_seconds, mtbf_seconds)
    return interval, cost


# --8<-- [end:young_daly]
