"""MLIR's bytecode, the one form that crosses between Python and MLIR in a single call.

Asking the bindings for each operation, operand, type and location costs many microseconds an
operation; MLIR writes and parses bytecode at one or two. The encoding is versioned, and MLIR promises
to write old versions and to read them.
"""
