"""Torch programs whose numbers are easily wrong give those of torch."""

from __future__ import annotations

import importlib.util
import logging
from typing import Any

import numpy as np
import pytest

import tosa_convert as tc

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None,
        reason="torch is not installed",
    ),
    pytest.mark.filterwarnings("ignore"),
]


def constants(x: Any) -> Any:
    """Compute constants whose elements are all equal."""
    import torch

    truth, negative = torch.full([4], True), torch.full([4], -7, dtype=torch.int32)
    return (
        torch.where(torch.ones(4) < 0, -x[:4], x[:4]),
        *(truth < 0, truth == 1, truth.to(torch.int32).reshape(2, 2) >= 0),
        *(negative % 4, torch.full([4], -7.0) % 4, torch.fmod(negative, 4)),
        torch.div(negative, torch.full([4], 4, dtype=torch.int32), rounding_mode="trunc"),
        torch.tensor(-7) % 4 + x,
    )


def quotients(x: Any) -> Any:
    """Divide multiples, whose quotients by way of a reciprocal may be one too small."""
    import torch

    y = x + 121
    multiple = y * 3
    return (
        *(torch.floor_divide(multiple, y), torch.floor_divide(-multiple, y)),
        *(torch.floor_divide(y * 49, -49.0), torch.div(-multiple, y, rounding_mode="trunc")),
        *(torch.remainder(multiple, y), torch.remainder(multiple, -y), torch.remainder(y * 49, 49)),
    )


def quantised(x: Any) -> Any:
    """Quantise to uint8, and with scales that the program computes."""
    import torch
    import torch.ao.quantization.fx._decomposed

    ops: Any = torch.ops.quantized_decomposed
    x = x * 0.75 + 0.1
    scale, zero = ops.choose_qparams.tensor(x, -128, 127, 1e-8, torch.int8)
    unsigned = ops.quantize_per_tensor(x, 0.5, 200, 0, 255, torch.uint8)
    signed = ops.quantize_per_tensor.tensor(x, scale, zero, -128, 127, torch.int8)
    rows, scales, zeros = signed[:12].reshape(3, 4), torch.tensor([0.5, 0.1, 2]), torch.arange(3)
    return (
        *(scale, zero, unsigned.to(torch.int32), signed),
        ops.dequantize_per_tensor(unsigned, 0.5, 200, 0, 255, torch.uint8),
        ops.dequantize_per_tensor.tensor(signed, scale, zero, -128, 127, torch.int8),
        ops.dequantize_per_channel(rows, scales, zeros, 0, -128, 127, torch.int8),
        ops.dequantize_per_channel(rows.T, scales, None, 1, -128, 127, torch.int8),
        *ops.choose_qparams_symmetric.tensor(x, 0, 255, 1e-8, torch.uint8),
        torch._int_mm(rows, signed[:20].reshape(4, 5)),
    )


def others(x: Any) -> Any:
    """Compute operators that few programs have."""
    import torch

    aten, prims = torch.ops.aten, torch.ops.prims
    wave = torch.sin(x * 7)
    table, kernel, rows = wave[:108].reshape(9, 3, 4), wave[:72].reshape(3, 4, 6), wave[:240]
    index = (x[:20] + 120).to(torch.int64) * 5 % 8  # More rows than places: the last one stays.
    return (
        *(torch.conv_tbc(table, kernel, kernel[0, 0], 1), torch.pdist(table[0])),
        torch.native_dropout(table, 0.5, train=False)[0],
        *(prims.view_of(table), prims.squeeze(table[:1], dimensions=[0])),
        prims.prod(table, (0, 2)),
        *torch.nn.functional.adaptive_max_pool3d(
            table[:5, :2].reshape(1, 1, 5, 2, 4), (3, 2, 3), return_indices=True
        ),
        torch.nn.functional.max_pool1d(table, 2, stride=1, padding=1, dilation=3),
        table.index_put((index,), rows.reshape(20, 3, 4)),
        aten._index_put_impl(table, (index,), rows.reshape(20, 3, 4), accumulate=True),
    )


def placed(x: Any) -> Any:
    """Put a number at indices of which several are equal, pad by less than nothing, quantise falsely."""
    import torch

    pad, rows = torch.nn.functional.pad, x.reshape(1, 24, 10)
    index = (x[:12] + 120).to(torch.int64).reshape(3, 4) % 3
    copy = x[:20].reshape(4, 5).clone()
    copy[:, index[0]] = 7.0
    scale = torch.arange(1.0, 25.0)
    aten = torch.ops.aten
    return (
        torch.zeros(3, 6).scatter_(1, index, 1.0),
        x[:20].reshape(4, 5).scatter(0, index, -1.0),
        *(copy, copy.index_fill(1, index[0] - 3, 7.0), copy.index_fill(0, index[0], x[1])),
        *(pad(rows, (1, -1), mode="reflect"), pad(rows, (-2, 3), mode="replicate")),
        *(pad(rows, (-1, 2), mode="circular"), pad(rows, (2, -1), mode="circular")),
        *(pad(x[:2], (3, -2), value=7.0), pad(x[:2], (-2, 1), value=7.0)),
        aten.fake_quantize_per_tensor_affine(x * 0.3, 0.1, 3, -128, 127),
        torch.fake_quantize_per_channel_affine(
            rows[0] * 0.3, scale, torch.zeros(24, dtype=torch.int32), 0, -8, 7
        ),
        *(x * 0, x == x),
    )


def greatest(x: Any) -> Any:
    """Pool NaN and equal numbers, and return their places."""
    import torch

    functions: Any = torch.nn.functional
    image = torch.where(x[:216] % 5 == 0, float("nan"), x[:216] % 3).reshape(1, 1, 6, 6, 6)
    return (
        *functions.max_pool3d(image, 2, return_indices=True),
        *functions.max_pool2d(image[0], 3, 2, 1, return_indices=True),
        *functions.max_pool2d(x[:216].reshape(1, 6, 36) % 3, 2, return_indices=True),
        *functions.adaptive_max_pool2d(image[0], (4, 5), return_indices=True),
    )


GROUPS = (constants, quotients, quantised, others, placed, greatest)


@pytest.fixture(scope="module")
def outputs() -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Lower one program of all groups; return its outputs, torch's, and what was logged."""
    import torch

    class Program(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            rows = {group.__name__: group(x) for group in GROUPS}
            return {**rows, "numbers": (None, 2, x + 1)}

    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("tosa_convert").addHandler(handler)
    x = torch.arange(-120.0, 120.0)
    try:
        graph = tc.frontends.from_torch(Program(), [x], narrow=["i64", "f64"])
    finally:
        logging.getLogger("tosa_convert").removeHandler(handler)
    return tc.run(graph, {graph.main.inputs[0]: x.numpy()}).outputs, Program()(x), lines


@pytest.mark.parametrize("group", [group.__name__ for group in GROUPS])
def test_numbers_equal_those_of_torch(outputs: Any, group: str) -> None:
    found, expected, _ = outputs
    for place, right in enumerate(expected[group]):
        name = f"{group}[{place}]"
        np.testing.assert_allclose(found[name], right.numpy(), rtol=2e-5, atol=2e-5, err_msg=name)


def test_results_that_are_no_tensors_are_left_out(outputs: Any) -> None:
    found, _, lines = outputs
    assert [name for name in found if name.startswith("numbers")] == ["numbers[2]"]
    assert any("is 2, which is not a tensor and is left out" in line for line in lines)


def test_a_program_without_tensors_is_refused() -> None:
    import torch

    class Number(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.shape[0], None

    with pytest.raises(tc.TosaConvertError, match="it returns no tensor"):
        tc.frontends.from_torch(Number(), [torch.ones(3)])


def test_complex_inputs_are_refused_before_torch_decomposes_them() -> None:
    import torch

    from tosa_convert.frontends.torch.convert import lower_directly
    from tosa_convert.frontends.torch.refusals import NotLoweredError

    class Imaginary(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.imag(x)

    program = torch.export.export(Imaginary(), (torch.ones(3, dtype=torch.complex64),))
    with pytest.raises(NotLoweredError, match="input x: it is complex"):
        lower_directly(program, ())
