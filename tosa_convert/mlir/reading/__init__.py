"""MLIR -> Graph: what a function's operations, types, attributes and locations say."""
