"""One style sheet and one script for all pages."""

from __future__ import annotations

from mkdocs.config import load_config
from mkdocs.structure.files import get_files

from lockstep.site.build import bundles

from .conftest import ROOT


def test_a_page_waits_for_one_style_sheet_and_one_script() -> None:
    """The one file holds all that the configuration lists, in its order, and
    the parts are not published; what a plugin adds stays separate.
    """
    config = load_config(str(ROOT / "mkdocs.yml"))
    files = get_files(config)
    listed = {name: [str(x) for x in config[name]] for name in bundles.BUNDLES}
    config.plugins._current_plugin = "a hook"  # as while a hook runs
    config["extra_css"].insert(0, "assets/_plugin.css")
    bundles.join(files, config)
    assert config["extra_css"] == ["assets/_plugin.css", "assets/site.css"]
    assert config["extra_javascript"] == ["assets/site.js"]
    for name, uri in bundles.BUNDLES.items():
        rest = files.src_uris[uri].content_string
        assert len(listed[name]) == 10
        for part in listed[name]:
            text = (ROOT / "docs" / part).read_text("utf-8")
            before, found, rest = rest.partition(text)
            assert found, part
            assert not before.strip(), part
            assert part not in files.src_uris
        assert not rest.strip()
