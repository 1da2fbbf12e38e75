"""A chapter is a folder: its `index.md` is the core, and the `in-depth*.md`
next to it hold the depth. A core without them can share an earlier core's: its
front matter names the page as `depth`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any

_DEPTH = re.compile(r"(?P<folder>.+)/in-depth[\w-]*\.md")


def depth_of(uri: str, meta: Mapping[str, Any]) -> str:
    """Return the place of the depth behind a core; nothing for other pages.

    Args:
        uri: The page's place below `docs`.
        meta: The page's front matter. Its `depth` is relative to the page.
    """
    folder, name = posixpath.split(uri)
    if name != "index.md":
        return ""
    depth = posixpath.join(folder, meta.get("depth", "in-depth.md"))
    return posixpath.normpath(depth)


def core_of(uri: str) -> str:
    """Return the place of the core before a depth; nothing for other pages."""
    found = _DEPTH.fullmatch(uri)
    return f"{found['folder']}/index.md" if found else ""
