"""Torch programs, by torch-mlir or ExecuTorch."""
