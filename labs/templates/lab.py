#: from "parts.py" import files, header, needs, text
{{ header() }}
# %% [markdown]
# # Lab {{ lab.number.upper() }}: {{ lab.title }}
#
{{ text(lab.introduction) }}
#
# *Run all* grades the starter as it is: nothing is attempted yet. Then it shows
# a solution, and the marks that it gets. Fill in the starter; run its cell and
# the one below it as often as you like.
#
{{ needs() }}
# %% cellView="form" tags=["folded"]
# @title The grader, and what it needs
{{ files(grader) }}
# %% cellView="form" tags=["folded"]
# @title What the solution is made of; open it once you have yours
{{ files(parts) }}
#: for file in given
# %% [markdown]
# ## What you are given

# %%
# %%writefile {{ file }}
# --8<-- "code/{{ file }}"

#: endfor
# %% [markdown]
# ## Your answer

# %%
# %%writefile {{ lab.name }}.py
{{ starter }}
# %% [markdown]
# A criterion that you fail says what is wrong. One mistake costs one criterion,
# since each sees your functions beside sound ones.

# %%
# !python -m lockstep.grading lab {{ lab.number }} {{ lab.name }}.py

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
# python -m lockstep.grading lab {{ lab.number }} solution.py
