"""Checks of files before MLIR's own parsers, which damaged input can crash, read them."""
