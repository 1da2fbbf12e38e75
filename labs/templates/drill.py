#: from "parts.py" import files, folded, header, needs, text
#: set own = "drill_" ~ drill.number ~ drill.solution.suffix
{{ header() }}
# %% [markdown]
# # Drill {{ drill.number }}: {{ drill.title }}
#
{{ text(drill.told("task")) }}
#
# You have {{ drill.minutes }} minutes. Write into the first cell below; run it
# and the one after it as often as you like. *Run all* grades what the drill
# starts with, and then a solution.
#
{{ needs() }}
# %% [markdown]
{{ folded("Open at half-time: one requirement changes", drill.told("change")) }}
#
{{ folded("Late?", drill.told("late")) }}
# %% cellView="form" tags=["folded"]
# @title The grader, and what it needs
{{ files(grader) }}
# %% [markdown]
# ## Your answer

# %%
# %%writefile {{ own }}
# --8<-- "{{ start }}"

# %% [markdown]
# What changes at half-time counts from the beginning here.

# %%
# !python -m lockstep.grading drill {{ drill.number }} {{ own }}

# %% [markdown]
# ## The questions that follow
#
#: for question, answer in drill.questions
{{ folded(question, answer) }}
#
#: endfor
# %% [markdown]
# ## A solution

# %% cellView="form" tags=["folded"]
# %%writefile solution{{ drill.solution.suffix }}
# --8<-- "{{ solution }}"

# %% [markdown]
# This cell fails, should the solution not get full marks:

# %% language="bash"
# python -m lockstep.grading drill {{ drill.number }} \
#     solution{{ drill.solution.suffix }}
