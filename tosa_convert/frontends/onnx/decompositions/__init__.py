"""ONNX operators by simpler ONNX operators, for those that torch-mlir does not lower or gets wrong.

Each decomposition is one function of a small module, and a row of `table.py`.
"""
