"""Operations of older releases of the dialect: found in a function, and brought to today's form."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from typing import Final

from tosa_convert.eras.editor import OldOperation, OldValue, Upgrade
from tosa_convert.eras.table import RULES, is_old
from tosa_convert.eras.upgrade import upgrade_block
from tosa_convert.formats.mlir.bytecode.attributes import (
    DenseArrayAttr,
    ScalarAttr,
    SymbolAttr,
    TypeAttr,
)
from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.bytecode.operations import Fields
from tosa_convert.formats.mlir.locations import Report, plain_location
from tosa_convert.formats.mlir.read.operator import RENAMED
from tosa_convert.formats.mlir.read.scope import Scope
from tosa_convert.graph.dtypes import BY_MLIR
from tosa_convert.graph.model import Block, Operator, element_value, in_usual_order

#: `#tosa.conv_quant<input_zp = 3, weight_zp = 1>`, and the other attributes of zero points.
_QUANTISATION: Final = re.compile(r"#tosa\.\w+_quant<([^<>]*)>\Z")
_PAIR: Final = re.compile(r"\s*(\w+)\s*=\s*(-?[0-9]{1,10})\s*\Z")
#: An enum, such as `#tosa.nan_mode<PROPAGATE>`.
_MEMBER: Final = re.compile(r"#tosa\.\w+<(\w+)>\Z")
#: Lists within lists: no attribute of an old operation has more.
_MAX_DEPTH: Final = 3
_ARRAYS: Final = {"i8": "b", "i32": "i", "i64": "q"}


class OldOperations:
    """The old operations of one function."""

    def __init__(self, bytecode: Bytecode, report: Report, upgrade: Upgrade) -> None:
        self.bytecode = bytecode
        self.report = report
        self.upgrade = upgrade

    def read(
        self,
        fields: Fields,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        location: str,
        scope: Scope,
    ) -> OldOperation | None:
        """Read the operation if it has the form of an older release, or return None."""
        name = self.bytecode.names[fields[0]]
        if name not in RULES:
            return None
        numbers = self.bytecode.dictionary(fields[2])
        attributes = {key: self._value(number, _MAX_DEPTH) for key, number in numbers.items()}
        old = OldOperation(name, inputs, outputs, attributes, location)
        if not is_old(old, scope.tensors):
            return None
        self.upgrade.is_old = True
        return old

    def _value(self, number: int, depth: int) -> OldValue:
        """Convert an attribute to a value of Python; None if no rule reads its kind."""
        attribute = self.bytecode.attribute(number)
        if isinstance(attribute, bytes):
            return attribute
        if isinstance(attribute, ScalarAttr):
            return _number(attribute)
        if isinstance(attribute, DenseArrayAttr):
            form = _ARRAYS.get(str(attribute.element))
            return struct.unpack(f"<{attribute.count}{form}", attribute.data) if form else None
        if isinstance(attribute, TypeAttr):
            return BY_MLIR.get(str(attribute.type))
        if isinstance(attribute, SymbolAttr):
            return attribute.name
        if isinstance(attribute, str):
            return _from_text(attribute)
        if depth and isinstance(attribute, list):
            return [self._value(item, depth - 1) for item in attribute]
        if depth and isinstance(attribute, dict):
            return {key: self._value(item, depth - 1) for key, item in attribute.items()}
        return None

    def count_renamed(self, names: Iterable[str]) -> None:
        for name in names:
            self.upgrade.is_old = True
            today = RENAMED[name].partition(".")[2]
            self.upgrade.add(name.partition(".")[2], f"its name is {today}")

    def finish(self, blocks: Iterable[Block], unsigned: dict[int, set[str]]) -> None:
        """Bring all blocks to today's form. unsigned: values of unsigned types, by identity of block."""
        for block in blocks:
            found = unsigned.get(id(block), set())
            upgrade_block(block, block.operators, found, self.upgrade, self._refuse)
            block.tensors = in_usual_order(block.tensors)
            for _ in found:
                self.upgrade.add("unsigned types", "they are signless, with the same bits")

    def _refuse(self, item: Operator | OldOperation, reason: str, hint: str) -> None:
        name = item.name if isinstance(item, OldOperation) else item.spec.mlir
        where = plain_location(item.location) or f"'{name}'"
        message = f"'{name}' has no form in TOSA 1.0: {reason}"
        self.report.findings.add("cannot-upgrade", where, message, hint)


def _number(attribute: ScalarAttr) -> OldValue:
    """Return a number of MLIR; None if its type has no form in TOSA."""
    if not attribute.is_float:
        return bool(attribute.bits) if attribute.type == "i1" else attribute.signed()
    text = str(attribute.type)
    if text == "f64":
        value: float = struct.unpack("<d", struct.pack("<Q", attribute.bits))[0]
        return value
    dtype = BY_MLIR.get(text)
    if dtype is None:
        return None
    raw = attribute.bits.to_bytes(8, "little")[: dtype.element_bytes]
    return float(element_value(raw, dtype))


def _from_text(text: str) -> OldValue:
    """Parse an attribute of the dialect: zero points by their names, or the member of an enum."""
    member = _MEMBER.match(text)
    if member is not None:
        return member[1]
    zero_points = _QUANTISATION.match(text)
    if zero_points is None:
        return None
    pairs = [_PAIR.match(pair) for pair in zero_points[1].split(",") if pair.strip()]
    if any(pair is None for pair in pairs):
        return None
    return {pair[1]: int(pair[2]) for pair in pairs if pair is not None}
