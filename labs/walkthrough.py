# ---
# # What is included uses the imports, and ruff does not see it.
# # ruff: noqa: F401, I001
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
#   colab:
#     provenance: []
# ---

# %% [markdown]
# # The interview cut: train it, kill it, prove it
#
# **A job that died in the middle can end with the weights of one that did
# not, bit for bit.** Eight cells write a distributed trainer. Then two
# processes train, both are killed, the same command goes on, and an audit
# proves that each sample was trained on once in each epoch.
#
# Choose *Run all*. There is nothing to install and no GPU is needed: torch and
# NumPy are all that the trainer imports. To rehearse, empty the eight cells,
# type them again, and run what comes after.
#
# Generated from the tested package of Lockstep. Code: Apache-2.0; text: CC BY
# 4.0. Not affiliated with PyTorch or Google.

# %% [markdown]
# ## 1. Config
#
# `%%writefile` collects the cells in one file, because torchrun launches a file
# and not a notebook.
#
# **Say it:**
# --8<-- "labs/say.md:config"

# %%
# %%writefile interview.py
# --8<-- "code/lockstep/interview.py:config"

# %% [markdown]
# ## 2. Data and sampler
#
# **Say it:**
# --8<-- "labs/say.md:data"

# %%
# %%writefile -a interview.py

# --8<-- "code/lockstep/interview.py:data"

# %% [markdown]
# ## 3. Model and optimizer
#
# **Say it:**
# --8<-- "labs/say.md:model"

# %%
# %%writefile -a interview.py

# --8<-- "code/lockstep/interview.py:model"

# %% [markdown]
# ## 4. Ranks
#
# **Say it:**
# --8<-- "labs/say.md:ranks"

# %%
# %%writefile -a interview.py

# --8<-- "code/lockstep/interview.py:ranks"

# %% [markdown]
# ## 5. One optimizer step
#
# **Say it:**
# --8<-- "labs/say.md:step"

# %%
# %%writefile -a interview.py

# --8<-- "code/lockstep/interview.py:step"

# %% [markdown]
# ## 6. Checkpoint
#
# **Say it:**
# --8<-- "labs/say.md:checkpoint"

# %%
# %%writefile -a interview.py

# --8<-- "code/lockstep/interview.py:checkpoint"

# %% [markdown]
# ## 7. Metrics
#
# **Say it:**
# --8<-- "labs/say.md:metrics"

# %%
# %%writefile -a interview.py

# --8<-- "code/lockstep/interview.py:metrics"

# %% [markdown]
# ## 8. Launch and resume
#
# **Say it:**
# --8<-- "labs/say.md:launch"

# %%
# %%writefile -a interview.py

# --8<-- "code/lockstep/interview.py:launch"

# %% [markdown]
# ## Train in one piece
#
# On a runtime with one GPU, rank 1 would ask for a second one. So both ranks
# are kept on the CPU. `torchrun` is called by its module's name, so that the
# ranks run in this notebook's own Python.

# %%
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

os.environ |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
torchrun = f"{sys.executable} -m torch.distributed.run"
torchrun += " --standalone --nproc-per-node=2"
trainer = "interview.py --max-steps 1000 --checkpoint-every-steps 100"
# !{torchrun} {trainer} --run-dir whole

# %% [markdown]
# ## Kill it
#
# The same training begins in another directory. Once it has published a
# checkpoint, `SIGKILL` ends torchrun and both ranks: torchrun alone would leave
# the ranks training.

# %%
job = subprocess.Popen(f"{torchrun} {trainer} --run-dir killed".split())
limit = time.monotonic() + 120
while not list(Path("killed/checkpoints").glob("step-*")):
    assert job.poll() is None, "it ended without a checkpoint"
    assert time.monotonic() < limit, "no checkpoint came in two minutes"
    time.sleep(0.01)
# !kill -9 {job.pid} $(pgrep -P {job.pid})
assert job.wait() == -9
sorted(path.name for path in Path("killed/checkpoints").iterdir())

# %% [markdown]
# ## Launch it again

# %%
# !{torchrun} {trainer} --run-dir killed

# %% [markdown]
# ## Prove it
#
# The audit computes the order of samples and the learning rate for itself, and
# takes all else from what every rank wrote down.

# %% cellView="form" jupyter={"source_hidden": true}
# %%writefile audit.py
# @title The audit: what the record of a run proves
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from math import cos, isqrt, pi
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from interview import TrainConfig

# --8<-- "code/lockstep/trainer/order.py:keyed"
# --8<-- "code/lockstep/trainer/step.py:learning_rate"
# --8<-- "code/lockstep/trainer/extensions/events.py:read_events"
# --8<-- "code/lockstep/trainer/extensions/sample_record.py:format"
# --8<-- "code/lockstep/trainer/extensions/sample_record.py:read_samples"
# --8<-- "code/lockstep/trainer/extensions/audit.py:audit"

# %%
from audit import audit, read_events

report = audit(Path("killed"))
assert report.proven, report.findings
assert report.finished
assert report.restarts == 1
report


# %% [markdown]
# The killed run must have gone on from a checkpoint, and must end as the one in
# one piece did: with the same loss and the same SHA-256 of all weights.


# %%
def last_events(run, attempt):
    path = Path(run, f"events/attempt-{attempt}-rank-0.jsonl")
    return {event["event"]: event for event in read_events(path)}


whole, again = last_events("whole", 0), last_events("killed", 1)
assert again["checkpoint_restored"]["step"] >= 100
for name in "step", "loss", "accuracy", "weights_sha256":
    assert again["run_finished"][name] == whole["run_finished"][name]
again["run_finished"]

# %% [markdown]
# ## Where the time goes
#
# Rank 1's log has the seconds of each phase. Say what you see: which phase
# bounds the step, and what you would do first.

# %%
phases = Counter()
for event in read_events(Path("whole/events/attempt-0-rank-1.jsonl")):
    phases.update(event.get("phases", {}))
for phase, seconds in phases.most_common():
    print(f"{phase:<12}{seconds / phases.total():>6.1%}")
