"""Views of single operators, written in one line a value, for the tests of rules.

A value is "INT8[1,4,?]", "FP32[*]" without a rank, "INT8[1]=5" a constant, "FP8E4M3[2,64]@32" in
blocks, or "SHAPE[1,?]" a !tosa.shape with its values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tosa_convert.graph import Constant, Operator, dtype, operator
from tosa_convert.graph.dtypes import BLOCK_SCALE, BlockShape
from tosa_convert.graph.model import DYNAMIC
from tosa_convert.graph.opset import OperandSpec
from tosa_convert.rules.families.checks import ResultShape
from tosa_convert.rules.operator_view import OperatorView, ShapeType, TensorType, ValueType
from tosa_convert.rules.validate import judge_shapes

#: The values of an operator's operands and results and its attributes, by name.
Example = Mapping[str, Any]

_VALUE = re.compile(r"(?P<dtype>\w+)\[(?P<sizes>[^]]*)\](?P<blocks>@32)?(=(?P<data>.*))?")


def value(text: str) -> ValueType:
    """Return the type of a value."""
    match = _VALUE.fullmatch(text)
    assert match is not None, text
    name, sizes = match["dtype"], match["sizes"]
    if name == "SHAPE":
        return ShapeType(
            len(sizes.split(",")) if sizes else 0,
            tuple(None if size == "?" else int(size) for size in sizes.split(",") if size),
        )
    shape = (
        None
        if sizes == "*"
        else tuple(DYNAMIC if size == "?" else int(size) for size in sizes.split(",") if size)
    )
    scale = (BLOCK_SCALE, BlockShape.BLOCK_SHAPE_32) if match["blocks"] else None
    kind = dtype(name)
    data = None
    if match["data"]:
        elements = np.array([float(number) for number in match["data"].split()]).astype(kind.numpy)
        count = len(elements)
        data = Constant(kind, count, elements.tobytes()[: kind.wire_bytes(count)])
    return TensorType(kind, shape, scale, data)


def view(name: str, example: Example) -> OperatorView:
    """Return an operator. An operand or result is absent if the example does not have it."""
    spec = operator(name)
    inputs = _values(spec.operands, example)
    outputs = _values(spec.results, example)
    values = {row.name for row in (*spec.operands, *spec.results)}
    attributes = {key: item for key, item in example.items() if key not in values}
    names = tuple(f"v{index}" for index in range(len(inputs) + len(outputs)))
    made = Operator(spec, names[: len(inputs)], names[len(inputs) :], attributes, "")
    return OperatorView(made, inputs, outputs)


def _values(rows: tuple[OperandSpec, ...], example: Example) -> tuple[ValueType, ...]:
    return tuple(value(example[row.name]) for row in rows if example.get(row.name))


def broken_rules(name: str, example: Example) -> set[str]:
    """Return the rules that an operator breaks."""
    return {violation.rule for violation in judge_shapes(view(name, example)).violations}


def inferred(name: str, example: Example) -> tuple[ResultShape, ...] | None:
    """Return the shapes that the operands have results of; None if a rule is broken."""
    spec = operator(name)
    results = {row.name: None for row in spec.results}
    return judge_shapes(view(name, {**example, **results})).results


def less_known(name: str, example: Example) -> Iterator[Example]:
    """Iterate over the example without one of its sizes, ranks or constants, and without any of them."""
    nothing: dict[str, Any] = dict(example)
    for row in operator(name).operands:
        text = example.get(row.name)
        if not text:
            continue
        kind, _, rest = text.partition("[")
        sizes, _, suffix = rest.partition("]")
        blocks = "@32" if suffix.startswith("@32") else ""
        known = sizes.split(",") if sizes else []
        for index in range(len(known)):
            changed = ",".join((*known[:index], "?", *known[index + 1 :]))
            yield {**example, row.name: f"{kind}[{changed}]{suffix}"}
        if kind == "SHAPE":
            nothing[row.name] = f"SHAPE[{','.join('?' * len(known))}]"
        else:
            nothing[row.name] = f"{kind}[*]{blocks}"
            yield {**example, row.name: nothing[row.name]}
    yield nothing
