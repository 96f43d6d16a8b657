"""Print bytecode as MLIR text."""
