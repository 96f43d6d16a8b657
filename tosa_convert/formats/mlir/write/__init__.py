"""Write a graph as an MLIR module."""
