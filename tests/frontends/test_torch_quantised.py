"""A quantised torch program by the usual route: in floating point, and with a warning."""

from __future__ import annotations

from pathlib import Path

import pytest
from frontends.quantised_modules import needs_packages

from tosa_convert.cli.main import run, verb

pytestmark = [needs_packages("torch", "torch_mlir"), pytest.mark.filterwarnings("ignore")]

SOURCE = """
import torch
import torch.ao.quantization.fx._decomposed

ops = torch.ops.quantized_decomposed


class Net(torch.nn.Module):
    def forward(self, x):
        q = ops.quantize_per_tensor(x, 0.5, -3, -128, 127, torch.int8)
        return torch.relu(ops.dequantize_per_tensor(q, 0.5, -3, -128, 127, torch.int8))


def net():
    return Net().eval(), (torch.randn(2, 3),)


def save(path):
    torch.export.save(torch.export.export(*net()), path)
"""


@pytest.mark.parametrize("saved", [False, True])
def test_a_warning_names_the_route_with_integers(
    tmp_path: Path, saved: bool, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "model.py"
    path.write_text(SOURCE, encoding="utf-8")
    source = f"{path}:net"
    if saved:
        names: dict[str, object] = {}
        exec(SOURCE, names)
        source = str(tmp_path / "net.pt2")
        names["save"](source)  # type: ignore[operator]
    assert run(verb("convert"), [source, "-o", str(tmp_path / "m.tosa")]) == 0
    (line,) = [row.getMessage() for row in caplog.records if row.name == "tosa_convert"]
    assert "its arithmetic is in floating point" in line
    assert "--via executorch makes integer arithmetic of it" in line
