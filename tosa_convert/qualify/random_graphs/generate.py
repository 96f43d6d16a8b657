"""Random graphs that are valid: types, shapes, attributes and, for integers, ranges of values.

Each operator's rule chooses operands among the values of the block and appends the operator with the
builder, which infers its results. Integer values carry a bound, so that nothing overflows where TOSA
leaves the result unpredictable. The same seed gives the same graph, byte for byte, on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from tosa_convert.builder import Builder
from tosa_convert.errors import fail, refuse_unknown
from tosa_convert.graph.dtypes import V1_0, V1_1
from tosa_convert.graph.model import Graph
from tosa_convert.graph.opset import operator, table_of
from tosa_convert.qualify.random_graphs import elementwise, tensors
from tosa_convert.qualify.random_graphs import elementwise as control
from tosa_convert.qualify.random_graphs import tensors as held_scales
from tosa_convert.qualify.random_graphs.builder import (
    ELEMENT_TYPES,
    RULES,
    RULES_OF_WORDS,
    RandomBuilder,
    Target,
)

__all__ = ["NOT_GENERATED", "RULES", "generate"]

RULES.update(table_of("random", RULES_OF_WORDS))
#: Operators that programs have by default: those that the newest tools take.
GENERATED: Final = sorted(name for name in RULES if operator(name).is_in_tools)
#: Operators without a rule, and why.
NOT_GENERATED: Final = {
    "CONST": "is added with the operator that takes it",
    "CONST_SHAPE": "is added with the operator that takes it",
    "VARIABLE": "is not an operator in a file: a tensor declares the variable",
    "CUSTOM": "only its implementation defines what it computes",
}
#: Importing these modules registers their rules.
_MODULES: Final = (control, elementwise, held_scales, tensors)


def generate(
    seed: int,
    operators: int,
    *,
    kinds: Sequence[str] | None = None,
    profile: str | Iterable[str] | None = None,
    types: Iterable[str] | None = None,
    level: Literal["8k", "none"] = "8k",
    scaled: bool = False,
) -> Graph:
    """Generate a random valid graph.

    Args:
        seed: any integer. The same arguments give the same graph, byte for byte.
        operators: how many operators the main block has, constants not counted.
        kinds: names of operators to choose from; by default all that can be generated and that the
            newest tosa-tools have, and for odd seeds those of TOSA 1.0.
        profile: the profiles and extensions that the program may need, such as "PRO-INT,EXT-INT16"; by
            default all.
        types: element types of inputs and of what operators compute, such as ["INT8", "INT32"]; by
            default all. Constants have the types that their operator needs.
        level: "8k" or "none". Programs keep to 8k in both.
        scaled: whether tensors may be block-scaled and hold their scales, and products of matrices have
            any batches, neither of which the reference model runs.

    Returns:
        The graph; the values that no operator uses are its outputs.

    Raises:
        TosaConvertError: `option-conflict` if an operator is unknown, cannot be generated, or finds
            no operands; if the profile or the types do not allow one that was named.

    Example:
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> [op.spec.name for op in graph.main.operators]
        ['ABS', 'ABS', 'ABS']
    """
    chosen = GENERATED if kinds is None else list(dict.fromkeys(kinds))
    unknown = [name for name in chosen if name not in RULES]
    if unknown or not chosen or operators < 1:
        raise fail(
            "option-conflict",
            "generate",
            f"cannot generate {', '.join(unknown) or f'{operators} operators'}",
            "operators that can be generated: " + ", ".join(sorted(RULES)),
        )
    refuse_unknown("level", level, ("8k", "none"))
    newest = V1_0 if kinds is None and seed % 2 else V1_1
    target = Target.of(profile, types, newest)
    if kinds is not None:
        target.refuse_impossible(chosen)
    chosen = target.taken(chosen)
    if not chosen or not target.inputs(ELEMENT_TYPES):
        message = f"no program can be generated with {target}"
        known = ", ".join(ELEMENT_TYPES)
        raise fail("option-conflict", "generate", message, f"inputs have one of {known}")
    # Seeded with text: the same on every platform and Python.
    source = random.Random(f"tosa {seed} {operators}")
    made = RandomBuilder(source, Builder("main"), target=target, is_scaled=scaled)
    for _ in range(3):
        made.input()
    refused = 0
    while made.operators < operators:
        if made.try_rule(made.random.choice(chosen)):
            refused = 0
            continue
        refused += 1
        if refused % 20 == 0:
            made.input()
        if refused > 2000:
            raise fail(
                "option-conflict",
                "generate",
                f"no operands were found for {', '.join(chosen)}{f' with {target}' * bool(str(target))}",
            )
    unused = [
        t.value
        for t in (*made.tensors, *made.held)
        if t.value.name not in made.build.block.inputs and t.value.name not in made.used
    ]
    # Operators on shapes leave no tensor, but a program has at least one output.
    made.build.output(*(unused or [made.inputs[0].value]))
    return made.build.graph()
