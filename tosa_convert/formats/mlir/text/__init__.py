"""MLIR's text, written without MLIR."""
