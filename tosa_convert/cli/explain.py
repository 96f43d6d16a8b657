"""`explain`: what an error code means and what to do, and what TOSA asks of an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.option import complete_from
from tosa_convert.errors import CODES, fail, suggest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tosa_convert.graph.opset import OperatorSpec


@click.command("explain", cls=Verb)
@click.argument(
    "names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_from(CODES.keys)
)
def explain(names: tuple[str, ...]) -> None:
    """Explain an error: what it means, an example, and what to do.

    NAME is a code that a message ends with, a rule such as add-broadcast, or an operator. For an
    operator and its rules, what it computes is printed, the types that go together, and what TOSA asks
    of shapes, attributes and values. The brackets at the end of a message can be given as they are,
    in quotes.
    """
    words = [word for name in names for word in name.strip("[]").replace(":", " ").split()]
    # A rule says more than the code that all rules share.
    texts = [_of_code(word) if word in CODES else _of_operator(word) for word in words]
    click.echo("\n\n".join(texts or [_of_operator("")]))


def _of_code(code: str) -> str:
    """Return the section of docs/errors.md, as text for a terminal."""
    import re

    section = _errors_page().partition(f"\n### `{code}`\n\n")[2]
    section = re.split(r"\n##", section)[0].strip()
    text, _, example = section.partition("\n```text\n")
    text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text).strip()
    lines = example.removesuffix("```").rstrip().splitlines()
    shown = "".join(f"\n    {line}" for line in lines)
    return f"{code}\n\n{text}" + (f"\n\nExample:\n{shown}" if lines else "")


def _errors_page() -> str:
    """Return docs/errors.md, which a wheel has in the package."""
    from pathlib import Path

    package = Path(__file__).parents[1]
    path = package / "errors.md"
    if not path.exists():  # a checkout
        path = package.parent / "docs" / "errors.md"
    return path.read_text(encoding="utf-8")


def _of_operator(word: str) -> str:
    """Return what TOSA asks of an operator, or of that which a rule begins with."""
    from tosa_convert.graph.opset import OPERATORS

    rule = word.lower().removeprefix("tosa.").replace("_", "-")
    names = {spec.name.lower().replace("_", "-"): spec for spec in OPERATORS}
    for name in sorted(names, reverse=True):  # MAX_POOL2D before MAX
        if f"{rule}-".startswith(f"{name}-"):
            return "\n".join(_requirements(names[name]))
    if rule.startswith("program-"):
        command = "tosa-flatbuffer explain invalid-operator"
        return f"{word} is a rule of whole programs, not of an operator; {command} says more"
    message = f"found {word!r}, expected an error code, a rule or an operator of TOSA"
    hint = suggest(rule, [*CODES, *names], "a message ends with its code in brackets")
    raise fail("unknown-name", "NAME", message, hint)


def _requirements(spec: OperatorSpec) -> Iterator[str]:
    from tosa_convert.reference.evaluate import definition
    from tosa_convert.rules.describe import conditions, type_lines

    yield spec.name
    if computed := definition(spec.name):
        yield "\nWhat it computes:\n"
        yield from (f"    {line}".rstrip() for line in computed.splitlines())
    if types := list(type_lines(spec)):
        yield "\nTypes that go together:\n"
        yield from (f"    {line}" for line in types)
    if found := conditions(spec):
        yield "\nTOSA asks that\n"
        yield from (f"    - {line}" for line in found)
