"""The interview cut on its own model and data, with `observe` in it."""

import argparse
import os
import sys
from dataclasses import fields
from datetime import timedelta
from typing import Any

from lockstep import interview
from lockstep.exam.observe import observe

build, toy = interview.build, interview.toy


def observed(cfg: interview.TrainConfig) -> Any:
    """What it trains, seen by the exam."""
    model, optimizer = build(cfg)
    observe(model, optimizer)
    return model, optimizer


def main() -> None:
    """Its own command line, after the number of samples and a timeout."""
    samples, seconds, *rest = sys.argv[1:]
    interview.build = observed
    interview.toy = lambda: toy(int(samples), held_out=8)
    parser = argparse.ArgumentParser()
    for f in fields(interview.TrainConfig):
        flag = "--" + f.name.replace("_", "-")
        parser.add_argument(flag, type=f.type, default=f.default)  # type: ignore[arg-type]
    cfg = interview.TrainConfig(**vars(parser.parse_args(rest)))
    timeout = timedelta(seconds=float(seconds))
    interview.train(cfg, *interview.join(timeout=timeout))
    os._exit(0)  # a thread of gloo may abort an interpreter that finalizes


if __name__ == "__main__":
    main()
