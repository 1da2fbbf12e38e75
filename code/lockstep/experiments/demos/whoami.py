"""What torchrun told this process: one line for each rank."""

import os
import sys

# --8<-- [start:names]
NAMES = (
    "RANK",
    "LOCAL_RANK",
    "GROUP_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
)


# --8<-- [end:names]
def main() -> None:
    """In one write: torchrun's Python does not buffer, and `print` writes the
    end of a line by itself, when another rank's line may have come between."""
    told = [f"{name}={os.environ[name]}" for name in NAMES]
    sys.stdout.write(" ".join(told) + "\n")


if __name__ == "__main__":
    main()
