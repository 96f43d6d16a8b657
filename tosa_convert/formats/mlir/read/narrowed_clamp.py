"""CLAMP of INT64 becomes MAXIMUM and MINIMUM when it is narrowed: TOSA has no CLAMP of INT32."""

from __future__ import annotations

from typing import Final

from tosa_convert.formats.mlir.read.block_scope import Scope
from tosa_convert.formats.mlir.read.narrowing import Narrowing
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import INT32
from tosa_convert.graph.model import Operator, Tensor
from tosa_convert.graph.names import unused_name
from tosa_convert.graph.opset import CONST, operator

_MAXIMUM: Final = operator("MAXIMUM")
_MINIMUM: Final = operator("MINIMUM")


def without_clamp(clamp: Operator, scope: Scope, narrowing: Narrowing) -> list[Operator]:
    """Return what replaces a CLAMP of INT64 narrowed to a type that TOSA has no CLAMP of."""
    complete = len(clamp.attributes) == len(clamp.spec.attributes)
    if not complete or len(clamp.inputs) != 1 or len(clamp.outputs) != 1:
        return [clamp]  # it has or gets a finding
    if scope.tensors[clamp.outputs[0]].shape is None:
        return [clamp]  # the bounds would need the rank of the operand, which is unknown
    narrowing.replaced_clamps += 1
    return as_maximum_and_minimum(clamp, scope)


def as_maximum_and_minimum(clamp: Operator, scope: Scope) -> list[Operator]:
    """Operators that compute a CLAMP of INT32, with its location and the name of its result.

    Two constants and the value between the two operators are added to the tensors of the block; their
    names begin with that of the result.

    Args:
        clamp: the operator; its bounds are INT32, and the rank of its result is known.
        scope: the state of its block.
    """
    (value,), (result,) = clamp.inputs, clamp.outputs
    shape = scope.tensors[result].shape
    assert shape is not None
    between = _add(scope, f"{result}_maximum", shape)
    made = []
    for spec, name, operand, output in (
        (_MAXIMUM, "min_val", value, between),
        (_MINIMUM, "max_val", between, result),
    ):
        raw = clamp.attributes[name]
        assert isinstance(raw, bytes)
        bound = _add(scope, f"{result}_{name}", (1,) * len(shape))
        scope.tensors[bound].data = Constant(INT32, 1, raw[: INT32.element_bytes])
        attributes = {"nan_mode": clamp.attributes["nan_mode"]}
        made += [
            Operator(CONST, (), (bound,), {}, clamp.location),
            Operator(spec, (operand, bound), (output,), attributes, clamp.location),
        ]
    return made


def _add(scope: Scope, name: str, shape: tuple[int, ...]) -> str:
    """Add a tensor of INT32 to a block, by this name or a similar one."""
    # Names that are not in `taken` are generated and have another form.
    name = unused_name(name, scope.taken)
    scope.taken.add(name)
    scope.tensors[name] = Tensor(name, INT32, shape)
    return name
