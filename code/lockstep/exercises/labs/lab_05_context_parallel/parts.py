"""What wrong answers are made of: the sound module, but for one part."""

import importlib.util
from types import ModuleType
from typing import Any

from lockstep.parallel import context_parallel


def sound_but(**changed: Any) -> ModuleType:
    """A copy of the sound module with these functions or classes in it."""
    spec = importlib.util.find_spec(context_parallel.__name__)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(module).update(changed)
    return module
