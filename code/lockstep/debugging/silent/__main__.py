"""`python -m lockstep.debugging.silent N`: run the faulty copy of number N."""

import argparse
import os
from importlib import import_module, resources


def main(args: list[str] | None = None) -> None:
    """Print what defect N looks like from outside; exit code 2 for no N."""
    paths = resources.files(__package__).iterdir()
    copies = {
        int(path.name[1:3]): path.name.removesuffix(".py")
        for path in paths
        if path.name[1:3].isdigit()
    }
    parser = argparse.ArgumentParser(prog="lockstep.debugging.silent")
    parser.add_argument("n", type=int, choices=sorted(copies), metavar="N")
    # The copies are small, and ranks are forked: no pool of threads to copy.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import_module(
        f"{__package__}.{copies[parser.parse_args(args).n]}"
    ).demonstrate()


if __name__ == "__main__":
    main()
