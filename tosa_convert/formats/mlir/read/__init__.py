"""Read a function of an MLIR module as a graph."""
