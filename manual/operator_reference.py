"""The page of the operators in the site."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Final

from tosa_convert.builder import Builder
from tosa_convert.builder.calls import APART
from tosa_convert.graph.opset import OPERATORS, OperatorSpec
from tosa_convert.rules.describe import conditions, type_lines

_INTRODUCTION: Final = """\
# Operators

What each operator takes: its function in the [builder](../builder.md), the element types that go
together, and TOSA's rules of shapes, attributes and values. Letters stand for types; a line says what a
target must have for them. BF16, FP8, INT4, INT48, INT64 and block-scaled types need the extensions of
these types, too. [What each computes](../computation.md) is on a page of its own, and
[the limits of levels](../validation.md) come on top.
"""


def markdown() -> str:
    """Return the page: a section for each operator."""
    return "\n".join([_INTRODUCTION, *(line for spec in OPERATORS for line in _section(spec))])


def _section(spec: OperatorSpec) -> Iterator[str]:
    yield f"## {spec.name}\n"
    function = spec.name.lower()
    if spec.name not in APART:
        call = f"b.{function}({', '.join(_arguments(getattr(Builder, function)))})"
        rows = textwrap.wrap(call, 88, subsequent_indent=" " * (len(function) + 3))
        yield "\n".join(["```python", *rows, "```\n"]).replace("\0", " ")
    if types := "\n".join(type_lines(spec)):
        yield f"```text\n{types}\n```\n"
    yield from (f"- {line}" for line in conditions(spec))
    yield ""


def _arguments(function: Callable[..., object]) -> Iterator[str]:
    """Yield the arguments of a builder's function but the builder, with their defaults."""
    keyword = False
    for row in [*inspect.signature(function).parameters.values()][1:]:
        if row.kind is row.KEYWORD_ONLY and not keyword:
            keyword = True
            yield "*"
        default = getattr(row.default, "name", row.default)  # an enum is given by its name
        text = row.name if row.default is row.empty else f"{row.name}={default!r}"
        yield text.replace(" ", "\0")  # no line ends within a default
