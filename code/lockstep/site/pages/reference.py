"""What the API reference reads of a module besides its docstrings.

A Griffe extension: the modules are parsed for it and never imported.
"""

from __future__ import annotations

import ast
import io
import tokenize
from itertools import takewhile
from typing import Any

import griffe


class Comments(griffe.Extension):
    """A comment behind a field or a `def` describes it.

    That is how a field is described for `--help`, and a function in the
    interview cut.
    """

    def on_attribute_instance(
        self,
        *,
        node: ast.AST | griffe.ObjectNode,
        attr: griffe.Attribute,
        **_: Any,
    ) -> None:
        match node:
            case (
                ast.AnnAssign(target=ast.Name())
                | ast.Assign(targets=[ast.Name()])
            ):
                _describe(attr)

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        _describe(func)


class NamedTuples(griffe.Extension):
    """A `NamedTuple` has a signature, as a dataclass has from Griffe itself."""

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        if "NamedTuple" in map(str, cls.bases):
            parameters = [griffe.Parameter("self")] + [
                griffe.Parameter(
                    field.name,
                    annotation=field.annotation,
                    kind=griffe.ParameterKind.positional_or_keyword,
                    default=field.value,
                )
                for field in cls.attributes.values()
            ]
            init = griffe.Function(
                "__init__", parameters=griffe.Parameters(*parameters)
            )
            cls.set_member("__init__", init)


def _describe(found: griffe.Attribute | griffe.Function) -> None:
    """Give what has no docstring the comment that ends its first line."""
    if found.docstring is not None:
        return
    tokens = tokenize.generate_tokens(io.StringIO(found.source).readline)
    line = takewhile(lambda token: token.type != tokenize.NEWLINE, tokens)
    *_, last = line
    if last.type == tokenize.COMMENT:
        text = last.string.removeprefix("#").strip()
        found.docstring = griffe.Docstring(text, parent=found)
