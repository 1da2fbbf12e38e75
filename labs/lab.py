# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
#   colab:
#     provenance: []
# ---
#: macro files(paths)
from pathlib import Path

FILES = {}
#: for path in paths
FILES["{{ path }}"] = r'''
# --8<-- "code/{{ path }}"
'''
#: endfor
for name, text in FILES.items():
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text.lstrip("\n"))
#: endmacro

# %% [markdown]
# # Lab {{ lab.number }}: {{ lab.title }}
#
#: for line in lab.introduction.splitlines()
# {{ line }}
#: endfor
#
# *Run all* grades the starter as it is: nothing is attempted yet. Then it shows
# a solution, and the marks that it gets. Fill in the starter; run its cell and
# the one below it as often as you like. No GPU is needed: torch and NumPy are
# all that is imported.
#
# Generated from the tested package of Lockstep. Code: Apache-2.0; text: CC BY
# 4.0. Not affiliated with PyTorch or Google.

# %% cellView="form" tags=["folded"]
# @title The grader, and what it needs
{{ files(grader) }}
# %% cellView="form" tags=["folded"]
# @title What the solution is made of; open it once you have yours
{{ files(parts) }}
# %% [markdown]
# ## Your answer

# %%
# %%writefile {{ lab.name }}.py
# --8<-- "code/lockstep/labs/{{ lab.name }}/starter.py"

# %% [markdown]
# A criterion that you fail says what is wrong. One mistake costs one criterion,
# since each sees your functions beside sound ones.

# %%
# !python -m lockstep.grading {{ lab.number }} {{ lab.name }}.py

# %% [markdown]
# ## A solution

# %% cellView="form" tags=["folded"]
# %%writefile solution.py
# --8<-- "code/lockstep/labs/{{ lab.name }}/solution.py"

#: if lab.file("demo").exists()
# %% [markdown]
# Two processes, started by torchrun, run it:

# %% language="bash"
# export OMP_NUM_THREADS=1  # or torchrun says that it sets it
# python -m torch.distributed.run --standalone --nproc-per-node=2 \
#     -m lockstep.labs.{{ lab.name }}.demo solution.py

#: endif
#: if lab.file("__main__").exists()
# %% [markdown]
# A scenario's own answer, beside its rubric and the strong one:

# %%
# !python -m lockstep.labs.{{ lab.name }} B3 solution.py

#: endif
# %% [markdown]
# This cell fails, should the solution not get full marks:

# %% language="bash"
# python -m lockstep.grading {{ lab.number }} solution.py
