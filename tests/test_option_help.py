"""How the commands describe their options."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import tyro

from lockstep import cli
from lockstep.examples.settings import Settings
from lockstep.trainer.__main__ import Command

# A clause or a fragment begins with a word of the first line, a command with
# one of the others.
NO_NOUN = re.compile(
    r"(as|by|default|for|from|if|in|of|on|that|to|what|when|whether|with"
    r"|add|ask|choose|compute|continue|count|do|examine|export|give|grade"
    r"|ignore|import|include|keep|leave|list|load|make|print|read|reduce"
    r"|refuse|reject|replace|resume|save|set|show|skip|start|stop|train|try"
    r"|use|write)\b",
    re.I,
)
TYPED: dict[str, Any] = {
    "lockstep.trainer": Command,
    "lockstep.examples": Settings,
}


def is_noun_phrase(said: str) -> bool:
    return bool(said) and not NO_NOUN.match(said)


def shown(command: Callable[[Sequence[str]], object], *words: str) -> str:
    out = StringIO()
    with redirect_stdout(out), suppress(SystemExit):
        command([*words, "--help"])
    return out.getvalue()


def options(text: str) -> Iterator[tuple[str, str]]:
    """Each option's name and help; a help may begin below its name."""
    for entry in re.split(r"^  (?=\S)", text, flags=re.M)[1:]:
        entry = re.split(r"^ (?=\S)", entry, flags=re.M)[0]  # a heading
        name, *said = re.split(r"\s{2,}|\n", entry.strip())
        help_ = re.sub(r"\((default|required)[^)]*\)", "", " ".join(said))
        yield name, help_.strip()


def helps() -> Iterator[tuple[str, str, str]]:
    """(command, option, help) of `lockstep`, the trainer and the examples."""
    left: list[tuple[str, ...]] = [()]
    while left:
        words = left.pop()
        text = shown(cli.run, *words)
        left += [(*words, one) for one in re.findall(r"^ +• (\w+)", text, re.M)]
        for name, said in options(text):
            if "•" not in name and name != "(required)":
                yield " ".join(("lockstep", *words)), name, said
    for program, kind in TYPED.items():
        text = shown(lambda args, kind=kind: tyro.cli(kind, args=args))
        for name, said in options(text):
            yield program, name, said


def test_option_help_is_a_noun_phrase() -> None:
    """Every option of `lockstep`, its trainer and its examples has a help
    text, and the text begins with neither a verb nor a preposition.
    """
    found = [one for one in helps() if one[1] != "-h, --help"]
    assert len({command for command, *_ in found}) > 25
    assert len(found) > 250
    assert not [one for one in found if not is_noun_phrase(one[2])]


def test_argparse_help_is_a_noun_phrase() -> None:
    paths = sorted(Path("code").rglob("*.py"))
    texts = [(path, path.read_text("utf-8")) for path in paths]
    said = [
        (str(path), word.value.value)
        for path, text in texts
        if "add_argument" in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "add_argument"
        for word in node.keywords
        if word.arg == "help" and isinstance(word.value, ast.Constant)
    ]
    assert said
    assert not [one for one in said if not is_noun_phrase(one[1])]


@pytest.mark.parametrize(
    "said", ["", "Print JSON.", "of each page", "Keep gathered weights"]
)
def test_a_verb_or_a_fragment_is_not_a_noun_phrase(said: str) -> None:
    assert not is_noun_phrase(said)
