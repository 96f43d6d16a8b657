"""Variables: declared with an initial state, read and written."""

from __future__ import annotations

import math

from tosa_convert.golden.random_graphs.builder import (
    ELEMENT_TYPES,
    GraphBuilder,
    Value,
    Variable,
    constant,
    rule,
)
from tosa_convert.graph.dtypes import dtype
from tosa_convert.graph.model import Tensor


def _declare(
    builder: GraphBuilder, element_type: str, shape: tuple[int, ...], bound: int
) -> Variable:
    """A variable with an initial state."""
    name = builder.name("state")
    values = [
        builder.random.randint(0, min(bound, 1 if element_type == "BOOL" else 100))
        for _ in range(1)
    ]
    data = constant(dtype(element_type), values * math.prod(shape))
    tensor = Tensor(name, dtype(element_type), shape, data, variable=True, variable_name=name)
    builder.block.tensors[name] = tensor
    builder.variables.append(Variable(Value(name, element_type, shape, bound)))
    return builder.variables[-1]


@rule("VARIABLE_READ")
def _read(builder: GraphBuilder, name: str) -> bool:
    # The order of a read and a write is not defined: a variable is read only before it is written.
    available = [v for v in builder.variables if not v.written]
    if available and builder.random.random() < 0.5:
        variable = builder.random.choice(available)
    else:
        v = builder.random.choice(builder.values)
        if v.dtype not in ELEMENT_TYPES:
            return False
        variable = _declare(builder, v.dtype, v.shape, 100)
    value = variable.value
    return builder.emit(name, [value.name], [(value.dtype, value.shape)], value.bound)


@rule("VARIABLE_WRITE")
def _write(builder: GraphBuilder, name: str) -> bool:
    available = [v for v in builder.variables if not v.written]
    v = builder.pick(ELEMENT_TYPES)
    if v is None:
        return False
    same = [k for k in available if (k.value.dtype, k.value.shape) == (v.dtype, v.shape)]
    variable = builder.random.choice(same) if same else _declare(builder, v.dtype, v.shape, 100)
    variable.written = True
    builder.append(name, [v.name], (variable.value.name,))
    return True
