"""What the specimen page shows."""

from __future__ import annotations

from dataclasses import dataclass

from .site.pages.snippets import Include

_STEP = 2


# --8<-- [start:shape]
@dataclass(frozen=True)
class Shape:
    """A world size and a micro-batch."""

    world: int
    micro: int

    # --8<-- [start:batch]
    def batch(self) -> int:
        """Samples in a step."""
        return self.world * self.micro

    # --8<-- [end:batch]


# --8<-- [end:shape]


def demo() -> None:
    """Print what the page shows as printed."""
    # --8<-- [start:demo]
    shape = Shape(world=_STEP, micro=4)
    print(f"a step takes {shape.batch()} samples")
    # --8<-- [end:demo]


def quoted() -> str:
    """Name an include."""
    include = Include("code/lockstep/specimen.py", "demo")
    # --8<-- [start:inside]
    if include.section is None:
        return include.path
    return f"{include.path}:{include.section}"
    # --8<-- [end:inside]
