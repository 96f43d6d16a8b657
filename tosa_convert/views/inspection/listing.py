"""The operators, tensors and constants of a program as rows, for listings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from tosa_convert.graph.dtypes import DType
from tosa_convert.rules.costs import Amount, multiply_accumulates
from tosa_convert.views.inspection.summary import ValueSummary, summary_of, tensor_bytes
from tosa_convert.views.inspection.value_statistics import Statistics, statistics

if TYPE_CHECKING:
    from tosa_convert.graph.model import Block, Graph, Operator, Region


#: The value of an attribute without types of ours.
Plain = int | bool | float | str | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """An operator.

    index: its number in its block.
    attributes: names, and the values as `print(block)` shows them.
    values: the attributes' values: numbers, texts and tuples of them; enums and types by name, bytes in
        hexadecimal.
    work: its multiply-accumulates; None if it has none.
    regions: the names of the regions that it runs.
    """

    region: str
    block: str
    index: int
    name: str
    inputs: tuple[ValueSummary, ...]
    outputs: tuple[ValueSummary, ...]
    attributes: tuple[tuple[str, str], ...]
    values: tuple[tuple[str, Plain], ...]
    location: str
    work: Amount | None
    regions: tuple[str, ...]

    def texts(self) -> Iterator[str]:
        """Iterate over what a search looks at: the operator, its location, the names of its values."""
        yield self.name
        yield self.location
        for value in (*self.inputs, *self.outputs):
            yield value.name


@dataclass(frozen=True, slots=True)
class TensorRow:
    """A tensor, or a !tosa.shape.

    kind: "constant", "input", "variable", or "activation" for what an operator computes.
    size: its bytes in a file, scales included; None for a !tosa.shape.
    producer: the operator that computes it and its number; "" and -1 if there is none.
    users: the operators that read it, as often as they do.
    location: that of its producer.
    """

    region: str
    block: str
    value: ValueSummary
    kind: str
    size: Amount | None
    producer: str
    producer_index: int
    users: tuple[str, ...]
    location: str

    def texts(self) -> Iterator[str]:
        """Iterate over what a search looks at: name, operators and location."""
        yield self.value.name
        yield self.producer
        yield self.location
        yield from self.users


@dataclass(frozen=True, slots=True)
class ConstantRow:
    """A constant, or the scales of one, and the statistics of its values."""

    tensor: TensorRow
    value: ValueSummary
    nbytes: int
    statistics: Statistics


#: Whether a row is wanted, from the texts that a search looks at.
Wanted = Callable[[Iterator[str]], bool]


def everything(texts: Iterator[str]) -> bool:
    return True


def operator_rows(graph: Graph, wanted: Wanted = everything) -> Iterator[OperatorRow]:
    """Iterate over the operators of all regions, in the order of the file."""
    for region, block in _blocks(graph):
        for row in operator_rows_of(region, block):
            if wanted(row.texts()):
                yield row


def operator_rows_of(region: Region, block: Block) -> Iterator[OperatorRow]:
    for index, operator in enumerate(block.operators):
        yield OperatorRow(
            region.name,
            block.name,
            index,
            operator.spec.name,
            tuple(summary_of(block, name) for name in operator.inputs),
            tuple(summary_of(block, name) for name in operator.outputs),
            tuple(block.attribute_texts(operator)),
            tuple(_plain_values(block, operator)),
            operator.location,
            multiply_accumulates(operator, block),
            tuple(
                str(operator.attributes[row.name])
                for row in operator.spec.regions
                if row.name in operator.attributes
            ),
        )


def _plain_values(block: Block, operator: Operator) -> Iterator[tuple[str, Plain]]:
    for name, value in operator.attributes.items():
        if isinstance(value, bytes):
            number = block.element_of(operator, name)
            yield name, value.hex() if number is None else number
        elif isinstance(value, (IntEnum, DType)):
            yield name, value.name
        else:
            yield name, value


def tensor_rows(graph: Graph, wanted: Wanted = everything) -> Iterator[TensorRow]:
    """Iterate over the tensors and shapes of all blocks, in the order of the file.

    Example:
        >>> import tosa_convert as tc
        >>> rows = list(tensor_rows(tc.load("digits_cnn.tosa")))
        >>> print(rows[0].value.name, rows[0].value, rows[0].kind, rows[0].size, rows[0].users)
        image FP32 [1, 1, 16, 16] input 1,024 ('RESHAPE',)
    """
    for region, block in _blocks(graph):
        uses = _Uses(block)
        for name in (*block.tensors, *block.shapes):
            row = _tensor_row(region, block, name, uses)
            if wanted(row.texts()):
                yield row


@dataclass(slots=True)
class _Uses:
    """Who computes and who reads each value of a block."""

    block: Block
    producers: dict[str, tuple[int, Operator]] = field(default_factory=dict)
    users: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for index, operator in enumerate(self.block.operators):
            for name in operator.outputs:
                self.producers.setdefault(name, (index, operator))
            for name in operator.inputs:
                self.users.setdefault(name, []).append(operator.spec.name)


def _tensor_row(region: Region, block: Block, name: str, uses: _Uses) -> TensorRow:
    index, producer = uses.producers.get(name, (-1, None))
    tensor = block.tensors.get(name)
    if tensor is not None and tensor.variable:
        kind = "variable"
    elif producer is None:
        kind = "input" if name in block.inputs else "unused"
    else:
        kind = "constant" if not producer.spec.operands else "activation"
    return TensorRow(
        region.name,
        block.name,
        summary_of(block, name),
        kind,
        None if tensor is None else tensor_bytes(tensor),
        "" if producer is None else producer.spec.name,
        index,
        tuple(uses.users.get(name, ())),
        "" if producer is None else producer.location,
    )


def constant_rows(graph: Graph, wanted: Wanted = everything) -> Iterator[ConstantRow]:
    """Iterate over constants of all blocks, and initial values of variables; each is read in turn."""
    for region, block in _blocks(graph):
        uses = _Uses(block)
        for name, tensor in block.tensors.items():
            scales = None if tensor.scale is None else tensor.scale.data
            if tensor.data is None and scales is None:
                continue
            row = _tensor_row(region, block, name, uses)
            if not wanted(row.texts()):
                continue
            if tensor.data is not None:
                yield ConstantRow(row, row.value, tensor.data.nbytes, statistics(tensor.data))
            if tensor.scale is not None and scales is not None:
                size = (scales.count,)
                value = ValueSummary(f"{name}/scale", tensor.scale.dtype.name, size)
                yield ConstantRow(row, value, scales.nbytes, statistics(scales))


def _blocks(graph: Graph) -> Iterator[tuple[Region, Block]]:
    for region in graph.regions:
        for block in region.blocks:
            yield region, block
