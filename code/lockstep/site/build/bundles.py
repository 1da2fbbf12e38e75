"""One style sheet and one script for all pages. A phone waits for every file
before it draws, so twenty small files cost more than their bytes.
"""

from __future__ import annotations

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

BUNDLES = {"extra_css": "assets/site.css", "extra_javascript": "assets/site.js"}


def join(files: Files, config: MkDocsConfig) -> None:
    """Replace the site's own style sheets and scripts by one file of each kind,
    in the configuration's order. A file that a plugin adds stays separate.
    """
    for setting, uri in BUNDLES.items():
        paths = [str(path) for path in config[setting]]
        own = [file for path in paths if (file := files.src_uris.get(path))]
        content = "\n".join(file.content_string for file in own)
        for file in own:
            files.remove(file)
            paths.remove(file.src_uri)
        files.append(File.generated(config, uri, content=content))
        config[setting] = [*paths, uri]
