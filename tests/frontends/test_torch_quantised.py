"""Test quantised torch programs by the usual route: partly in floating point, and with a warning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from frontends.quantised_modules import needs_packages

import tosa_convert as tc
from tosa_convert.cli.main import run, verb

pytestmark = [needs_packages("torch"), pytest.mark.filterwarnings("ignore")]

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


CONVOLUTION = """
class Convolution(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("w", torch.randint(-127, 128, (4, 3, 3, 3), dtype=torch.int8))
        self.bias = torch.nn.Parameter(torch.randn(4))

    def forward(self, x):
        q = ops.quantize_per_tensor(x, 0.02, -3, -128, 127, torch.int8)
        x = ops.dequantize_per_tensor(q, 0.02, -3, -128, 127, torch.int8)
        w = ops.dequantize_per_tensor(self.w, 0.01, 0, -127, 127, torch.int8)
        y = torch.relu(torch.nn.functional.conv2d(x, w, self.bias))
        q = ops.quantize_per_tensor(y, 0.05, -128, -128, 127, torch.int8)
        return ops.dequantize_per_tensor(q, 0.05, -128, -128, 127, torch.int8)


def convolution():
    return Convolution().eval(), (torch.randn(1, 3, 8, 8),)
"""


def test_a_convolution_between_them_is_one_of_integers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, made = tmp_path / "model.py", tmp_path / "m.tosa"
    path.write_text(SOURCE + CONVOLUTION, encoding="utf-8")
    assert run(verb("convert"), [f"{path}:convolution", "-o", str(made), "--check"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("ok")]
    # Four steps of the output.
    assert "[atol 0.2 " in line
    block = tc.load(made).main
    kinds = {op.spec.name: block.tensors[op.outputs[0]].dtype.name for op in block.operators[::-1]}
    assert kinds["CONV2D"] == "INT32"
    assert "FLOOR" not in kinds


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
    assert "is computed in floating point" in line
    assert "--via executorch makes integer arithmetic of it" in line


LAYOUTS = """
library = torch.library.Library("dim_order_ops", "FRAGMENT")
if not hasattr(torch.ops.dim_order_ops, "_to_dim_order_copy"):
    library.define("_to_dim_order_copy(Tensor x, *, ScalarType? dtype, int[]? dim_order) -> Tensor")
    library.define("_clone_dim_order(Tensor x, *, int[]? dim_order) -> Tensor")
    how = "CompositeExplicitAutograd"
    library.impl("_to_dim_order_copy", lambda x, *, dtype, dim_order: x.to(dtype, copy=True), how)
    library.impl("_clone_dim_order", lambda x, *, dim_order: x.clone(), how)


class Cast(torch.nn.Module):
    def forward(self, x):
        x = torch.ops.dim_order_ops._to_dim_order_copy(x, dtype=torch.int32, dim_order=[0, 1])
        return torch.ops.dim_order_ops._clone_dim_order(x, dim_order=[0, 1]) + 1


def cast():
    return Cast(), (torch.randn(2, 3),)
"""


def test_layouts_that_executorch_chose_are_left_out() -> None:
    scope: dict[str, Any] = {}
    exec(compile(SOURCE + LAYOUTS, "cast.py", "exec"), scope)
    graph = tc.frontends.from_torch(*scope["cast"]())
    assert {"CAST", "ADD"} <= {op.spec.name for op in graph.main.operators}


def test_scales_of_64_bits_that_only_quantisers_use_are_carried_in_32() -> None:
    import torch
    import torch.ao.quantization.fx._decomposed
    from frontends.torch_runs import assert_equal

    ops: Any = torch.ops.quantized_decomposed

    def quantised(x: Any) -> Any:
        scale, zero = ops.choose_qparams.tensor(x, 0, 255, 2**-12, torch.uint8)
        made = ops.quantize_per_tensor.tensor(x, scale, zero, 0, 255, torch.uint8)
        return made.to(torch.int32), zero

    assert_equal(quantised, torch.randn(50, 40, generator=torch.Generator().manual_seed(0)))
    with pytest.raises(Exception, match="float64"):
        assert_equal(
            lambda x: ops.choose_qparams.tensor(x, 0, 255, 2**-12, torch.uint8), *[torch.ones(2)]
        )
