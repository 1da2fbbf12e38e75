"""A chapter is a folder: its `index.md` is the core, and the `in-depth*.md`
next to it hold the depth.
"""

from __future__ import annotations

import posixpath
import re

_DEPTH = re.compile(r"(?P<folder>.+)/in-depth[\w-]*\.md")


def depth_of(uri: str) -> str:
    """Return the place of the depth behind a core; nothing for other pages."""
    folder, name = posixpath.split(uri)
    return f"{folder}/in-depth.md" if name == "index.md" else ""


def core_of(uri: str) -> str:
    """Return the place of the core before a depth; nothing for other pages."""
    found = _DEPTH.fullmatch(uri)
    return f"{found['folder']}/index.md" if found else ""
