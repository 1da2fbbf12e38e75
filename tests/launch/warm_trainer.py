"""The trainer, with all that its first step would import imported before.

A short time-out then ends a rank that hangs, and none that is only slow.
"""

import sklearn.datasets  # noqa: F401
import torch._dynamo  # noqa: F401

from lockstep.trainer.__main__ import main
from lockstep.trainer.extensions.launcher import leave

leave(main())
