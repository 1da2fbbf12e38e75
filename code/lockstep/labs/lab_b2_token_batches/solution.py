"""Lab B2: one solution, which the page quotes."""

from lockstep.labs.lab_b2_token_batches.sound import (
    plan,
    share,
    stream,
    token_loss,
)

__all__ = ["plan", "share", "stream", "token_loss"]
