#: from "parts.py" import files, folded, header, needs, text
#: set given = bug.starter()
#: set own = "python -m lockstep.grading bug"
{{ header() }}
# %% [markdown]
{{ text(given["COMPLAINT.md"]) }}
#
# Find the bug, prove it, mend it: the two files below are yours. A round takes
# an hour at most.
#
{{ needs() }}
# %% cellView="form" tags=["folded"]
# @title The hidden tests. They name the bug: open them once you have found it
{{ files(grader, texts) }}
# %% [markdown]
# ## The trainer

# %%
# %%writefile trainer.py
{{ given["trainer.py"] }}
# %% [markdown]
# To run it on two processes, as your colleague does, in a cell of your own. They
# cannot share a GPU, so they stay on the CPU:
#
# ```
# !CUDA_VISIBLE_DEVICES= python -m torch.distributed.run --standalone \
#     --nproc-per-node=2 trainer.py
# ```

# %% [markdown]
# ## Your answer

# %%
# %%writefile answer.py
{{ given["answer.py"] | replace("lockstep bug check", own) }}
# %%
# !{{ own }} {{ bug.number }} answer.py

# %% [markdown]
# Each hint that you open costs {{ cost }} points.
#
#: for hint in bug.constant("HINTS")
{{ folded("Hint " ~ loop.index, hint) }}
#
#: endfor
# %% [markdown]
# <details><summary>The story: open it once you have full marks</summary>
#
# A strong answer:
#
# ```python
{{ text(bug.strong()) }}
# ```
#
# The fix:
#
# ```diff
{{ text(bug.fix()) }}
# ```
#
# What else it could have been:
#
{{ text(bug.constant("ELSE").strip()) }}
#
# </details>

# %% [markdown]
# This cell fails, should the strong answer not get full marks:

# %% language="bash"
# set -o pipefail
# python - <<'END'
# from pathlib import Path
# from lockstep.debugging.bugs import bugs
# for name, text in bugs()["{{ bug.number }}"].solution().items():
#     Path("strong").mkdir(exist_ok=True)
#     Path("strong", name).write_text(text)
# END
# {{ own }} {{ bug.number }} strong/answer.py | grep -x '[0-9]* of 100'
