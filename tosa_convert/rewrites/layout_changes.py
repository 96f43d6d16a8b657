"""Other layouts of a tensor: with permuted dimensions, or with one dimension of size 1 more or less."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.graph.constant import Constant, constant_of
from tosa_convert.graph.model import DYNAMIC, Block, Operator
from tosa_convert.graph.opset import AttributeValue, operator

Order = tuple[int, ...]

TRANSPOSE: Final = operator("TRANSPOSE")
RESHAPE: Final = operator("RESHAPE")
#: Marks a dimension of size 1 that only the other layout has.
NEW: Final = -1
#: The most dimensions of a tensor that gets one more: those that level 8K allows.
_MOST_DIMENSIONS: Final = 6
#: Constants of at most this many bytes are transposed at once.
_SMALL_BYTES: Final = 1 << 16
#: What a TRANSPOSE costs, and a RESHAPE.
_COST: Final = 4
_COST_OF_RESHAPE: Final = 1
#: Operators that take shapes, with values for each dimension -> these values of a new one, by operand.
SHAPED: Final[dict[str, dict[int, Order]]] = {
    "PAD": {1: (0, 0)},
    "SLICE": {1: (0,), 2: (1,)},
    "TILE": {1: (1,)},
}


class LayoutChange:
    """Changes tensors of one rank from their own layout to another one.

    Args:
        axes: The own dimension that each dimension of the other layout is, or NEW.
        rank: How many own dimensions there are. One that `axes` does not have has size 1.

    Attributes:
        spec: The operator that makes the change: TRANSPOSE, or RESHAPE if the number of dimensions
            changes.

    Example:
        >>> last = LayoutChange((0, 2, 3, 1), 4)
        >>> last.spec.name, last.other((1, 3, 8, 9)), last.merges((1, 1, 8, 9))
        ('TRANSPOSE', (1, 8, 9, 3), True)
        >>> heads = LayoutChange((1, 2, 3), 4)
        >>> heads.spec.name, heads.other((1, 4, 16, 8)), heads.fits((2, 4, 16, 8))
        ('RESHAPE', (4, 16, 8), False)
    """

    def __init__(self, axes: Order, rank: int) -> None:
        self.axes = axes
        self.rank = rank
        self.spec = TRANSPOSE if sorted(axes) == list(range(rank)) else RESHAPE
        self._dropped = [axis for axis in range(rank) if axis not in axes]

    @property
    def gain(self) -> str:
        """Return what an operator gains in the other layout, for the report."""
        if self.spec is TRANSPOSE:
            return f"in the layout of {self.order} needs fewer transposes"
        number = "less" if self._dropped else "more"
        return f"of one dimension of size 1 {number} needs fewer RESHAPEs"

    @property
    def verb(self) -> str:
        """Return what became of a constant, for its name."""
        return "transposed" if self.spec is TRANSPOSE else "reshaped"

    @property
    def order(self) -> Order:
        """Return the permutation that takes the other layout back, if it has as many dimensions."""
        return inverse(self.axes)

    # -- tensors ------------------------------------------------------------------------------------

    def fits(self, shape: Sequence[int]) -> bool:
        """Return whether a tensor of this shape can have the other layout."""
        return len(shape) == self.rank and all(shape[axis] == 1 for axis in self._dropped)

    def other(self, shape: Sequence[int]) -> Order:
        """Return the shape of a tensor in the other layout."""
        return tuple([1 if axis == NEW else shape[axis] for axis in self.axes])

    def merges(self, shape: Sequence[int]) -> bool:
        """Return whether the change is a TRANSPOSE that a RESHAPE does, too."""
        return self.spec is TRANSPOSE and is_reshape(shape, self.axes)

    def cost(self, shape: Sequence[int]) -> int:
        """Return what it costs to change the layout of a tensor."""
        return _COST_OF_RESHAPE if self.spec is RESHAPE or self.merges(shape) else _COST

    def is_free(self, data: Constant, shape: Sequence[int]) -> bool:
        """Return whether a constant changes without an operator, also if something needs both."""
        return data.nbytes <= _SMALL_BYTES or self.merges(shape)

    def constant(self, data: Constant, shape: Sequence[int]) -> Constant:
        """Return the data of a constant in the other layout."""
        if self.spec is RESHAPE or self.merges(shape):
            return data
        array = data.numpy().reshape(shape).transpose(self.axes)
        return constant_of(np.ascontiguousarray(array), data.dtype)

    # -- operators that work in either layout -------------------------------------------------------

    def data_of(self, op: Operator) -> range:
        """Return the positions of the operands that may have either layout; none if it is fixed."""
        if not self.axes and not op.spec.elementwise:
            return range(0)  # TOSA has no other operators on scalars.
        if op.spec is TRANSPOSE and self.spec is RESHAPE:
            perms = order_of(op)
            is_kept = is_order(perms, self.rank) and all(
                perms[axis] == axis for axis in self._dropped
            )
            return range(int(is_kept))
        axis = op.attributes.get("axis")
        if axis is not None and (axis not in range(self.rank) or axis in self._dropped):
            return range(0)
        return data_of(op)

    def may_change(self, values: Sequence[int] | None, new: Order) -> bool:
        """Return whether a shape operand has values for all dimensions, `new` where one goes."""
        each = len(new)
        return (
            values is not None
            and len(values) == each * self.rank
            and all(tuple(values[axis * each :][:each]) == new for axis in self._dropped)
        )

    def attributes(self, op: Operator) -> dict[str, AttributeValue]:
        """Return the attributes that an operator has in the other layout."""
        made: dict[str, AttributeValue] = dict(op.attributes)
        axis, perms = made.get("axis"), made.get("perms")
        if isinstance(axis, int):
            made["axis"] = self.axes.index(axis)
        if isinstance(perms, tuple):
            made["perms"] = tuple(
                [self.axes.index(NEW if own == NEW else perms[own]) for own in self.axes]
            )
        return made

    def sizes(self, values: Sequence[int], new: Order) -> Order:
        """Return a shape operand in the other layout. new: its values for a new dimension."""
        each = len(new)
        rows = [
            new if axis == NEW else values[axis * each : (axis + 1) * each] for axis in self.axes
        ]
        return tuple([value for row in rows for value in row])

    # -- operators that change the layout -----------------------------------------------------------

    def enters(self, op: Operator, block: Block, producers: Mapping[str, Operator]) -> bool:
        """Return whether the operand is the result in the other layout."""
        if self.spec is TRANSPOSE:
            return order_of(op) == self.order and not self.leaves(op, block, producers)
        return self._changes(op.outputs[0], op.inputs[0], block)

    def leaves(self, op: Operator, block: Block, producers: Mapping[str, Operator]) -> bool:
        """Return whether the result is the operand in the other layout."""
        if self.spec is RESHAPE:
            return self._changes(op.inputs[0], op.outputs[0], block)
        if order_of(op) != self.axes:
            return False
        # Where both are the same, one is chosen.
        producer = producers.get(op.inputs[0])
        return self.order != self.axes or (producer is not None and bool(data_of(producer)))

    def _changes(self, own: str, other: str, block: Block) -> bool:
        """Return whether one value is another one in the other layout, by their shapes."""
        one, two = block.tensors[own], block.tensors[other]
        if one.shape is None or DYNAMIC in one.shape or not self.fits(one.shape):
            return False
        return one.dtype is two.dtype and self.other(one.shape) == two.shape

    def emit_change(
        self, edit: BlockEditor, name: str, results: Sequence[str] | None = None
    ) -> str:
        """Emit what takes a tensor to the other layout, or back if `results` names its own one."""
        if self.spec is TRANSPOSE:
            perms = self.axes if results is None else self.order
            return edit.emit(TRANSPOSE, [name], {"perms": perms}, results=results)
        own = edit.tensors[results[0] if results else name].shape or ()
        return _emit_reshape(edit, name, own if results else self.other(own), results)

    def emit_composed(
        self,
        edit: BlockEditor,
        op: Operator,
        source: str,
        *,
        is_other: bool,
        results: Sequence[str] | None,
    ) -> str:
        """Emit a change of layout that takes the result of another one to the layout that is wanted.

        source: the operand; it has the other layout if `is_other`. results: the names of the results; if
        None, the result gets the other layout.
        """
        if self.spec is RESHAPE:
            own = edit.tensors[op.outputs[0]].shape or ()
            return _emit_reshape(edit, source, own if results else self.other(own), results)
        perms = order_of(op)
        if is_other:
            perms = tuple([self.order[axis] for axis in perms])
        if results is None:
            perms = tuple([perms[axis] for axis in self.axes])
        return edit.emit(TRANSPOSE, [source], {"perms": perms}, results=results)


def _emit_reshape(
    edit: BlockEditor, source: str, shape: Order, results: Sequence[str] | None
) -> str:
    if results is None:
        wanted = f"{edit.stem}_reshape" if edit.stem else "reshape"
        results = [edit.new_tensor(wanted, edit.tensors[source].dtype, shape)]
    return edit.emit(RESHAPE, [source, edit.const_shape(shape)], results=results)


def cost_of(block: Block) -> int:
    """Return what the changes of layout cost that something in a block uses.

    Of two RESHAPEs in a row, which become one, the first counts only if something else takes its result.
    """
    total = 0
    #: A value that is used -> whether only RESHAPEs take it.
    merges = dict.fromkeys(block.outputs, False)
    for op in reversed(block.operators):
        if op.outputs and merges.keys().isdisjoint(op.outputs):
            continue
        is_free = op.spec is RESHAPE
        if op.spec in (TRANSPOSE, RESHAPE):
            given, made = (block.tensors[name].shape for name in (op.inputs[0], op.outputs[0]))
            if op.spec is TRANSPOSE and given is not None:
                is_free = is_reshape(given, order_of(op))
            if not is_free:
                total += _COST
            elif not merges[op.outputs[0]] and given != made:
                total += _COST_OF_RESHAPE
        for name in op.inputs:
            merges[name] = merges.get(name, True) and is_free
    return total


def changes(block: Block) -> Iterator[LayoutChange]:
    """Iterate over the changes that could save operators of a block, the most frequent first."""
    found: Counter[tuple[Order, int]] = Counter()
    for op in block.operators:
        if op.spec is TRANSPOSE:
            perms, given = order_of(op), block.tensors[op.inputs[0]].shape
            if not is_order(perms, len(perms if given is None else given)):
                return  # What the program means is not known.
            if list(perms) != sorted(perms):  # It has an effect.
                found[inverse(perms), len(perms)] += 1
        elif op.spec is RESHAPE:
            one, other = (block.tensors[name].shape for name in (op.inputs[0], op.outputs[0]))
            if one is not None and other is not None and DYNAMIC not in (*one, *other):
                found.update(_of_reshape(*sorted((one, other), key=len)))
    for (axes, rank), count in found.most_common():
        # A RESHAPE needs another one to meet.
        if len(axes) == rank or count > 1:
            yield LayoutChange(axes, rank)


def _of_reshape(small: Order, large: Order) -> Iterator[tuple[Order, int]]:
    """Iterate over the changes of a RESHAPE between two shapes, of which one has a dimension more."""
    if len(large) != len(small) + 1:
        return
    rank = len(small)
    for new, size in enumerate(large):
        if size == 1 and large[:new] + large[new + 1 :] == small:
            yield tuple([axis for axis in range(rank + 1) if axis != new]), rank + 1
            if len(large) <= _MOST_DIMENSIONS:
                yield (*range(new), NEW, *range(new, rank)), rank


def data_of(op: Operator) -> range:
    """Return the positions of the operands whose dimensions an operator treats alike, or names."""
    spec = op.spec
    if op.attributes.get("per_channel"):
        return range(0)
    if spec.elementwise:
        return range(spec.elementwise)
    if spec.name == "CONCAT":
        return range(len(op.inputs))
    is_alike = spec.name.startswith("REDUCE_") or spec.name in (*SHAPED, "REVERSE", "RESCALE")
    return range(int(is_alike))


def order_of(op: Operator) -> Order:
    """Return the permutation of a TRANSPOSE."""
    perms = op.attributes["perms"]
    assert isinstance(perms, tuple)
    return perms


def is_order(perms: Order, rank: int) -> bool:
    """Return whether a TRANSPOSE with these indices is valid for tensors of a rank."""
    return sorted(perms) == list(range(rank))


def inverse(order: Order) -> Order:
    """Return the permutation that takes another one back.

    Example:
        >>> inverse((0, 3, 1, 2))
        (0, 2, 3, 1)
    """
    return tuple(order.index(axis) for axis in range(len(order)))


def is_reshape(shape: Sequence[int], order: Order) -> bool:
    """Return whether a TRANSPOSE of a tensor moves only dimensions of size 1.

    Example:
        >>> is_reshape((1, 8, 1, 1), (0, 2, 3, 1)), is_reshape((1, 8, 2, 1), (0, 2, 3, 1))
        (True, False)
    """
    moved = [axis for axis in order if shape[axis] != 1]
    return moved == sorted(moved)
