"""The error that the reference model itself makes in a network, measured instead of guessed.

The reference runs in FP64, and in the network's own types. How far the two are apart is the rounding
error of a correct implementation, but in a small tensor it can be small by chance, and where a network
rounds, compares or looks up, a tensor may have no error or a large one. So the reference also runs in
FP64 with noise: each result of an inexact operator is multiplied by 1, or by 1 and one unit in the last
place more or less, at random. The largest of these errors counts.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np

from tosa_convert.builder.edit import BlockEditor, change_blocks
from tosa_convert.golden.accuracy.criteria import NetworkCheck, half_units
from tosa_convert.golden.accuracy.error_bounds import FLOATS, numbers
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.model import Block, Graph, Tensor

#: Element types that MUL has.
_TYPES: Final = frozenset(("FP32", "FP16", "BF16"))
#: Elements of noise; in a larger tensor the noise repeats along the leading dimensions.
_ELEMENTS: Final = 1 << 16
#: Elements that are measured at a time.
_BLOCK: Final = 1 << 16


def with_noise(graph: Graph, seed: int) -> Graph:
    """Copy the program, with noise added to the results of inexact operators, also inside regions."""
    return change_blocks(graph, lambda where, block: _noisy_block(where, block, seed))


def _noisy_block(where: str, block: Block, seed: int) -> Block:
    edit = BlockEditor(block, where)
    for op in edit.visit():
        names = {}
        for name in op.outputs if op.spec.is_inexact else ():
            tensor = block.tensors[name]
            if _takes_noise(tensor):
                names[name] = edit.new_tensor(f"{name}/exact", tensor.dtype, tensor.shape)
        if not names:
            continue
        edit.add(replace(op, outputs=tuple(names.get(name, name) for name in op.outputs)))
        for name, raw in names.items():
            tensor = block.tensors[name]
            noise = edit.constant(_noise(tensor, seed), tensor.dtype, name=f"{name}/noise")
            edit.emit("MUL", [raw, noise], results=[name])
    return edit.finish()


def _takes_noise(tensor: Tensor) -> bool:
    is_static = tensor.shape is not None and min(tensor.shape, default=1) > 0
    return is_static and tensor.dtype.name in _TYPES and tensor.scale is None


def _noise(tensor: Tensor, seed: int) -> Array:
    """1, or one unit in the last place less or more, for each element."""
    assert tensor.shape is not None
    shape = list(tensor.shape)
    for axis in range(len(shape)):
        if math.prod(shape) <= _ELEMENTS:
            break
        shape[axis] = 1
    generator = np.random.default_rng([seed, zlib.crc32(tensor.name.encode(errors="replace"))])
    unit = 2.0 ** -FLOATS[tensor.dtype.name][0]
    noise = 1 + unit * generator.integers(-1, 2, shape)
    return np.asarray(noise.astype(tensor.dtype.numpy))


def measured(row: DType, golden: Array, exact: Array, noisy: Iterable[Array]) -> NetworkCheck:
    """Measure the error of a tensor's golden answer.

    Args:
        row: the tensor's element type.
        golden: what the reference computes in its own types.
        exact: the result in FP64.
        noisy: results in FP64 with noise.
    """
    flat = exact.reshape(-1)
    half_squares = 0.0
    half_largest = 0.0
    unsure = np.zeros(flat.shape, np.bool_)
    errors = []
    for other in (golden, *noisy):
        squares, largest = 0.0, 0.0
        values = other.reshape(-1)
        for start in range(0, flat.size, _BLOCK):
            part = slice(start, start + _BLOCK)
            right = flat[part].astype(np.float64)
            found = numbers(values[part], row) if other is golden else values[part]
            with np.errstate(all="ignore"):
                error = np.abs(found.astype(np.float64) - right)
            same = (found == right) | (np.isnan(found) & np.isnan(right))
            error = np.where(same, 0.0, error)
            unsure[part] |= ~np.isfinite(error)
            error = np.where(np.isfinite(error), error, 0.0)
            squares += float(np.square(error).sum())
            largest = max(largest, float(error.max(initial=0.0)))
            if other is golden:
                half = half_units(right, row)
                half_squares += float(np.square(half).sum())
                half_largest = max(half_largest, float(half.max(initial=0.0)))
        errors.append((math.sqrt(squares), largest))
    return NetworkCheck(
        row,
        exact,
        max(root for root, _ in (*errors, (math.sqrt(half_squares), 0.0))),
        max(largest for _, largest in (*errors, (0.0, half_largest))),
        unsure if unsure.any() else None,
    )
