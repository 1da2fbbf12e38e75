"""How known trainers resume: each examined the way its documentation says.

A folder for each peer holds its training script, the exam's adapter, its pinned
packages, what we say of it (`notes.yml`) and what the exam found
(`result.json`). `mended.py` is an adapter too: of the smallest change, on the
side of whoever uses the library, that passes more. Adapters and scripts share
`launching`; mended scripts share `repairs`.
"""
