"""The trainer as a script that torchrun runs in forks of itself."""

from lockstep.trainer.__main__ import main
from lockstep.trainer.extensions.launcher import leave

# torchrun waits for what a function of its own returns, so 0 does not leave.
if code := main():
    leave(code)
