"""Findings at operations, with the operations' locations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tosa_convert.errors import Findings
from tosa_convert.formats.mlir.locations import LocationReader, plain_location

if TYPE_CHECKING:
    from tosa_convert.formats.mlir.bytecode.operations import Operation


class Report:
    """Collects findings. names: the full names of operations, by their numbers."""

    def __init__(self, names: list[str], location: LocationReader) -> None:
        self.names = names
        self.location = location
        self.findings = Findings()

    def where(self, operation: Operation) -> str:
        """Return the operation's location as messages print it; "" if it has none."""
        return plain_location(self.location.full(operation.location))

    def add(self, operation: Operation, code: str, message: str, hint: str = "") -> None:
        """Add a finding at an operation, or at its name if it has no location."""
        where = self.where(operation) or f"'{self.names[operation.name]}'"
        self.findings.add(code, where, message, hint)
