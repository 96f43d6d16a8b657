"""Lowering of operations on arrays to TOSA, which every framework shares."""
