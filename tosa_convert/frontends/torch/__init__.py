"""Torch programs, by torch-mlir, ExecuTorch or litert-torch."""
