"""The API reference: a page for each module that the navigation names there.

All that such a page says is the module's name; mkdocstrings does the rest. It
is written when the site is built, unless docs/ has one that says more.
"""

from __future__ import annotations

from typing import Any

from griffe import Module, ModuleFinder
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files

from lockstep.site.pages import generated, llms

HOME = "reference/api/"


def modules(nav: Any) -> dict[str, str]:
    """Of each page below `HOME` in a navigation, but its index, the module."""
    found = {}
    for _, pages in llms.sections(nav):
        for _, uri in pages:
            if uri.startswith(HOME) and uri != f"{HOME}index.md":
                path = uri.removeprefix(HOME).removesuffix(".md")
                found[uri] = f"lockstep.{path.replace('/', '.')}"
    return found


def publish(files: Files, config: MkDocsConfig) -> None:
    """Add the pages."""
    for uri, module in modules(config.nav).items():
        if files.get_file_from_path(uri) is None:
            files.append(generated.page(config, uri, f"::: {module}\n"))


def read_only(config: MkDocsConfig) -> None:
    """Have mkdocstrings read the modules that have a page, and their packages:
    a quarter of all."""
    wanted: set[tuple[str, ...]] = set()
    for module in modules(config.nav).values():
        parts = tuple(module.split(".")[1:])
        wanted |= {parts[:end] for end in range(1, len(parts) + 1)}
    listed: Any = ModuleFinder.submodules
    original = getattr(listed, "original", listed)

    def submodules(self: ModuleFinder, module: Module) -> list[Any]:
        found = original(self, module)
        return [each for each in found if each[0] in wanted]

    submodules.original = original  # type: ignore[attr-defined]
    ModuleFinder.submodules = submodules  # type: ignore[method-assign]
