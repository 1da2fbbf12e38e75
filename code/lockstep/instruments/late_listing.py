"""Folders whose listings lag, as on a file system whose clients cache them."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

Hidden = Callable[[str], bool]  # whether an entry of that name isn't listed yet


@contextmanager
def listed_late(hidden: Hidden) -> Iterator[None]:
    """Leave entries out of all listings that this process asks for."""
    undo = list_late(hidden)
    try:
        yield
    finally:
        undo()


def list_late(hidden: Hidden) -> Callable[[], None]:
    """Leave entries out from now on, until the returned function is called."""
    scandir, listdir, glob = os.scandir, os.listdir, Path.glob

    class Entries:
        """What os.scandir returns."""

        def __init__(self, path: Any = ".") -> None:
            with scandir(path) as found:
                self.found = iter([e for e in found if not hidden(e.name)])

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def __iter__(self) -> Any:
            return self.found

        def __next__(self) -> Any:
            return next(self.found)

        def close(self) -> None:
            """Do nothing: the folder is closed already."""

    def names(path: Any = ".") -> list[Any]:
        return [name for name in listdir(path) if not hidden(str(name))]

    # These keep os.scandir or os.listdir as they found it, in some Pythons.
    def globbed(path: Path, *args: Any, **options: Any) -> Iterator[Path]:
        found = glob(path, *args, **options)
        return (one for one in found if not hidden(one.name))

    def paths(path: Path) -> Iterator[Path]:
        return (path / name for name in names(path))

    patches: list[Any] = [
        patch.object(os, "scandir", Entries),
        patch.object(os, "listdir", names),
        patch.object(Path, "glob", globbed),
        patch.object(Path, "iterdir", paths),
    ]
    for one in patches:
        one.start()

    def undo() -> None:
        for one in reversed(patches):
            one.stop()

    return undo
