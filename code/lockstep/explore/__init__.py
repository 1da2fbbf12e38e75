"""Explorables: pictures that answer when the reader changes a number.

An explorable is a module with a TITLE, the SETTINGS that a reader may change,
a few set SCENES that the text of a page leads to, and a function `draw` from
settings to a `Scene`. The site's build draws its default, so that it can be
seen without JavaScript, on paper and by a screen reader; in a browser
MicroPython runs the same files. So they import nothing but the planner, and
use no part of Python that MicroPython lacks (`tests/explore` runs both).

Two modules serve other pages as well: `svg` draws the site's charts, and
`planner_page` writes the planner's forms and answers.
"""

NAMES = (
    "buckets",
    "causal_mask",
    "checkpoint",
    "data_path",
    "formats",
    "layouts",
    "launches",
    "loader",
    "loss_scale",
    "memory_step",
    "pipeline",
    "restart",
    "ring",
    "router",
    "second_launch",
    "sharded_step",
    "stragglers",
)
