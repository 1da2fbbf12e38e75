"""The notebook runner, on tiny notebooks.

Their base is the environment that runs the tests, since to install torch for
this would take minutes; `make notebooks` uses a real one. What isolates a
notebook is the same in both. `base_environment` is tested by itself.
"""

import sys
import zipfile
from pathlib import Path

import nbformat
import pytest

from lockstep.site.verify.notebooks import (
    NotebookFailed,
    base_environment,
    main,
    run,
)

BASE = Path(sys.prefix)


def notebook(folder: Path, *cells: str) -> Path:
    path = folder / "tiny.ipynb"
    code = [nbformat.v4.new_code_cell(cell) for cell in cells]
    nbformat.write(nbformat.v4.new_notebook(cells=code), path)
    return path


def test_a_notebook_has_its_cells_and_what_colab_has_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path("code").resolve()))
    run(
        notebook(
            tmp_path,
            "import importlib.util, os, shutil, sys, numpy",
            "assert importlib.util.find_spec('lockstep') is None",
            "assert os.listdir() == ['tiny.ipynb'], 'the repository'",
            f"assert sys.prefix != {str(BASE)!r}, 'not a Python of its own'",
            "assert shutil.which('pip').startswith(sys.prefix), 'our own pip'",
        ),
        BASE,
    )


def test_notebooks_side_by_side_take_no_ports_from_each_other(
    tmp_path: Path,
) -> None:
    """One kernel died of it in some hundred runs: its port, once free, was
    another's."""
    run(
        notebook(
            tmp_path,
            "from ipykernel.connect import get_connection_info as found",
            "assert found(unpack=True)['transport'] == 'ipc'",
        ),
        BASE,
    )


def test_a_notebook_that_hangs_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockstep.site.verify.notebooks.SECONDS", 4)
    hung = notebook(tmp_path, "while True: pass")
    with pytest.raises(NotebookFailed, match="not done after 4 s"):
        run(hung, BASE)


def wheel(folder: Path) -> Path:
    """Make the smallest package that pip installs without a network."""
    path = folder / "tiny-1.0-py3-none-any.whl"
    info = "tiny-1.0.dist-info/"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("tiny.py", "")
        file.writestr(f"{info}METADATA", "Name: tiny\nVersion: 1.0\n")
        file.writestr(f"{info}WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        file.writestr(f"{info}RECORD", "")
    return path


def test_the_base_holds_the_group_and_is_made_once(tmp_path: Path) -> None:
    project, pins = tmp_path / "pyproject.toml", tmp_path / "constraints.txt"
    tiny = wheel(tmp_path).as_uri()
    project.write_text(f'[dependency-groups]\nnotebook = ["tiny @ {tiny}"]\n')
    pins.write_text("tiny==1.0\n")
    cache = tmp_path / "cache"
    base = base_environment(project, pins, cache)
    assert list(base.glob("lib/python*/site-packages/tiny.py"))
    assert list(cache.iterdir()) == [base]

    before = base.stat().st_mtime_ns
    assert base_environment(project, pins, cache) == base
    assert base.stat().st_mtime_ns == before
    pins.write_text("tiny==1.0\nother==2.0\n")
    assert base_environment(project, pins, cache) != base


def test_no_notebooks_are_no_failure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == 0
    assert "no notebooks yet" in capsys.readouterr().out


def test_one_bad_notebook_fails_the_command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(
        "lockstep.site.verify.notebooks.base_environment", lambda *_: BASE
    )
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.mkdir()
    bad.mkdir()
    arguments = [notebook(good, "1 + 1"), notebook(bad, "missing", "1 + 1")]
    assert main([str(path) for path in arguments]) == 1
    printed = capsys.readouterr().out
    assert f"{arguments[0]}: passed in" in printed
    assert f"{arguments[1]}: FAILED in" in printed
    assert "NameError" in printed
    assert printed.splitlines()[-1] == "1 passed, 1 failed"
