"""Where a source prints one figure, and its own formula gives another."""

from typing import NamedTuple

from lockstep.planner.figures import Formula, quantity


class Erratum(NamedTuple):
    """A figure as printed, and the arithmetic that it should come from."""

    source: str
    what: str
    printed: str
    arithmetic: str
    unit: str = ""


# --8<-- [start:errata]
PAPERS = [
    Erratum("Llama 3, 3.3.4", "failed GPUs", "30.1", "148 / 419 * 100", "%"),
    Erratum("GPT-3, table 2.1", "width of 13B", "5140", "40 * 128"),
    Erratum("GPT-3, table 2.1", "heads of XL", "24", "2048 / 128"),
    Erratum(
        "ZeRO, 6.1",
        "checkpoints of 100B",
        "33",
        "125 * 8192 * 1024 * 32 * 2 / 1e9",
        "GB",
    ),
    Erratum(
        "Korthikanti 2022, appendix A",
        "selective recompute, GPT-3",
        "2.7",
        "100 * 2048 / (18 * 12288) / (1 + 2048 / (6 * 12288)"
        " + 51200 / (12 * 96 * 12288))",
        "%",
    ),
    Erratum(
        "Korthikanti 2022, 4.3",
        "embedding and output, 22B",
        "below 0.01",
        "100 * (1 + 4 * (1 + 51200 / 6144)) / 48 / (34 + 5 * 64 * 2048 / 6144)",
        "%",
    ),
    Erratum(
        "ALST 2025, 2.1", "state of 8B", "144", "8e9 * 18 / 1024**3", "GiB"
    ),
]
PAGES = [
    Erratum(
        "scaling-book, applied training",
        "days on 171 chips",
        "1752",
        "44 * 8960 / 171",
        "days",
    ),
    Erratum(
        "scaling-book, applied training",
        "activations, 3 checkpoints a layer",
        "20.9",
        "2 * 8192 * 4e6 * 3 * 80 / 1e12",
        "TB",
    ),
    Erratum(
        "scaling-book, sharding 2",
        "all-reduce over Z",
        "190",
        "2 * (2 * 1024 * 4096 / 16) / 9e10 * 1e6",
        "µs",
    ),
    Erratum("Ultra-Scale Playbook", "140 GB", "133", "140e9 / 1024**3", "GiB"),
    Erratum(
        "EleutherAI cookbook",
        "gradients, Pythia 6.9B, TP 2",
        "25.6",
        "6.9e9 * 4 / 2 / 1024**3",
        "GiB",
    ),
    Erratum(
        "AWS FSDP example, its log",
        "Llama 3.1 8B",
        "7392727040",
        "7392727040 + 2 * 4096 * (128256 - 50432)",
        "parameters",
    ),
]
# --8<-- [end:errata]


def should_be(erratum: Erratum) -> float:
    """What the arithmetic comes to."""
    formula = Formula(erratum.what, erratum.arithmetic, "", erratum.source)
    return float(formula({}))


def main() -> None:
    """What is printed, and what it should be."""
    for one in [*PAPERS, *PAGES]:
        right = quantity(should_be(one), one.unit)
        print(f"{one.source}: {one.what}")
        print(f"  printed {one.printed}, should be {right}")
        print(f"  = {one.arithmetic}")


if __name__ == "__main__":
    main()
