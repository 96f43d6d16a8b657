"""Completes the program of the converter: adds what it leaves out, and corrects what it writes wrongly.

This runs in the child process, as the converter does: everything here follows from the model's file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Final

import numpy as np

import tosa_convert.formats.mlir.read.module
import tosa_convert.formats.mlir.write.module  # noqa: F401 - imported while the converter works
from tosa_convert.builder import Builder
from tosa_convert.builder.edit import change_blocks
from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.formats.read import open_input
from tosa_convert.formats.write import save
from tosa_convert.frontends.process.request import PROGRAM_FILE, CutOperator, Request
from tosa_convert.frontends.read_result import read_program, with_main
from tosa_convert.frontends.tflite.lowerings.find import DECOMPOSITIONS, Decomposed, Wanted
from tosa_convert.frontends.tflite.lowerings.lowering import Given, OtherFormError, group_of
from tosa_convert.frontends.tflite.lowerings.writer import Writer
from tosa_convert.frontends.tflite.read import Operator as TfliteOperator
from tosa_convert.frontends.tflite.read import TfliteFile
from tosa_convert.frontends.unlowered import name_of
from tosa_convert.graph.derived import unused_name
from tosa_convert.graph.model import Block, Graph, Operator, Region
from tosa_convert.graph.opset import CONST, CONST_SHAPE, IDENTITY
from tosa_convert.io import log
from tosa_convert.io.options import ReadOptions, WriteOptions
from tosa_convert.records import replace

_NARROW: Final = "if it has integers of 64 bits: --narrow i64 (narrow='i64')"


def complete_program(
    decomposed: Decomposed | None,
    corrections: Sequence[Wanted],
    request: Request,
    folder: Path,
    *,
    file: str,
    func: str,
) -> list[str]:
    """Add decompositions and corrections to the program; return the warnings of reading it.

    A program in which operators of other dialects stayed is left as it is.
    """
    options = ReadOptions(
        func=func or None,
        narrow=request.narrow,
        full_paths=True,
        pass_captured=True,
        copy=os.name == "nt",
    )
    source = request.shown or request.source
    opened = open_input(folder / PROGRAM_FILE, options, where=source)
    with log.collected_warnings() as warnings:
        try:
            graph, narrowing = read_program(opened, options)
        except TosaConvertError as error:
            if all(finding.code != "foreign-operator" for finding in error.findings):
                raise
            return []
        for line in narrowing.report():
            log.warning("%s", line)
        graph = with_unsigned_bits(graph)
        if decomposed is not None:
            graph = with_decompositions(graph, decomposed, file)
        if corrections:
            graph = with_corrections(graph, corrections, source)
        save(graph, folder / PROGRAM_FILE, "mlirbc", WriteOptions(validate=False))
    return warnings


def with_unsigned_bits(graph: Graph) -> Graph:
    """Return the graph with arguments and results of UINT16 and UINT32 as they are, bit for bit.

    The converter rescales them, by which numbers of the upper half become those of the lower one.
    """

    def unchanged(block: Block, op: Operator) -> Operator:
        is_unsigned = op.attributes.get("input_unsigned") or op.attributes.get("output_unsigned")
        tensor = block.tensors.get(op.outputs[0]) if is_unsigned else None
        if tensor is None or tensor.dtype.name not in ("INT16", "INT32"):
            return op
        if block.tensors[op.inputs[0]].dtype is not tensor.dtype:
            return op
        return Operator(IDENTITY, op.inputs[:1], op.outputs, {}, op.location)

    main = graph.main
    return with_main(graph, replace(main, operators=[unchanged(main, op) for op in main.operators]))


def with_corrections(graph: Graph, wanted: Sequence[Wanted], source: str) -> Graph:
    """Return the graph with these lowerings corrected, wherever they are."""
    changes = {one.name: one.row.change for one in wanted if one.row.change is not None}
    graph = change_blocks(graph, lambda _, block: _changed(block, changes))
    left: list[Wanted] = []
    others = [one for one in wanted if one.row.lower is not None]
    while others:  # Of several rows for one operator one at a time.
        rows = {one.name: one for one in reversed(others)}
        unknown = dict(rows)
        graph = change_blocks(graph, lambda _, block: _rewritten(block, rows, unknown))  # noqa: B023
        left += unknown.values()
        others = [one for one in others if rows[one.name] is not one]
    findings = [
        Finding(
            "not-lowered",
            f'{source}: the operator that makes "{one.name}"',
            f"{one.row.operator} would be lowered wrongly: {one.row.fault}",
            "write it with other operators",
        )
        for one in left
    ]
    if findings:
        raise TosaConvertError(findings)
    return graph


def _changed(block: Block, changes: Mapping[str, Callable[[Operator], Operator]]) -> Block:
    """Change the operators with one of these names in their location, each in its place."""

    def changed(one: Operator) -> Operator:
        change = changes.get(name_of(one.location))
        return one if change is None else change(one)

    return replace(block, operators=list(map(changed, block.operators)))


def _rewritten(block: Block, rows: Mapping[str, Wanted], left: dict[str, Wanted]) -> Block:
    """Correct the lowerings of the block; remove them from `left`."""
    members: dict[str, list[Operator]] = {}
    for one in block.operators:
        name = name_of(one.location)
        if name in rows and one.spec not in (CONST, CONST_SHAPE):
            members.setdefault(name, []).append(one)
    if not members:
        return block
    write = Writer(block)
    instead: dict[int, list[Operator]] = {}
    gone: set[int] = set()
    for name, operators in members.items():
        write.operators, write.location = [], operators[-1].location
        try:
            lower = rows[name].row.lower
            assert lower is not None
            lower(group_of(block, operators), rows[name].facts, write)
        except OtherFormError:
            continue
        except TosaConvertError as error:
            # A number may not fit its type.
            if error.code == "invalid-operator":
                raise RuntimeError(f"{name}: a correction wrote {error}") from error
            continue
        left.pop(name, None)
        instead[id(operators[-1])] = write.operators
        gone |= {id(one) for one in operators}
    write.operators = []
    for one in block.operators:
        if id(one) not in gone:
            write.add(one)
        for made in instead.get(id(one), []):
            write.add(made)
    return write.finish()


def with_decompositions(graph: Graph, decomposed: Decomposed, file: str) -> Graph:
    """Return the graph with the decompositions of the operators that were cut out."""
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
    regions = list(graph.regions)
    for one in cut.operators:
        if not one.operands and not one.results:
            continue  # It makes a handle of a variable, or fills variables in the first call.
        index = one.attributes["index"]
        operands = [value(part.place) for part in one.operands if part.place is not None]
        results = [main.inputs[place] for place in one.results]
        operator = operators[index]
        made = _decompose(block, one, operands, decomposed.model, operator, decomposed.facts[index])
        named = next(iter((*operator.outputs, *operator.inputs)))
        location = _location(decomposed.model.tensors[named].name, file)
        regions += _add(block, made, operands, results, location, {row.name for row in regions})
    block.operators = _in_order(block)
    return with_main(replace(graph, regions=regions), block)


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
) -> Graph:
    """Return the decomposition of an operator, whose operands are values of a block."""
    b = Builder()
    known = [block.tensors[name] for name in operands]
    values = [
        b.input(f"operand_{index}", tensor.dtype, tensor.shape or ())
        for index, tensor in enumerate(known)
    ]
    constants = [None if t.data is None else t.data.numpy().reshape(t.shape or ()) for t in known]
    taken = [model.tensors[one] for one in model.takes(operator).values()]
    dtypes = [one.dtype for one in taken]
    for at, one in enumerate(taken):
        if one.dtype == "uint8" and len(
            one.data
        ):  # Without a scale the converter gives another one.
            bits = np.frombuffer(one.data, np.int8).reshape(one.shape)
            constants[at], values[at] = bits, b.const(bits)
    shape: tuple[int, ...] = ()
    dtype = ""
    if operator.outputs:
        shape, dtype = model.result(operator).shape, model.result(operator).dtype
    given = Given(values, constants, dtypes, shape, dtype)
    try:
        b.output(*DECOMPOSITIONS[cut.operator].lower(b, given, facts))
    except TosaConvertError as error:
        if error.code != "invalid-operator":
            raise
        message = f"{cut.operator} would become what TOSA forbids: {error.findings[0].message}"
        raise fail("not-lowered", cut.where, message, _NARROW) from error
    except (LookupError, ValueError, ArithmeticError, MemoryError) as error:
        types = ", ".join(tensor.type_text() for tensor in known)
        message = f"{cut.operator} of {types} does not have the operands that it has in TFLite"
        hint = "if TFLite runs the model, please report it"
        raise fail("unrecognised-input", cut.where, message, hint) from error
    return b.graph()


def _add(
    block: Block,
    graph: Graph,
    operands: list[str],
    results: list[str],
    location: str,
    taken: Set[str],
) -> list[Region]:
    """Add the operators of a decomposition to a block, between values of it.

    A variable that the block has already is the same one. Returns the other regions of the
    decomposition, with names that are not `taken`.
    """
    made = graph.main
    known = {row.variable_name: name for name, row in block.tensors.items() if row.variable}
    names = {
        name: known[row.variable_name]
        for name, row in made.tensors.items()
        if row.variable and row.variable_name in known
    }
    inside = {*made.inputs, *names}
    names.update(zip(made.inputs, operands, strict=True))
    names.update(zip(made.outputs, results, strict=True))
    prefix = (*results, *operands, "state")[0]
    for inner in (*made.tensors, *made.shapes):
        if inner not in names:
            names[inner] = unused_name(
                f"{prefix}_{inner}", {*block.tensors, *block.shapes, *names.values()}
            )
    block.tensors.update(
        {names[n]: replace(t, name=names[n]) for n, t in made.tensors.items() if n not in inside}
    )
    block.shapes.update({names[n]: replace(s, name=names[n]) for n, s in made.shapes.items()})
    others = graph.regions[1:]
    regions = {row.name: unused_name(f"{prefix}_{row.name}", taken) for row in others}

    def moved(operator: Operator) -> Operator:
        named = [row.name for row in operator.spec.attributes if row.kind == "region"]
        changed = {key: regions[str(operator.attributes[key])] for key in named}
        attributes = {**operator.attributes, **changed}
        return replace(operator, attributes=attributes, location=location)

    for operator in map(moved, made.operators):
        inputs = tuple(names[name] for name in operator.inputs)
        outputs = tuple(names[name] for name in operator.outputs)
        block.operators.append(replace(operator, inputs=inputs, outputs=outputs))
    return [
        replace(
            row,
            name=regions[row.name],
            blocks=[replace(one, operators=list(map(moved, one.operators))) for one in row.blocks],
        )
        for row in others
    ]


def _in_order(block: Block) -> list[Operator]:
    """Return the operators of a block, each after those that make its operands.

    Those that use a variable keep their order. Raises TosaConvertError("unrecognised-input") if that
    cannot be, because the model is damaged.
    """
    variables = {name for name, row in block.tensors.items() if row.variable}
    makers = {name: one for one in block.operators for name in one.outputs if name not in variables}
    users: dict[str, Operator] = {}
    earlier: dict[int, Operator] = {}
    for one in block.operators:
        for name in variables.intersection((*one.inputs, *one.outputs)):
            if name in users:
                earlier[id(one)] = users[name]
            users[name] = one
    begun: set[int] = set()
    done: set[int] = set()
    found: list[Operator] = []
    for last in block.operators:
        pending = [last]
        while pending:
            one = pending[-1]
            needed = [makers[n] for n in one.inputs if n in makers]
            needed += [earlier[id(one)]] if id(one) in earlier else []
            before = [other for other in needed if id(other) not in done]
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
