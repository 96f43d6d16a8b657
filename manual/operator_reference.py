"""The page of the operators in the site."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Final

from tosa_convert import reference
from tosa_convert.builder import Builder
from tosa_convert.builder.calls import APART
from tosa_convert.graph.opset import OPERATORS, OperatorSpec
from tosa_convert.reference.evaluate import definition
from tosa_convert.rules.describe import conditions, type_lines

_INTRODUCTION: Final = """\
# Operators

What each operator computes, its functions in the [builder](../builder.md) and of
[arrays](../computation.md), the element types that go together, and TOSA's rules of shapes, attributes
and values. Letters stand for types; a line says what a target must have for them. BF16, FP8, INT4,
INT48, INT64 and block-scaled types need the extensions of these types, too.
[The limits of levels](../validation.md) come on top.
"""


def markdown() -> str:
    """Return the page: a section for each operator."""
    return "\n".join([_INTRODUCTION, *(line for spec in OPERATORS for line in _section(spec))])


def _section(spec: OperatorSpec) -> Iterator[str]:
    yield f"## {spec.name}\n"
    if computed := definition(spec.name):
        yield f"{computed}\n"
    if spec.name not in APART:
        rows = [*_call("b", Builder, spec), *_call("reference", reference, spec)]
        yield "\n".join(["```python", *rows, "```\n"]).replace("\0", " ")
    if types := "\n".join(type_lines(spec)):
        yield f"```text\n{types}\n```\n"
    yield from (f"- {line}" for line in conditions(spec))
    yield ""


def _call(prefix: str, where: object, spec: OperatorSpec) -> list[str]:
    """Return a call of an operator's function with all of its arguments."""
    name = f"{prefix}.{spec.name.lower()}"
    call = f"{name}({', '.join(_arguments(getattr(where, spec.name.lower())))})"
    return textwrap.wrap(call, 88, subsequent_indent=" " * (len(name) + 1))


def _arguments(function: Callable[..., object]) -> Iterator[str]:
    """Yield the arguments of a function but the builder, with their defaults."""
    keyword = False
    for row in inspect.signature(function).parameters.values():
        if row.name == "self":
            continue
        if row.kind is row.KEYWORD_ONLY and not keyword:
            keyword = True
            yield "*"
        default = getattr(row.default, "name", row.default)  # an enum is given by its name
        text = row.name if row.default is row.empty else f"{row.name}={default!r}"
        yield text.replace(" ", "\0")  # no line ends within a default
