"""Variables."""

from __future__ import annotations

import math

from tosa_convert.golden.generate.builder import KINDS, Maker, Value, Variable, constant, rule
from tosa_convert.graph.dtypes import dtype
from tosa_convert.graph.model import Tensor


def _declare(m: Maker, kind: str, shape: tuple[int, ...], bound: int) -> Variable:
    """A variable with an initial state."""
    name = m.name("state")
    values = [m.random.randint(0, min(bound, 1 if kind == "BOOL" else 100)) for _ in range(1)]
    data = constant(dtype(kind), values * math.prod(shape))
    tensor = Tensor(name, dtype(kind), shape, data, variable=True, variable_name=name)
    m.block.tensors[name] = tensor
    m.variables.append(Variable(Value(name, kind, shape, bound)))
    return m.variables[-1]


@rule("VARIABLE_READ")
def _read(m: Maker, name: str) -> bool:
    # A block is run in an order that its operators leave open: what is read is what was there before.
    known = [v for v in m.variables if not v.written]
    if known and m.random.random() < 0.5:
        variable = m.random.choice(known)
    else:
        v = m.random.choice(m.values)
        if v.dtype not in KINDS:
            return False
        variable = _declare(m, v.dtype, v.shape, 100)
    value = variable.value
    return m.emit(name, [value.name], [(value.dtype, value.shape)], value.bound)


@rule("VARIABLE_WRITE")
def _write(m: Maker, name: str) -> bool:
    known = [v for v in m.variables if not v.written]
    v = m.pick(KINDS)
    if v is None:
        return False
    same = [k for k in known if (k.value.dtype, k.value.shape) == (v.dtype, v.shape)]
    variable = m.random.choice(same) if same else _declare(m, v.dtype, v.shape, 100)
    variable.written = True
    m.append(name, [v.name], (variable.value.name,))
    return True
