"""Compare the range and precision of three number formats.

python -m lockstep.experiments.demos.number_formats
"""

import torch

FORMATS = [torch.float32, torch.bfloat16, torch.float16]


# --8<-- [start:held]
def held(value: float, dtype: torch.dtype) -> float:
    """A number, once it has been stored in a format."""
    return torch.tensor(value, dtype=dtype).item()


# --8<-- [end:held]
def main() -> None:
    """A small gradient, it scaled, a large activation, a small update."""
    scale = 65536.0  # what torch's GradScaler begins with
    print("            1e-08  1e-08 × 65536   70000  1 + 0.001")
    for dtype in FORMATS:
        name = str(dtype).removeprefix("torch.")
        small, scaled = held(1e-8, dtype), held(1e-8 * scale, dtype)
        large, update = held(7e4, dtype), held(1.001, dtype)
        print(f"{name:8}{small:9.2g}{scaled:15.2g}{large:8.5g}{update:11.4f}")


if __name__ == "__main__":
    main()
