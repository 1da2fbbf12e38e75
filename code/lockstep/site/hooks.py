"""MkDocs hooks: the site sends Mermaid itself and keeps room for diagrams."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from lockstep.site.diagrams import size

_ENTRY = Path("dist/mermaid.esm.min.mjs")
_DIAGRAM = re.compile(
    r'<pre\s+class="mermaid"><code>(?P<source>.*?)\n?</code></pre>', re.S
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Refuse to build without Mermaid, before the last build is removed."""
    if not (_package(config) / _ENTRY).is_file():
        raise PluginError(
            "node_modules has no Mermaid: run `make serve`, or `npm ci`"
        )
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Publish the ES modules of the installed Mermaid with their licence."""
    package = _package(config)
    chunks = sorted(package.glob("dist/chunks/mermaid.esm.min/*.mjs"))
    for path in (package / _ENTRY, *chunks, package / "LICENSE"):
        inside = path.relative_to(package).as_posix().removeprefix("dist/")
        files.append(
            File.generated(
                config, f"assets/mermaid/{inside}", abs_src_path=str(path)
            )
        )
    return files


def on_page_content(html: str, **_: object) -> str:
    """Reserve the height of each diagram, so that drawing it moves no text."""
    return _DIAGRAM.sub(_reserve, html)


def _package(config: MkDocsConfig) -> Path:
    return Path(config.config_file_path).parent / "node_modules" / "mermaid"


def _reserve(match: re.Match[str]) -> str:
    try:
        width, height = size(match["source"])
    except RuntimeError as error:
        raise PluginError(f"a diagram has a syntax error: {error}") from None
    box = f"--width: {width:.0f}px; --ratio: {width:.0f} / {height:.0f}"
    return f'<div class="diagram" style="{box}">{match[0]}</div>'
