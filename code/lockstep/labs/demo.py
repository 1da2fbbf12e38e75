"""What a lab's page shows of an answer, on the ranks of one launch."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.distributed as dist

from lockstep.grading.criteria import load
from lockstep.trainer.extensions.launcher import run_and_leave


def show(main: Callable[[Any], None]) -> None:
    """Run `main` with the answer whose file the command names, in a group on
    gloo, and leave.

    Nobody destroys the group. A DDP that outlived it would, in its destructor,
    wait for threads that may wait for Python's lock, which it holds.
    """

    def together() -> None:
        if len(sys.argv) != 2:
            sys.exit(f"usage: torchrun ... {sys.argv[0]} FILE")
        dist.init_process_group("gloo")
        main(load(Path(sys.argv[1])))
        dist.barrier()  # a rank that has left would break the others' sockets

    run_and_leave(together)
