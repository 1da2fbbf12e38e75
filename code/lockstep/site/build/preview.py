"""The picture that a chat or a feed shows above a link to the site: the home
page's claim, and the samples that no step will see.
"""

from __future__ import annotations

import re
import textwrap
from io import BytesIO

from PIL import Image, ImageDraw, ImageFont

from lockstep.explore import restart, settings

URI = "assets/preview.png"
SIZE = 1200, 630  # the ratio that no service crops: https://ogp.me
MARGIN = 70
INK, PAPER, TRAINED, LOST = "#15202b", "#ffffff", "#2f6db5", "#d9dee3"
CELL, GAP = 38, 6
COLUMNS = 22  # of the claim, at the left of the samples


def claim(home: str) -> list[str]:
    """Return the home page's heading in lines; each sentence begins a line."""
    heading = next(line for line in home.splitlines() if line.startswith("# "))
    sentences = re.split(r"(?<=[.?!]) ", heading.removeprefix("# "))
    return [line for one in sentences for line in textwrap.wrap(one, COLUMNS)]


def png(home: str) -> bytes:
    """Return the picture: the words at the left, the epoch at the right.

    Args:
        home: The home page's Markdown.
    """
    counts = restart.times(settings.read(restart.SETTINGS, ""))
    lost = f"It will never see {counts.count(0)} samples."
    words = (
        (72, "Lockstep"),
        (44, "\n".join(claim(home))),
        (30, f"A run was killed and resumed.\n{lost}"),
    )
    image = Image.new("RGB", SIZE, PAPER)
    canvas = ImageDraw.Draw(image)
    top = 80.0
    for size, text in words:
        font = ImageFont.load_default(size)
        canvas.text((MARGIN, top), text, INK, font, spacing=size // 3)
        bottom = canvas.textbbox((0, top), text, font, spacing=size // 3)[3]
        top = bottom + 50
    pitch = CELL + GAP
    left = SIZE[0] - MARGIN - restart.STEP * pitch + GAP
    above = (SIZE[1] - restart.STEPS * pitch + GAP) // 2
    for at, count in enumerate(counts):
        x = left + at % restart.STEP * pitch
        y = above + at // restart.STEP * pitch
        color = TRAINED if count else LOST
        canvas.rectangle((x, y, x + CELL, y + CELL), color)
        if not count:
            canvas.line((x, y, x + CELL, y + CELL), INK, 2)
            canvas.line((x, y + CELL, x + CELL, y), INK, 2)
    out = BytesIO()
    image.quantize(32).save(out, "PNG", optimize=True)
    return out.getvalue()
