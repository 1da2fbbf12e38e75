"""Answers for the pages that compute: each question gets exactly one.

The browser's worker, where MicroPython runs these files, asks nothing else.
"""

import json

from lockstep.planner.figures import TOO_FAR, PlanError

ROOMS = (
    "lockstep.explain.page",
    "lockstep.explore.planner_page",
    "lockstep.explore.page",
    "lockstep.practice.estimates",
)


def answered(text: str) -> str:
    """Answer a question in JSON, whatever it holds and whatever goes wrong.

    Args:
        text: JSON of a room and the arguments of its `live`.

    Returns:
        JSON of what `live` says, or of `{"error": …}`, one line that names
        what is wrong and what would be right.
    """
    try:
        return live(text)
    except PlanError as error:
        why = str(error)
    except ArithmeticError:
        why = TOO_FAR
    except MemoryError:
        why = "this needs more memory than the page has; use smaller numbers"
    except Exception as error:  # whatever it is, somebody waits for an answer
        why = f"the page failed on this input ({type(error).__name__}: {error})"
        why += "; change it, and please report it"
    return json.dumps({"error": " ".join(why.split())})


def live(text: str) -> str:
    """Answer a question that has an answer; `ask` adds the errors.

    Raises:
        PlanError: it asks no room, or nothing that the room knows.
    """
    try:
        asked = json.loads(text)
    except ValueError:
        asked = None
    if not isinstance(asked, list) or not asked or asked[0] not in ROOMS:
        raise PlanError(f"a question names one of {', '.join(ROOMS)}")
    # MicroPython gives the package, and CPython the module that is named.
    module = __import__(asked[0], None, None, ["live"])
    return module.live(*asked[1:])
