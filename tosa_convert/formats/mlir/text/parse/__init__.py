"""Parse MLIR text into bytecode."""
