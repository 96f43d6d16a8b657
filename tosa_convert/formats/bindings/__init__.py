"""Modules of MLIR's Python bindings: everything here needs MLIR installed, and nothing else does."""
