"""Lowerings of our own: of operators that the converter does not lower, or lowers to other numbers."""
