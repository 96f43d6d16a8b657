"""What is found wrong with operations, and where they stand."""

from __future__ import annotations

from tosa_convert.bindings.diagnostics import plain_location
from tosa_convert.errors import Finding
from tosa_convert.mlir.bytecode.operations import Operation
from tosa_convert.mlir.reading.locations import LocationReader


class Report:
    """Findings. names: what MLIR calls operations, by the numbers of their names."""

    def __init__(self, names: list[str], location: LocationReader) -> None:
        self.names = names
        self.location = location
        self.findings: list[Finding] = []

    def place(self, operation: Operation) -> str:
        """Where the operation is, as messages say it."""
        return plain_location(self.location.full(operation.location))

    def say(self, operation: Operation, code: str, message: str, hint: str = "") -> None:
        """Note a finding at an operation, by its name where it has no location."""
        where = self.place(operation) or f"'{self.names[operation.name]}'"
        self.findings.append(Finding(code, where, message, hint))
