"""Decompositions: operators that a converter does not lower, as operators of TOSA in its program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tosa_convert.builder import Builder
from tosa_convert.builder.values import Value
from tosa_convert.errors import fail
from tosa_convert.frontends.partial.cut import Cut, CutOperator
from tosa_convert.frontends.tflite import (
    decomposed_elementwise,
    decomposed_movement,
    decomposed_normalization,
    decomposed_products,
    decomposed_reductions,
)
from tosa_convert.frontends.tflite.decomposition import Decompose, Given
from tosa_convert.graph.model import Block, Graph, Operator, Tensor
from tosa_convert.graph.names import unused_name

#: Operator -> its decomposition.
KINDS: Final[Mapping[str, Decompose]] = {
    **decomposed_elementwise.KINDS,
    **decomposed_movement.KINDS,
    **decomposed_normalization.KINDS,
    **decomposed_products.KINDS,
    **decomposed_reductions.KINDS,
}


def with_decompositions(graph: Graph, cut: Cut) -> Graph:
    """Return the graph with the decompositions of the operators that were cut out.

    Args:
        graph: the program, with the arguments and results that `cut` says; it is not changed.
        cut: the operators, with the facts that a converter gives as attributes.

    Raises:
        TosaConvertError: "frontend-failed" if the converter names an operator without a decomposition;
            "unrecognised-input" for an operator whose operands do not fit one another.
    """
    main = graph.main

    def value(place: int) -> str:
        return main.inputs[-1 - place] if place < 0 else main.outputs[place]

    block = replace(
        main,
        inputs=main.inputs[: cut.inputs],
        outputs=[value(place) for place in cut.outputs],
        operators=list(main.operators),
        tensors=dict(main.tensors),
        shapes=dict(main.shapes),
    )
    for one in cut.operators:
        operands = [value(part.place) for part in one.operands if part.place is not None]
        _decompose(block, one, operands, [main.inputs[place] for place in one.results])
    block.operators = _in_order(block)
    first, *others = graph.regions
    return replace(graph, regions=[replace(first, blocks=[block, *first.blocks[1:]]), *others])


def _decompose(block: Block, one: CutOperator, operands: list[str], results: list[str]) -> None:
    """Add the decomposition of an operator to a block."""
    if one.operator not in KINDS:
        raise fail(
            "frontend-failed", one.where, f"{one.operator} has no decomposition", "please report it"
        )
    b = Builder()
    given = [_input(b, f"operand_{index}", block.tensors[n]) for index, n in enumerate(operands)]
    known = [block.tensors[name] for name in operands]
    constants = [None if t.data is None else t.data.numpy().reshape(t.shape or ()) for t in known]
    try:
        b.output(*KINDS[one.operator](b, Given(given, constants, one.attributes)))
    except (LookupError, ValueError, ArithmeticError) as error:
        types = ", ".join(block.tensors[name].type_text() for name in operands)
        message = f"{one.operator} of {types} does not have the operands that it has in TFLite"
        hint = "if TFLite runs the model, please report it"
        raise fail("unrecognised-input", one.where, message, hint) from error
    made = b.graph().main
    names = dict(zip(made.inputs, operands, strict=True))
    names.update(zip(made.outputs, results, strict=True))
    for inner in (*made.tensors, *made.shapes):
        if inner not in names:
            names[inner] = unused_name(
                f"{results[0]}_{inner}", {*block.tensors, *block.shapes, *names.values()}
            )
    inputs = set(made.inputs)
    block.tensors.update(
        {names[n]: replace(t, name=names[n]) for n, t in made.tensors.items() if n not in inputs}
    )
    block.shapes.update({names[n]: replace(s, name=names[n]) for n, s in made.shapes.items()})
    for operator in made.operators:
        block.operators.append(
            replace(
                operator,
                inputs=tuple(names[name] for name in operator.inputs),
                outputs=tuple(names[name] for name in operator.outputs),
                location=str(one.attributes.get("location", "")),
            )
        )


def _input(b: Builder, name: str, tensor: Tensor) -> Value:
    return b.input(name, tensor.dtype.name.lower(), tensor.shape or ())


def _in_order(block: Block) -> list[Operator]:
    """Return the operators of a block, each after those that make its operands.

    Raises TosaConvertError("unrecognised-input") if that cannot be, because the model is damaged.
    """
    makers = {name: one for one in block.operators for name in one.outputs}
    begun: set[int] = set()
    done: set[int] = set()
    found: list[Operator] = []
    for last in block.operators:
        pending = [last]
        while pending:
            one = pending[-1]
            before = [makers[n] for n in one.inputs if n in makers and id(makers[n]) not in done]
            if before and id(one) in begun:
                message = f"{one.spec.name} takes a value that is computed from its own result"
                raise fail("unrecognised-input", one.location, message, "the model is damaged")
            if before:
                begun.add(id(one))
                pending += before
                continue
            pending.pop()
            if id(one) not in done:
                done.add(id(one))
                found.append(one)
    return found
