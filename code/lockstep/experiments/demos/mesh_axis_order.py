"""What leaves its node in a step, by the order of a mesh's axes.

    python -m lockstep.experiments.demos.mesh_axis_order

Llama 3 70B on 64 GPUs in nodes of eight, four ranks to each of three axes; the
bytes that a rank sends along each axis are the planner's.
"""

from itertools import permutations

from lockstep.parallel.topology import Axis, crossing, mesh_order
from lockstep.planner.questions import ask

NODE = 8
RUN = {
    "preset": "llama3-70b",
    "gpus": 64,
    "sequence": 8192,
    "global_batch": 128,
    "tp": 4,
    "pp": 4,
    "zero_stage": 1,
}


# --8<-- [start:sent]
def axes() -> dict[str, Axis]:
    """Ranks and bytes that each of them sends in a step, by axis."""
    plan = ask("run", RUN)
    return {
        "dp": Axis(4, float(plan["data_bytes"])),
        "pp": Axis(4, float(plan["pipeline_bytes"])),
        "tp": Axis(4, float(plan["tensor_bytes"])),
    }


# --8<-- [end:sent]
def by_order() -> dict[tuple[str, ...], float]:
    """Bytes that leave their node in a step, all ranks together, by order of
    the axes, the outermost first; ascending."""
    found = {
        order: crossing(order, axes(), NODE) for order in permutations(axes())
    }
    return dict(sorted(found.items(), key=lambda one: one[1]))


def main() -> None:
    """What a rank sends along each axis, then a line for each order."""
    for name, axis in axes().items():
        print(f"{name}: a rank sends {axis.sent / 1e9:.1f} GB a step")
    print("\norder       leaves a node, TB a step")
    for order, sent in by_order().items():
        print(f"{' '.join(order):12}{sent / 1e12:8.1f}")
    print("best:", " ".join(mesh_order(axes(), NODE)))


if __name__ == "__main__":
    main()
