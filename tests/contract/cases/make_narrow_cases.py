"""Make the programs with i64 and f64 that test_narrow.py narrows.

    pip install torch==2.13.0 torch-mlir numpy
    python make_narrow_cases.py

Writes narrow_NAME.mlir as torch-mlir lowers it, with its input and torch's own outputs as `.npy`.
Every number fits the narrower type exactly, so that torch's answer is the only right one.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch_mlir import fx
from torch_mlir.extras.fx_decomp_util import get_decomposition_table

FOLDER = Path(__file__).parent


class Argmax(nn.Module):
    """i64 comes from an operator."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.argmax(x, dim=1)


class Embedding(nn.Module):
    """i64 indices: once narrowed, the cast to i32 before the gather does nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(11, 4)
        with torch.no_grad():
            self.rows.weight.copy_(torch.arange(44).reshape(11, 4) / 8 - 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.rows(x) + 1.5


class Bounds(nn.Module):
    """i64 constants of one element, casts both ways, and a clamp that is only bounded below."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        whole = x.to(torch.int64) + 3
        return whole.clamp(-5, 7), whole.clamp(min=-2)


class Double(nn.Module):
    """f64 constants, dense and resources, and f64 bounds."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("w", torch.arange(-6, 6, dtype=torch.float64).reshape(3, 4) / 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.double() * self.w + 0.125
        return torch.clamp(y, -1.5, 2.25), torch.clamp(y, min=-0.5)


class Table(nn.Module):
    """A dense_resource of i64 with negative numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("w", torch.arange(-100, 100).reshape(10, 20))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.w - self.w


class Leftovers(nn.Module):
    """torch-mlir leaves tensors of one value as arith.constant."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        ones = torch.full((2, 4), -3)
        zeros = torch.zeros(2, 4, dtype=torch.float64) + 0.5
        return x + torch.arange(4), ones, zeros, torch.full((2, 4), 2.5, dtype=torch.float64)


class Indices(nn.Module):
    """i64 indices that are reshaped, tiled and concatenated before they are used."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        picked = x.index_select(1, torch.tensor([2, 0, 1]))
        return picked, torch.where(x > 0, 1, 0), x.gather(1, torch.tensor([[0, 1], [3, 2]]))


CASES: dict[str, tuple[nn.Module, Tensor]] = {
    "argmax": (Argmax(), torch.tensor([[1.0, 5, 2], [-1, -3, -2], [0, 0, 7]])),
    "embedding": (Embedding(), torch.tensor([[1, 2], [10, 0]])),
    "bounds": (Bounds(), torch.tensor([[-9.5, -8.0, -3.25], [0.0, 3.75, 100.5]])),
    "double": (Double(), torch.arange(12, dtype=torch.float32).reshape(3, 4) / 2 - 3),
    "table": (Table(), torch.arange(200).reshape(10, 20) - 70),
    "leftovers": (Leftovers(), torch.arange(8).reshape(2, 4) * 1000 - 3000),
    "indices": (Indices(), torch.tensor([[1.0, -2, 3, -4], [0, 5, -6, 7]])),
}


def main() -> None:
    """Write the files of every program."""
    for name, (program, given) in CASES.items():
        module = fx.export_and_import(
            program.eval(),
            given,
            output_type=fx.OutputType.TOSA,
            func_name=name,
            decomposition_table=get_decomposition_table(),
        )
        (FOLDER / f"narrow_{name}.mlir").write_text(f"{module}\n", encoding="utf-8")
        np.save(FOLDER / f"narrow_{name}_in.npy", given.numpy())
        outputs = program(given)
        for index, output in enumerate(outputs if isinstance(outputs, tuple) else (outputs,)):
            np.save(FOLDER / f"narrow_{name}_out{index}.npy", output.detach().numpy())


if __name__ == "__main__":
    main()
