"""Adds operators that the converter does not lower to its program, as operators of TOSA.

The converter gets the model without them, as with `--partial`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tosa_convert.builder import Builder
from tosa_convert.errors import fail
from tosa_convert.frontends.partial.cut import CutOperator
from tosa_convert.frontends.tflite.lowerings.decomposition import Given
from tosa_convert.frontends.tflite.lowerings.find import Decomposed
from tosa_convert.frontends.tflite.lowerings.table import DECOMPOSITIONS
from tosa_convert.frontends.tflite.read import Operator as TfliteOperator
from tosa_convert.frontends.tflite.read import TfliteFile
from tosa_convert.graph.model import Block, Graph, Operator
from tosa_convert.graph.names import unused_name


def with_decompositions(graph: Graph, decomposed: Decomposed, file: str) -> Graph:
    """Return the graph with the decompositions of the operators that were cut out.

    Args:
        graph: the program, with the arguments and results that the cut says; it is not changed.
        decomposed: the operators.
        file: the name of the model's file, for locations.

    Raises:
        TosaConvertError: "unrecognised-input" for an operator whose operands do not fit one another.
    """
    main, cut = graph.main, decomposed.cut

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
    operators = {one.index: one for one in decomposed.model.operators}
    for one in cut.operators:
        index = one.attributes["index"]
        operands = [value(part.place) for part in one.operands if part.place is not None]
        results = [main.inputs[place] for place in one.results]
        operator = operators[index]
        made = _decompose(block, one, operands, decomposed.model, operator, decomposed.facts[index])
        location = _location(decomposed.model.result(operator).name, file)
        _add(block, made, operands, results, location)
    block.operators = _in_order(block)
    first, *others = graph.regions
    return replace(graph, regions=[replace(first, blocks=[block, *first.blocks[1:]]), *others])


def _location(name: str, file: str) -> str:
    """Return the location of the operator that makes a tensor, as the converter writes it."""
    is_plain = name.isprintable() and not {'"', "\\"} & set(name)
    return f'loc("{name}"("{file}":0:0))' if is_plain else ""


def _decompose(
    block: Block,
    cut: CutOperator,
    operands: list[str],
    model: TfliteFile,
    operator: TfliteOperator,
    facts: Any,
) -> Block:
    """Return the decomposition of an operator, whose operands are values of a block."""
    b = Builder()
    known = [block.tensors[name] for name in operands]
    values = [
        b.input(f"operand_{index}", tensor.dtype.name.lower(), tensor.shape or ())
        for index, tensor in enumerate(known)
    ]
    constants = [None if t.data is None else t.data.numpy().reshape(t.shape or ()) for t in known]
    dtypes = [model.tensors[one].dtype for one in operator.inputs if one >= 0]
    result = model.result(operator)
    given = Given(values, constants, dtypes, result.shape, result.dtype)
    try:
        b.output(*DECOMPOSITIONS[cut.operator].lower(b, given, facts))
    except (LookupError, ValueError, ArithmeticError, MemoryError) as error:
        types = ", ".join(tensor.type_text() for tensor in known)
        message = f"{cut.operator} of {types} does not have the operands that it has in TFLite"
        hint = "if TFLite runs the model, please report it"
        raise fail("unrecognised-input", cut.where, message, hint) from error
    return b.graph().main


def _add(block: Block, made: Block, operands: list[str], results: list[str], location: str) -> None:
    """Add the operators of a decomposition to a block, between values of it."""
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
                location=location,
            )
        )


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
