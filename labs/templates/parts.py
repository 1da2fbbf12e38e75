#: macro header()
# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
#   colab:
#     provenance: []
# ---
#: endmacro
#: macro text(lines)
#: for line in lines.splitlines()
# {{ line }}
#: endfor
#: endmacro
#: macro needs()
# No GPU is needed: torch and NumPy are all that is imported.
#
# Generated from the tested package of Lockstep. Code: Apache-2.0; text: CC BY
# 4.0. Not affiliated with PyTorch or Google.
#: endmacro
#: macro files(paths, texts={})
from pathlib import Path

FILES = {}
#: for path in paths
FILES["{{ path }}"] = r'''
#: if path in texts
{{ texts[path] }}
#: else
# --8<-- "code/{{ path }}"
#: endif
'''
#: endfor
for name, text in FILES.items():
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text.lstrip("\n"))
#: endmacro
#: macro folded(summary, lines)
# <details><summary>{{ summary }}</summary>
#
{{ text(lines) }}
# </details>
#: endmacro
