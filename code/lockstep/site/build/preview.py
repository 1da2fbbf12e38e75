"""The picture that a chat or a feed shows above a link to the site: the home
page's claim, and the samples that no step will see.
"""

from __future__ import annotations

from io import BytesIO

from PIL import Image, ImageDraw, ImageFont

from lockstep.explore import restart, settings

URI = "assets/preview.png"
SIZE = 1200, 630  # the ratio that no service crops: https://ogp.me
MARGIN = 70
INK, PAPER, TRAINED, LOST = "#15202b", "#ffffff", "#2f6db5", "#d9dee3"
CELL, GAP = 38, 6
LINES = (
    (72, "Lockstep"),
    (44, "Training on many GPUs\nfails silently.\nLearn to see it."),
    (30, "A run was killed and resumed.\nIt will never see {} samples."),
)


def png() -> bytes:
    """Return the picture: the words at the left, the epoch at the right."""
    counts = restart.times(settings.read(restart.SETTINGS, ""))
    image = Image.new("RGB", SIZE, PAPER)
    canvas = ImageDraw.Draw(image)
    top = 80.0
    for size, words in LINES:
        text, font = words.format(counts.count(0)), ImageFont.load_default(size)
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
