"""Torch programs, by rules of our own or by ExecuTorch."""
