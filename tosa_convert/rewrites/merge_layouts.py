"""A TRANSPOSE of a TRANSPOSE and a RESHAPE of a RESHAPE become one operator, or none."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import prod
from typing import Final

from tosa_convert.builder.edit import BlockEditor
from tosa_convert.graph.model import DYNAMIC, Operator, Tensor
from tosa_convert.rewrites.move_layouts import RESHAPE, TRANSPOSE, is_order, is_reshape, order_of

OPERATORS: Final = (TRANSPOSE, RESHAPE)
#: The most elementwise operators between two RESHAPEs.
_MOST_BETWEEN: Final = 8


def rewrite(op: Operator, edit: BlockEditor) -> str | None:
    """Put one operator in place of two, or a RESHAPE in place of a TRANSPOSE; None if neither fits."""
    found = _merged(op, edit)
    if found is None and op.spec is TRANSPOSE:
        return _as_reshape(op, edit)
    if found is None:
        return _without_reshapes(op, edit)
    return found


def _merged(op: Operator, edit: BlockEditor) -> str | None:
    """Put one operator in place of two, or return None."""
    first = edit.producers.get(op.inputs[0])
    if first is None or first.spec is not op.spec:
        return None
    (source,) = first.inputs[:1]
    what = f"{op.spec} of a {op.spec} became one"
    if op.spec is TRANSPOSE:
        inner, outer = order_of(first), order_of(op)
        if len(inner) != len(outer):
            return None
        perms = tuple(inner[axis] for axis in outer)
        edit.add(replace(op, inputs=(source,), attributes={"perms": perms}))
        return what
    sizes = edit.sizes_of(op.inputs[1])
    if sizes is None or DYNAMIC in sizes:
        return None
    edit.add(replace(op, inputs=(source, op.inputs[1])))
    return what


def _as_reshape(op: Operator, edit: BlockEditor) -> str | None:
    """Put a RESHAPE in place of a TRANSPOSE that keeps the order of all elements, or return None."""
    (source,), (result,) = op.inputs, op.outputs
    tensor, made = edit.tensors[source], edit.tensors[result]
    perms = order_of(op)
    if tensor.scale is not None or tensor.shape is None or made.shape is None:
        return None
    if DYNAMIC in (*tensor.shape, *made.shape) or not is_order(perms, len(tensor.shape)):
        return None
    if not is_reshape(tensor.shape, perms) or list(perms) == sorted(perms):
        return None
    sizes = edit.const_shape(made.shape, name=f"{result}_shape")
    edit.emit(RESHAPE, [source, sizes], results=op.outputs)
    return "TRANSPOSE of dimensions of size 1 became a RESHAPE"


def _without_reshapes(op: Operator, edit: BlockEditor) -> str | None:
    """Compute what is before a RESHAPE in the shape before other RESHAPEs, or return None."""
    made = edit.tensors[op.outputs[0]].shape
    first = edit.producers.get(op.inputs[0])
    if made is None or DYNAMIC in made or first is None or not first.spec.elementwise:
        return None
    shapes = _Shapes(edit)
    if not shapes.may_compute(op.inputs[0]) or shapes.given is None:
        return None
    stays = shapes.given != made
    if shapes.removed - stays < 1:
        return None
    value = shapes.compute(op.inputs[0])
    edit.emit(RESHAPE, [value, op.inputs[1]], results=op.outputs)
    return "RESHAPE of elementwise operators on a RESHAPE became one"


class _Shapes:
    """Computes elementwise operators on RESHAPEs of tensors of one shape, `given`, in that shape."""

    def __init__(self, edit: BlockEditor) -> None:
        self.edit = edit
        self.given: tuple[int, ...] | None = None
        self.between = 0
        #: The result of a RESHAPE -> how often these operators take it.
        self.taken: Counter[str] = Counter()
        self.constants: dict[str, tuple[int, ...]] = {}
        #: A value -> the one that was computed in its place.
        self.made: dict[str, str] = {}

    @property
    def removed(self) -> int:
        """Return how many RESHAPEs nothing needs any more, with the last one."""
        return 1 + sum(self.edit.uses[name] == times for name, times in self.taken.items())

    def may_compute(self, value: str, times: int = 1) -> bool:
        """Return whether a value, taken so many times, can be computed in the first RESHAPE's shape."""
        edit, op = self.edit, self.edit.producers.get(value)
        tensor = edit.tensors[value]
        if op is None or tensor.scale is not None or DYNAMIC in (tensor.shape or (DYNAMIC,)):
            return False
        if op.spec is RESHAPE:
            self.taken[value] += times
            return self._is_given(op)
        self.between += 1
        if not op.spec.elementwise or edit.uses[value] != times or self.between > _MOST_BETWEEN:
            return False
        operands = op.inputs[: op.spec.elementwise]
        values = [name for name in operands if edit.data_of(name) is None]
        return (
            bool(values)
            and all(edit.tensors[name].shape == tensor.shape for name in values)
            and all(self.may_compute(name, values.count(name)) for name in dict.fromkeys(values))
            and all(
                self._may_reshape(edit.tensors[name], tensor.shape or ())
                for name in operands
                if name not in values
            )
        )

    def _is_given(self, op: Operator) -> bool:
        source = self.edit.tensors[op.inputs[0]]
        if not source.shape or DYNAMIC in source.shape or source.scale is not None:
            return False
        self.given = self.given or source.shape
        return source.shape == self.given

    def _may_reshape(self, constant: Tensor, shape: tuple[int, ...]) -> bool:
        """Find the shape in which a constant is broadcast to the given one."""
        given = self.given
        assert given is not None
        wanted = [1] * len(given)
        for axis, size in enumerate(constant.shape or ()):
            if size == 1:
                continue
            before = prod(shape[:axis])
            places = [
                place
                for place, other in enumerate(given)
                if (other, prod(given[:place])) == (size, before)
            ]
            if not places or size != shape[axis]:
                return False
            wanted[places[-1]] = size
        self.constants[constant.name] = tuple(wanted)
        return True

    def compute(self, value: str) -> str:
        """Emit what computes a value in the given shape; return its name."""
        edit, op = self.edit, self.edit.producers[value]
        if op.spec is RESHAPE:
            return op.inputs[0]
        if value in self.made:
            return self.made[value]
        inputs = list(op.inputs)
        for place, name in enumerate(op.inputs[: op.spec.elementwise]):
            data = edit.data_of(name)
            if data is None:
                inputs[place] = self.compute(name)
            else:
                inputs[place] = edit.constant_of(
                    data, self.constants[name], name=f"{name}_reshaped"
                )
        made = edit.new_tensor(f"{value}_reshaped", edit.tensors[value].dtype, self.given)
        edit.add(replace(op, inputs=tuple(inputs), outputs=(made,)))
        self.made[value] = made
        return made
