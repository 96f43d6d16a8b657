"""Torch's pools in the forms that torch-mlir does not lower to TOSA."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, Final

import torch

#: Positions of a window above which it is not written out as slices.
_POSITIONS: Final = 64


def all_sizes(value: Any, count: int) -> list[int]:
    """Return a size for each axis, of which torch may have one for all."""
    given = list(value) if isinstance(value, Sequence) else [value]
    return given * count if len(given) == 1 else given


def _windows(x: Any, kernel: list[int], stride: list[int], dilation: list[int]) -> Iterator[Any]:
    """Iterate over the positions in the window.

    Each gives the elements of all windows there, as a strided slice.
    """
    axes = range(x.dim() - len(kernel), x.dim())
    sizes = [
        (x.shape[axis] - (k - 1) * d - 1) // s + 1
        for axis, k, s, d in zip(axes, kernel, stride, dilation, strict=True)
    ]
    for position in product(*(range(k) for k in kernel)):
        part = x
        for axis, p, n, s, d in zip(axes, position, sizes, stride, dilation, strict=True):
            part = torch.ops.aten.slice.Tensor(part, axis, p * d, p * d + (n - 1) * s + 1, s)
        yield part


def _padded(x: Any, padding: list[int], fill: float) -> Any:
    if not any(padding):
        return x
    return torch.constant_pad_nd(
        x, [p for amount in reversed(padding) for p in (amount, amount)], fill
    )


def constant_pad(x: Any, pad: Sequence[int], value: Any = 0) -> Any:
    """Negative padding as slices: TOSA's PAD only adds."""
    if min(pad, default=0) >= 0:
        return NotImplemented
    for index in range(0, len(pad), 2):
        axis = x.dim() - 1 - index // 2
        front, back = (max(-amount, 0) for amount in pad[index : index + 2])
        x = x.narrow(axis, front, x.shape[axis] - front - back)
    added = [max(amount, 0) for amount in pad]
    return torch.constant_pad_nd(x, added, value) if any(added) else x.clone()


def max_pool_dilated(
    x: Any,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    """Pool over windows that have gaps, by the maximum of slices."""
    kernel, gaps = all_sizes(kernel_size, 2), all_sizes(dilation, 2)
    if gaps == [1, 1] or ceil_mode or math.prod(kernel) > _POSITIONS:
        return NotImplemented
    step = all_sizes(stride, 2) if stride else kernel
    result = None
    for part in _windows(_padded(x, all_sizes(padding, 2), -math.inf), kernel, step, gaps):
        result = part if result is None else torch.maximum(result, part)
    return result


def average_pool_3d(
    x: Any,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """TOSA has pools over two axes only: the mean of slices."""
    kernel, pads = all_sizes(kernel_size, 3), all_sizes(padding, 3)
    if ceil_mode or math.prod(kernel) > _POSITIONS or (any(pads) and not count_include_pad):
        return NotImplemented
    step = all_sizes(stride, 3) if stride else kernel
    total = None
    for part in _windows(_padded(x, pads, 0.0), kernel, step, [1] * 3):
        total = part if total is None else total + part
    assert total is not None
    return total / (divisor_override or math.prod(kernel))
