"""An explorable in a page: its form, its drawing, its numbers, in words.

The site's build writes the default with `figure`; in the reader's browser
`live` answers each change.
"""

import json

from lockstep.planner.figures import PlanError

from . import NAMES
from .drawing import svg
from .settings import Choice, read, write
from .svg import escaped

NARROW, WIDE = 330, 660  # of a phone and of a desk, in CSS pixels


def module(name: str):  # type: ignore[no-untyped-def]
    """The explorable of that name. PlanError if there is none."""
    name = name.replace("-", "_")
    if name not in NAMES:
        raise PlanError(
            f"there is no explorable {name}; there is {', '.join(NAMES)}"
        )
    return getattr(__import__(f"lockstep.explore.{name}").explore, name)


def figure(name: str, folded: bool = False) -> str:
    """Return the default drawing with its form, as HTML that needs no script.

    Args:
        folded: show only the scenes at first, and load no Python before the
            reader changes something: for a page that begins with the drawing.
    """
    one = module(name)
    values = read(one.SETTINGS, "")
    scene = one.draw(values)
    scenes = "".join(
        f'<button type="button" id="{name}-{key}" data-set="{text}">'
        f"{escaped(label)}</button>"
        for key, label, text in one.SCENES
    )
    controls = "".join(_control(name, each, values) for each in one.SETTINGS)
    lazy = ""
    if folded:
        lazy = " data-lazy"
        controls = (
            "<details><summary>Change the settings</summary>"
            f"{controls}</details>"
        )
    return (
        f'<figure class="explore" id="{name}" data-name="{name}"{lazy}>'
        f'<div class="explore-drawing">{_drawings(name, one, scene)}</div>'
        f'<dl class="explore-numbers">{_numbers(scene)}</dl>'
        f'<form class="explore-form"><p class="explore-scenes">{scenes}</p>'
        f"{controls}</form>"
        f'<figcaption class="explore-told" aria-live="polite">'
        f"{escaped(scene.told)}</figcaption></figure>"
    )


def live(name: str, text: str, width: int) -> str:
    """A change, answered: JSON of the drawing, the numbers, the words, what
    the address should say, and the words for each setting.

    Args:
        text: settings as `read` takes them.
        width: of the drawing, in CSS pixels.
    """
    one = module(name)
    values = read(one.SETTINGS, text)
    scene = one.draw(values)
    return json.dumps(
        {
            "drawing": svg(scene, int(width), name + "-live", one.TITLE),
            "numbers": _numbers(scene),
            "told": scene.told,
            "text": write(one.SETTINGS, values),
            "values": {key: str(value) for key, value in values.items()},
            "said": {
                each.name: each.said(values[each.name]) for each in one.SETTINGS
            },
        }
    )


def _drawings(name: str, one, scene) -> str:  # type: ignore[no-untyped-def]
    said = ""
    for kind, width in (("narrow", NARROW), ("wide", WIDE)):
        drawn = svg(scene, width, name + "-" + kind, one.TITLE)
        said += f'<div class="explore-{kind}">{drawn}</div>'
    return said


def _numbers(scene) -> str:  # type: ignore[no-untyped-def]
    return "".join(
        f"<div><dt>{escaped(label)}</dt><dd>{escaped(text)}</dd></div>"
        for label, text in scene.numbers
    )


def _control(name: str, one, values: dict) -> str:  # type: ignore[no-untyped-def]
    value = values[one.name]
    said = escaped(one.said(value))
    label = f'<span class="explore-label">{escaped(one.label)}</span>'
    if isinstance(one, Choice):
        options = ""
        for each, words in one.options:
            chosen = " selected" if each == value else ""
            options += f'<option value="{each}"{chosen}>'
            options += escaped(words) + "</option>"
        return (
            f'<label>{label} <select name="{one.name}">{options}</select>'
            "</label>"
        )
    stops = ",".join(str(each) for each in one.values)
    at = one.values.index(value)
    return (
        f'<label>{label} <input type="range" name="{one.name}" min="0"'
        f' max="{len(one.values) - 1}" step="1" value="{at}"'
        f' data-stops="{stops}" aria-valuetext="{said}">'
        f" <output>{said}</output></label>"
    )
