"""Do DDP and FSDP2 end with the same weights?"""

from pathlib import Path
from tempfile import TemporaryDirectory

import torch.distributed.fsdp  # noqa: F401  here once for all ranks

from lockstep.experiments.demos.trainer_runs import trained
from lockstep.trainer.extensions.options import Options

# --8<-- [start:pairs]
CLIP_NORMS = 1e6, 0.1  # one that never clips, and one that does
STRATEGIES = Options(strategy="ddp"), Options(strategy="fsdp2")


def weights(run_dir: Path, options: Options, clip_norm: float) -> str:
    """What 40 steps on two ranks end with."""
    same = {"max_steps": 40, "clip_norm": clip_norm}
    *_, end = trained(2, run_dir, options, **same)
    return str(end["weights_sha256"][:16])


# --8<-- [end:pairs]
def main() -> None:
    """Both strategies, clipped alike."""
    for clip_norm in CLIP_NORMS:
        for options in STRATEGIES:
            with TemporaryDirectory() as folder:
                digest = weights(Path(folder), options, clip_norm)
            print(f"clipped at {clip_norm:<8g}{options.strategy:6} {digest}")


if __name__ == "__main__":
    main()
