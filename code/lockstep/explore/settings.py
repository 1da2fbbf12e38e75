"""What a reader may change: a choice of a few, or a number on a slider."""


class Choice:
    """One of a few words.

    Args:
        name: as the address and `draw` have it.
        label: what stands beside it.
        options: each value with the words for it; the first is the default.
    """

    def __init__(self, name: str, label: str, options: list) -> None:
        self.name, self.label = name, label
        self.options = options
        self.default = options[0][0]
        self.values = [value for value, _ in options]

    def said(self, value: object) -> str:
        """The words for a value."""
        return dict(self.options)[value]


class Slider:
    """A number, one of those at which the slider stops; `say` writes it with
    its unit.

    Args:
        values: the stops, ascending.
        default: one of them.
    """

    def __init__(  # type: ignore[no-untyped-def]
        self, name: str, label: str, values: list, default: float, say
    ) -> None:
        self.name, self.label = name, label
        self.values, self.default, self.said = values, default, say


SHARDED = Choice(
    "stage",
    "Sharded",
    [
        (3, "weights too (ZeRO-3, FSDP2)"),
        (2, "optimizer and gradients (ZeRO-2)"),
        (1, "optimizer state (ZeRO-1)"),
        (0, "nothing (DDP)"),
    ],
)


def read(settings: list, text: str) -> dict:
    """Values as an address has them: `stage:3,bandwidth:50`.

    What is missing, unknown or not offered is the default: an old link still
    shows something.
    """
    given = {}
    for part in text.split(","):
        name, _, value = part.partition(":")
        given[name] = value
    found = {}
    for one in settings:
        typed = given.get(one.name, "")
        known = {str(value): value for value in one.values}
        found[one.name] = known.get(typed, one.default)
    return found


def write(settings: list, values: dict) -> str:
    """The reverse of `read`, of what differs from the default."""
    return ",".join(
        f"{one.name}:{values[one.name]}"
        for one in settings
        if values[one.name] != one.default
    )
