"""What the tables say of an operator, in words: for editors and for the reference."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from tosa_convert.graph.opset import OperandSpec, OperatorSpec
from tosa_convert.rules.families import rules_of
from tosa_convert.rules.families.checks import Check
from tosa_convert.rules.types import Form, forms, types_of

#: First words of a check's docstring -> the words that replace them.
_OPENINGS: Final = {"Check that ": "", "Refuse ": "no "}


def sentence(check: Check) -> str:
    """Return what a check asks for: its docstring without "Check that" and the full stop."""
    text = (check.__doc__ or "").partition("\n")[0].partition(". ")[0].removesuffix(".")
    for opening, instead in _OPENINGS.items():
        if text.startswith(opening):
            return instead + text.removeprefix(opening).replace(", and that ", ", and ")
    raise ValueError(f"{check}: the docstring is {text!r}, expected 'Check that ...'")


def conditions(spec: OperatorSpec) -> list[str]:
    """Return what TOSA asks of the shapes, attributes and values of an operator."""
    rules = rules_of(spec)
    found = dict.fromkeys(map(sentence, (*rules.ranks, *rules.checks)))
    if layout := _layout(spec):
        found[f"sizes of one letter are equal: {layout}"] = None
    elif rules.dimensions:
        found[f"{spec.results[0].name} is [{', '.join(rules.dimensions)}]"] = None
    return list(found)


def _layout(spec: OperatorSpec) -> str:
    """Return the dimensions of a product's result and operands; "" if it is none."""
    words = {".": "_", "*": "..."}
    return ", ".join(
        f"{name} [{', '.join(words.get(word, word) for word in dimensions)}]"
        for name, dimensions in spec.multiply_accumulates.items()
    )


def type_lines(spec: OperatorSpec) -> Iterator[str]:
    """Yield the element types that an operator takes together: each form, then what it allows."""
    for form in forms(spec):
        yield _header(spec, form)
        allowed = defaultdict[str, list[str]](list)
        for version, requirement, cells in form.lines:
            allowed[_needs(version, requirement)] += cells.split()
        for needs, rows in allowed.items():
            if not rows:
                yield f"  {needs}"
            for row in [",".join(rows)] if len(form.variables) == 1 and rows else rows:
                parts = zip(form.variables, row.split(":"), strict=True)
                chosen = "; ".join(f"{variable} {types_of(part)}" for variable, part in parts)
                yield f"  {needs}: {chosen}"


def _needs(version: str, requirement: str) -> str:
    """Return what a target must have for a line of types."""
    profiles, *extensions = requirement.split("+")
    needs = [" or ".join(f"PRO-{name}" for name in profiles.split("/"))]
    needs += [f"EXT-{name}" for name in extensions]
    return ", ".join([*needs, f"TOSA {version}"] if version else needs)


def _header(spec: OperatorSpec, form: Form) -> str:
    """Name the operands and results of a form, each with its type variable."""
    words = [*_named(spec.operands, form.inputs), *(["any others"] * form.any_inputs)]
    if form.attribute:
        words.append(f"{form.attribute} {form.value if form.selects else _type(form.value)}")
    made = [*_named(spec.results, form.outputs), *(["any others"] * form.any_outputs)]
    return f"{', '.join(words) or 'nothing'} -> {', '.join(made) or 'nothing'}"


def _named(rows: tuple[OperandSpec, ...], types: list[str]) -> Iterator[str]:
    """Yield the name of each operand or result with its type."""
    left = iter(types)
    for row in rows:
        word = "shape" if row.is_shape else next(left, "")
        if word:
            yield f"{row.name} {word if row.is_shape else _type(word)}"


def _type(word: str) -> str:
    """Return a type of a form: a letter as it is, an abbreviation in full."""
    if word.startswith("Z("):
        return word[2]
    return word if word.isupper() else types_of(word)
