"""What a block is, and what it may not be."""

from __future__ import annotations

import pytest

from lockstep.site.pages.blocks import blocks, language, violations

from .conftest import Project, fence, include

RECORDED = "docs/recorded/out.txt"
EXPECTED = "<!--pytest-codeblocks:expected-output-->"


@pytest.mark.parametrize(
    ("info", "name"),
    [
        ('python title="a"', "python"),
        ("{ .python .annotate }", "python"),
        ("{.py}", "python"),
        ("{ #id .python3 }", "python"),
        ("py", "python"),
        ("Python", "python"),
        ("pycon", "pycon"),
        ("bash", "shell"),
        ("sh", "shell"),
        ('{ .shell title="a" }', "shell"),
        ("console", "console"),
        ("mermaid", "mermaid"),
        ("text", "text"),
        ("", ""),
        (None, ""),
    ],
)
def test_every_spelling_of_a_fence_is_known(
    info: str | None, name: str
) -> None:
    assert language(info) == name


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ([fence("python", "x = 1")], "typed by hand"),
        ([fence("{ .py }", "x = 1")], "typed by hand"),
        ([fence("pycon", ">>> 1")], "typed by hand"),
        ([fence("", "x = 1")], "typed by hand"),
        ([fence("python", include("code/a.py"), "x = 1")], "line 4 is typed"),
        ([fence("python", include("code/b.py"))], "names no file"),
        ([fence("python", "")], "the block is empty"),
        (["<!--pytest.mark.skip-->", fence("sh", "true")], "says why"),
        ([fence("console", "$ true", "done")], "'done' is no command"),
        (
            [fence("sh", "true"), EXPECTED, fence("text", "by hand")],
            "the output is typed by hand",
        ),
        (
            [
                fence("sh", "true"),
                EXPECTED,
                fence("text", include("code/a.py")),
            ],
            "the output is typed by hand",
        ),
    ],
)
def test_block_that_breaks_a_rule_is_refused(
    project: Project, parts: list[str], says: str
) -> None:
    project.write("code/a.py", "x = 1\n")
    project.write(RECORDED, "1\n")
    [block] = project.page(*parts)
    assert says in "\n".join(violations(block))


@pytest.mark.parametrize(
    "parts",
    [
        [fence('python title="a"', include("code/a.py"))],
        [fence("text", include(RECORDED))],
        [fence("sh", "true"), EXPECTED, fence("text", include(RECORDED))],
        [fence("console", "$ echo \\", "  1")],
        ['<!--pytest.mark.skip(reason="slow")-->', fence("sh", "false")],
        [fence("mermaid", "flowchart TD")],
    ],
)
def test_block_that_keeps_the_rules_passes(
    project: Project, parts: list[str]
) -> None:
    project.write("code/a.py", "x = 1\n")
    project.write(RECORDED, "1\n")
    [block] = project.page(*parts)
    assert list(violations(block)) == []


def test_readme_may_type_output_but_no_python(project: Project) -> None:
    page = project.write(
        "README.md",
        fence("sh", "echo 1")
        + EXPECTED
        + fence("text", "1")
        + fence("python", "x = 1"),
    )
    command, python = blocks(page)
    assert list(violations(command)) == []
    assert command.expected_text == "1\n"
    assert "no tested file" in "".join(violations(python))
