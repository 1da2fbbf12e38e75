"""All scenarios, by number: on memory (A), on bytes (B), on time (C)."""

from . import on_bytes, on_memory, on_time

SCENARIOS = {
    one.id: one
    for group in (on_memory, on_bytes, on_time)
    for one in group.SCENARIOS
}
