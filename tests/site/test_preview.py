"""The picture and the words that a chat or a feed shows for a link."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from bs4 import BeautifulSoup
from PIL import Image

from lockstep.explore import restart, settings
from lockstep.site.build import preview

from .conftest import Site


def test_preview_shows_each_sample_of_the_epoch() -> None:
    home = Path("docs/index.md").read_text("utf-8")
    image = Image.open(BytesIO(preview.png(home))).convert("RGB")
    assert image.size == preview.SIZE
    lost = image.getcolors()
    assert lost
    pixels = {color: number for number, color in lost}
    counts = restart.times(settings.read(restart.SETTINGS, ""))
    blue = tuple(bytes.fromhex(preview.TRAINED[1:]))
    cells = pixels[blue] / (preview.CELL + 1) ** 2
    assert round(cells) == sum(count > 0 for count in counts)


def test_preview_shows_the_home_page_s_claim() -> None:
    """A different heading makes a different picture, and each sentence of it
    begins a line.
    """
    home = Path("docs/index.md").read_text("utf-8")
    lines = preview.claim(home)
    assert f"# {' '.join(lines)}" in home.splitlines()
    assert len(lines) == 3
    assert preview.claim("# One two. Three.") == ["One two.", "Three."]
    assert preview.png("# One two. Three.") != preview.png(home)


def test_every_page_names_the_preview(site: Site) -> None:
    """A page's own title, and one picture that the site has."""
    picture = site.folder / preview.URI
    assert Image.open(picture).size == preview.SIZE
    titles = set()
    for name in ("", "concepts/sharding/", "practice/questions/"):
        html = (site.folder / name / "index.html").read_text("utf-8")
        head = BeautifulSoup(html, "html.parser").head
        assert head
        said = {
            str(one["property"]): str(one["content"])
            for one in head.select("meta[property^=og]")
        }
        assert said["og:image"].endswith("/" + preview.URI)
        assert said["og:url"].endswith(f"/{name}")
        titles.add(said["og:title"])
    assert len(titles) == 3
