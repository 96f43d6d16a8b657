"""The packages of MLIR bindings that read modules in this process, to compare what they have read."""

from __future__ import annotations

from typing import Any, Final

from oracle.outside_tools import Refused

from tosa_convert.formats.bindings.packages import default_bindings

TORCH: Final = "torch_mlir"
IREE: Final = "iree.compiler"
PACKAGES: Final = (TORCH, IREE)


class ModuleReader:
    """One package of bindings, with one context for the modules of a batch of files.

    To make a context takes longer than to read a small module. A context keeps all constants.
    """

    def __init__(self, package: str) -> None:
        self.package = package
        self.bindings = default_bindings(package)
        self.context = self.bindings.new_context()

    def parse(self, module: bytes) -> Any:
        """Return a module, of text or bytecode, or Refused."""
        ir = self.bindings.ir
        # A key that a context knows gets another name, which would be printed.
        has_keys = b"dense_resource<" in module
        try:
            return ir.Module.parse(
                module, self.bindings.new_context() if has_keys else self.context
            )
        except ir.MLIRError as error:
            return Refused(str(error))


def readers() -> dict[str, ModuleReader]:
    """Return a reader of each package."""
    return {package: ModuleReader(package) for package in PACKAGES}
