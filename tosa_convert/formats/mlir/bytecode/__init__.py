"""MLIR's bytecode, decoded and encoded without MLIR."""
