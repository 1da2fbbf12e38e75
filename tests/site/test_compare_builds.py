from pathlib import Path

import pytest

from lockstep.site.verify.compare_builds import differences, main

PAGE = """
<nav>Menu</nav><article>
<h1 id="a">Ranks<a class="headerlink" href="#a">¶</a></h1>
<p>Every rank
 trains <em>its</em> share.</p>
<div class="highlight"><pre><code>step = 1
done</code></pre></div></article>
"""


def site(folder: Path, **pages: str) -> Path:
    folder.mkdir()
    for name, html in pages.items():
        (folder / f"{name}.html").write_text(html, encoding="utf-8")
    return folder


def compare(folder: Path, page: str, other: str) -> list[str]:
    a, b = site(folder / "a", index=page), site(folder / "b", index=other)
    return list(differences(a, b))


def test_markup_that_no_reader_sees_is_no_difference(tmp_path: Path) -> None:
    other = (
        PAGE.replace("¶", "#")
        .replace("Menu", "Navigation")
        .replace("rank\n trains", "rank trains")
        .replace("step = 1", "<span>step</span> <b>=</b> 1")
        .replace("</article>", "<script>go()</script></article>")
    )
    assert compare(tmp_path, PAGE, other) == []


def test_a_diagram_is_no_difference_drawn_or_not(tmp_path: Path) -> None:
    drawn = '<div class="diagram"><svg><text>A</text></svg></div></article>'
    source = '<pre class="mermaid"><code>flowchart TD</code></pre></article>'
    assert (
        compare(
            tmp_path,
            PAGE.replace("</article>", drawn),
            PAGE.replace("</article>", source),
        )
        == []
    )


@pytest.mark.parametrize(
    ("was", "becomes", "named"),
    [
        ("Ranks", "Rank", "index.html: 2 lines of the headings differ"),
        ("h1", "h2", "index.html: 2 lines of the headings differ"),
        ("share", "part", "index.html: 2 lines of the text differ"),
        ("step = 1\n", "step = 1 ", "index.html: 3 lines of the text differ"),
        ("<code>step = 1\ndone", "<code>", "2 lines of the text differ"),
    ],
)
def test_what_a_reader_sees_is_a_difference(
    tmp_path: Path, was: str, becomes: str, named: str
) -> None:
    found = compare(tmp_path, PAGE, PAGE.replace(was, becomes))
    assert found[0].endswith(named)
    assert len(found) == 1 + int(named.split(" lines")[0].split()[-1])


def test_a_missing_page_is_a_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = site(tmp_path / "a", index=PAGE, more=PAGE)
    b = site(tmp_path / "b", index=PAGE, other=PAGE)
    assert main([str(a), str(b)]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        f"more.html: only in {a}",
        f"other.html: only in {b}",
    ]


def test_equal_builds_pass(tmp_path: Path) -> None:
    a = site(tmp_path / "a", index=PAGE)
    assert main([str(a), str(site(tmp_path / "b", index=PAGE))]) == 0


def test_an_empty_folder_is_no_build(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([str(tmp_path), str(tmp_path)])
    assert stopped.value.code == 2
