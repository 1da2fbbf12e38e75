"""A TorchX component: one description of the job for every scheduler it knows.

torchx run --scheduler local_cwd code/launch/torchx_component.py:trainer \
    --j 1x2 -- --run-dir runs/demo
"""

from torchx import specs
from torchx.components import dist


def trainer(
    *settings: str, j: str = "2x2", image: str = "lockstep"
) -> specs.AppDef:
    """Launch the trainer on several hosts, each with a torchrun.

    Args:
        settings: what the trainer's command line takes
        j: hosts × ranks on each
        image: what `Containerfile` built; `local_cwd` needs none
    """
    return dist.ddp(*settings, m="lockstep.trainer", j=j, image=image)
