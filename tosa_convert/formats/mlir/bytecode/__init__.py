"""MLIR's bytecode, decoded and encoded without MLIR.

Programs pass between Python and MLIR as bytecode, in one call. To ask the bindings for each operation,
operand, type and location takes many microseconds an operation; MLIR writes and parses bytecode in one
or two. The encoding is versioned, and MLIR promises to write and read old versions.
"""
