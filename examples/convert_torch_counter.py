# SPDX-License-Identifier: Apache-2.0
"""Convert a torch module with state, and compare three calls with torch.

    python convert_torch_counter.py [FILE]   # default: counter.tosa

The module adds what it computes to a buffer. In the TOSA program the buffer is a variable, so that each
run sees what the run before it left. It needs: pip install '.[torch,refmodel]'
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch

import tosa_convert as tc


class RunningSum(torch.nn.Module):
    """A linear layer whose results are summed over all calls."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.register_buffer("total", torch.zeros(2, 3))

    def forward(self, x: Any) -> Any:
        self.total.add_(self.linear(x))
        return {"mean": self.total.mean(), "total": self.total + 0}


def main() -> None:
    path = sys.argv[1] if len(sys.argv) > 1 else "counter.tosa"
    torch.manual_seed(2026)
    module = RunningSum().eval()
    graph = tc.frontends.from_torch(module, (torch.zeros(2, 4),))
    tc.save(graph, path)
    states: dict[str, Any] = {}
    for call in range(3):
        x = torch.randn(2, 4)
        result = tc.run(path, {"x": x.numpy()}, variables=states)
        states = result.variables
        with torch.no_grad():
            expected = module(x)
        error = np.abs(result.outputs["total"] - expected["total"].numpy()).max()
        print(f"call {call + 1}: largest error {error:.1g}")


if __name__ == "__main__":
    main()
