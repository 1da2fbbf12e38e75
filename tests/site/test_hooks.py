"""The build sends Mermaid from here, and needs neither torch nor a network."""

from __future__ import annotations

from pathlib import Path

from .conftest import run


def test_missing_node_modules_is_one_clear_line(scratch: Path) -> None:
    (scratch / "node_modules").unlink()
    built = scratch / "site" / "index.html"
    built.parent.mkdir()
    built.touch()
    result = run("mkdocs", "build", "--strict", cwd=scratch)
    assert result.returncode != 0
    assert "Traceback" not in result.stderr
    [line] = [x for x in result.stderr.splitlines() if "Mermaid:" in x]
    assert "`make serve`" in line
    assert "`npm ci`" in line
    assert built.exists(), "the last build is gone"


def test_build_publishes_mermaid_and_imports_no_torch(
    scratch: Path, node_modules: Path
) -> None:
    blocker = scratch / "blocked" / "torch"
    blocker.mkdir(parents=True)
    (blocker / "__init__.py").write_text("raise RuntimeError('torch')\n")
    path = f"{blocker.parent}:{scratch / 'code'}"
    result = run("mkdocs", "build", "--strict", cwd=scratch, PYTHONPATH=path)
    assert result.returncode == 0, result.stdout + result.stderr
    assets = scratch / "site" / "assets" / "mermaid"
    dist = node_modules / "mermaid" / "dist"
    entry = "mermaid.esm.min.mjs"
    assert (assets / entry).read_bytes() == (dist / entry).read_bytes()
    assert (assets / "LICENSE").is_file()
    chunks = {p.name for p in assets.glob("chunks/*/*")}
    assert chunks == {p.name for p in dist.glob("chunks/*.esm.min/*.mjs")}
    assert not list((scratch / "site").rglob("recorded"))


def test_diagram_keeps_room_of_its_size(
    scratch: Path, node_modules: Path
) -> None:
    result = run("mkdocs", "build", "--strict", cwd=scratch)
    assert result.returncode == 0, result.stdout + result.stderr
    html = (scratch / "site" / "specimen" / "index.html").read_text()
    assert html.count('<pre class="mermaid">') == 1
    start = html.index('<div class="diagram" style="--width: ')
    assert start < html.index('<pre class="mermaid">') < start + 150
