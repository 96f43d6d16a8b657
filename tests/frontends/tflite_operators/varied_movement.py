"""Programs of operators that move elements, repeat them or make them; see varied.py."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from frontends.tflite_operators.draw import Draw
from frontends.tflite_operators.values import PLAIN, Quantized
from frontends.tflite_schema import ELEMENT_TYPES

_MOVED: Final = ("float32", "int32", "int8", "uint8", "int16", "bool")


def reshaped(d: Draw) -> None:
    """RESHAPE, SQUEEZE, EXPAND_DIMS, SHAPE and RANK."""
    x = d.given(d.turn(*_MOVED), d.shape(1, 4))
    rank, row = len(x.shape), d.like(x)
    match d.operator:
        case "RESHAPE":
            whole = math.prod(x.shape)
            part = d.pick(*(size for size in range(1, whole + 1) if whole % size == 0))
            sizes = d.pick([-1], [part, whole // part], [part, -1], [1, whole], [part, 1, -1])
            if d.chance(0.4):
                d.apply([x], row, new_shape=sizes)
            else:
                d.apply([x, d.ints(sizes)], row)
        case "SQUEEZE":
            ones = [axis for axis, size in enumerate(x.shape) if size == 1]
            axes = [axis - rank * d.chance(0.5) for axis in ones if d.chance(0.6)]
            d.apply([x], row, squeeze_dims=axes)
        case "EXPAND_DIMS":
            d.apply([x, d.ints(d.pick([d.axis(rank + 1)], d.axis(rank + 1)))], row)
        case "SHAPE":
            wide = d.pick("int32", "int64")
            d.apply([x], wide, out_type=ELEMENT_TYPES[wide])
        case _:
            d.apply([x], "int32")


def laid_out(d: Draw) -> None:
    """TRANSPOSE, REVERSE_V2, TILE and BROADCAST_TO."""
    x = d.given(d.turn(*_MOVED), d.shape(1, 4), constant=0.1)
    rank, row = len(x.shape), d.like(x)
    match d.operator:
        case "TRANSPOSE":
            order = list(range(rank))
            d.random.shuffle(order)
            d.apply([x, d.ints([axis - rank * d.chance(0.2) for axis in order])], row)
        case "REVERSE_V2":
            d.apply([x, d.ints([d.axis(rank)])], row)
        case "TILE":
            times = d.ints([d.pick(1, 1, 2, 3) for _ in range(rank)], d.pick("int32", "int64"))
            d.apply([x, times], row)
        case _:
            more = [d.between(2, 4) if size == 1 else size for size in x.shape]
            sizes = [*d.shape(0, 2, 3), *more]
            d.apply([x, d.ints(sizes, d.pick("int32", "int64"))], row)


def blocks(d: Draw) -> None:
    """Blocks between space, depth and batch."""
    dtype, block = d.turn("float32", "int8", "uint8", "int32"), d.between(1, 3)
    count, height, width, depth = d.between(1, 2), d.between(1, 3), d.between(1, 3), d.between(1, 3)
    match d.operator:
        case "DEPTH_TO_SPACE":
            x = d.given(dtype, (count, height, width, depth * block**2))
            d.apply([x], x, block_size=block)
        case "SPACE_TO_DEPTH":
            x = d.given(dtype, (count, height * block, width * block, depth))
            d.apply([x], x, block_size=block)
        case _:
            own = [block, d.between(1, 3)][: d.pick(1, 2, 2)]
            edges = [[d.between(0, 2), d.between(0, 2)] for _ in own]
            sizes = [
                size * one + max(0, low + high - (size - 1) * one)
                for size, one, (low, high) in zip((height, width), own, edges, strict=False)
            ]
            if d.operator == "SPACE_TO_BATCH_ND":
                sizes = [
                    size * one + -(low + high) % one
                    for size, one, (low, high) in zip((height, width), own, edges, strict=False)
                ]
                shape = (count, *sizes, depth)
            else:
                edges = [
                    [min(low, one), min(high, one)]
                    for (low, high), one in zip(edges, own, strict=True)
                ]
                sizes = [size + 2 for size in (height, width)[: len(own)]]
                shape = (count * math.prod(own), *sizes, depth)
            x = d.given(dtype, shape)
            d.apply([x, d.ints(own), d.ints(edges)], x)


def reverse_sequence(d: Draw) -> None:
    shape = d.shape(2, 4)
    first, second = d.random.sample(range(len(shape)), 2)
    x = d.given(d.turn("float32", "uint8", "int32", "int16"), shape)
    lengths = d.given(d.pick("int32", "int64"), (shape[second],), 1, shape[first])
    d.apply([x, lengths], x, seq_dim=first, batch_dim=second)


def joined(d: Draw) -> None:
    """CONCATENATION and PACK."""
    dtype = d.turn("float32", "int8", "uint8", "int16", "int32")
    shape, held, count = d.shape(1, 4), d.quantized(dtype), d.between(1, 3)
    if d.operator == "PACK":
        values = [d.given(dtype, shape, quantized=held, constant=0.2) for _ in range(count)]
        d.apply(values, values[0], values_count=count, axis=d.axis(len(shape) + 1))
        return
    axis = d.axis(len(shape))
    values = []
    for _ in range(count):
        sizes = list(shape)
        sizes[axis] = d.between(1, 3)
        own = d.quantized(dtype) if dtype == "uint8" and d.chance(0.4) else held
        values.append(d.given(dtype, tuple(sizes), quantized=own, constant=0.2))
    d.apply(values, (dtype, (1,), held), axis=axis, activation=0)


def parted(d: Draw) -> None:
    """UNPACK, SPLIT and SPLIT_V."""
    dtype = d.turn("float32", "int8", "uint8", "int16", "int32")
    shape, count = list(d.shape(1, 4)), d.between(1, 3)
    axis = d.axis(len(shape))
    match d.operator:
        case "UNPACK":
            x = d.given(dtype, tuple(shape))
            d.apply([x], *[x] * shape[axis], num=shape[axis], axis=axis)
        case "SPLIT":
            shape[axis] = count * d.between(1, 2)
            x = d.given(dtype, tuple(shape))
            d.apply([d.ints(axis), x], *[x] * count, num_splits=count)
        case _:
            sizes = [d.between(1, 3) for _ in range(count)]
            shape[axis] = sum(sizes)
            if d.chance(0.5):
                sizes[d.between(0, count - 1)] = -1
            x = d.given(dtype, tuple(shape))
            d.apply([x, d.ints(sizes), d.ints(axis)], *[x] * count, num_splits=count)


def sliced(d: Draw) -> None:
    """SLICE and STRIDED_SLICE."""
    shape = d.shape(1, 4)
    x = d.given(d.turn(*_MOVED), shape)
    if d.operator == "SLICE":
        begin = [d.between(0, size - 1) for size in shape]
        sizes = [d.between(1, size - first) for size, first in zip(shape, begin, strict=True)]
        if d.chance(0.3):
            values = [x, d.given("int32", array=np.array(begin, np.int32)), d.ints(sizes)]
        else:
            kind, asked = d.pick("int32", "int64"), list(sizes)
            for axis, (size, first) in enumerate(zip(shape, begin, strict=True)):
                if d.chance(0.25):
                    sizes[axis], asked[axis] = size - first, -1
            values = [x, d.ints(begin, kind), d.ints(asked, kind)]
        d.apply(values, (x.dtype, tuple(sizes), x.quantized))
        return
    rows: list[tuple[int, int, int]] = []
    masks = dict.fromkeys(("begin", "end", "ellipsis", "new_axis", "shrink_axis"), 0)
    left = list(shape)
    while left and (not rows or d.chance(0.7)):
        bit = 1 << len(rows)
        if not masks["ellipsis"] and d.chance(0.1):
            masks["ellipsis"] |= bit
            rows.append((0, 0, 1))
            left = left[d.between(1, len(left)) :]
            continue
        if d.chance(0.1):
            masks["new_axis"] |= bit
            rows.append((0, 0, 1))
            continue
        size = left.pop(0)
        step = d.pick(1, 1, 2, -1, -2, 3)
        first = d.between(-size, size - 1)
        if d.chance(0.2):
            masks["shrink_axis"] |= bit
            rows.append((first, first + 1, 1))
            continue
        at = first % size
        last = d.between(at + 1, size + 2) if step > 0 else d.between(-size - 3, at - size - 1)
        masks["begin"] |= bit * (is_first := d.chance(0.2))
        masks["end"] |= bit * d.chance(0.2)
        rows.append((first if not is_first else d.between(-3, 3), last, step))
    bounds = [d.ints(list(column)) for column in zip(*rows, strict=True)]
    d.apply([x, *bounds], x, **{f"{name}_mask": value for name, value in masks.items()})


def padded(d: Draw) -> None:
    """PAD, PADV2 and MIRROR_PAD."""
    dtype = d.turn("float32", "int8", "uint8", "int32", "int16")
    shape = d.shape(1, 4)
    x = d.given(dtype, shape)
    mode = d.pick(0, 1)
    if d.operator == "MIRROR_PAD":
        edges = [[d.between(0, size - 1 + mode) for _ in range(2)] for size in shape]
        d.apply([x, d.ints(edges)], x, mode=mode)
        return
    borders = d.ints([[d.between(0, 2), d.between(0, 2)] for _ in shape], d.pick("int32", "int64"))
    if d.operator == "PADV2":
        d.apply([x, borders, d.given(dtype, (1,), quantized=x.quantized, constant=0.7)], x)
    else:
        d.apply([x, borders], x)


def filled(d: Draw) -> None:
    """FILL, RANGE, ONE_HOT and BROADCAST_ARGS."""
    dtype = d.turn("float32", "int32")
    match d.operator:
        case "FILL":
            sizes = d.ints(d.shape(1, 3), d.pick("int32", "int64"))
            value = d.given(d.turn("float32", "int32", "bool", "int8"), ())
            d.apply([sizes, value], value)
        case "RANGE":
            first, step = d.between(-3, 3), d.pick(1, 2, -1, -3)
            last = first + step * d.between(1, 5) - d.pick(0, 1) * (abs(step) > 1)
            d.apply([d.ints(one, dtype) for one in (first, last, step)], dtype)
        case "ONE_HOT":
            depth = d.between(1, 4)
            index = d.given("int32", d.shape(0, 3), -1, depth)
            dtype = d.turn("float32", "int32", "int8", "uint8", "bool")
            on, off = (d.given(dtype, (), constant=0.5, quantized=PLAIN) for _ in range(2))
            row = (dtype, (1,), PLAIN)
            axis = d.axis(len(index.shape) + 1)
            d.apply([index, d.ints(depth), on, off], row, axis=max(axis, -1))
        case _:
            whole = d.shape(1, 4)
            arrays = [
                np.array([1 if d.chance(0.4) else size for size in whole], np.int32)[at:]
                for at in (0, d.between(0, len(whole) - 1))
            ][:: d.pick(1, -1)]
            d.apply([d.given("int32", array=one, constant=0.4) for one in arrays], "int32")


def diagonals(d: Draw) -> None:
    dtype = d.turn("float32", "int32", "int8", "uint8")
    shape, held = d.shape(1, 3), d.quantized(dtype)
    values = [d.given(dtype, shape, quantized=held)]
    if d.operator == "MATRIX_SET_DIAG":
        values.insert(0, d.given(dtype, (*shape, shape[-1]), quantized=held))
    d.apply(values, values[0])


def gathered(d: Draw) -> None:
    """GATHER, GATHER_ND and EMBEDDING_LOOKUP."""
    dtype = d.turn(*_MOVED)
    shape = d.shape(1, 4)
    x = d.given(dtype, shape, constant=0.1)
    kind = d.pick("int32", "int32", "int64")
    match d.operator:
        case "GATHER":
            batches = d.between(0, len(shape) - 1)
            axis = d.between(batches, len(shape) - 1)
            sizes = (*shape[:batches], *d.shape(0, 2, 3))
            index = d.given(kind, sizes, 0, shape[axis] - 1, constant=0.3)
            back = d.chance(0.3) and len(sizes) > 0
            options = {"axis": axis - len(shape) * d.chance(0.3)}
            options["batch_dims"] = batches - len(sizes) if back else batches
            d.apply([x, index], x, **options)
        case "GATHER_ND":
            depth = d.between(1, len(shape))
            sizes = d.shape(0, 2, 3)
            places = [d.numbers("int32", sizes, 0, size - 1) for size in shape[:depth]]
            stacked = np.stack(places, -1).astype(kind)
            d.apply([x, d.given(kind, array=stacked, constant=0.3)], x)
        case _:
            dtype = d.turn("float32", "int8", "float32", "uint8")
            shape, held = d.shape(2, 3), d.quantized(dtype)
            is_real = dtype == "int8" and d.chance(0.7)
            if is_real:  # With a scale for each row, or one.
                scales = d.numbers("float32", (d.pick(1, shape[0]),), 0.01, 0.1)
                held = Quantized(tuple(scales.tolist()))
            table = d.given(dtype, shape, quantized=held, constant=1.0 if is_real else 0.5)
            index = d.given("int32", (d.between(1, 4),), 0, shape[0] - 1, constant=0.3)
            d.apply([index, table], "float32" if is_real else table)


def scattered(d: Draw) -> None:
    """SCATTER_ND, SPARSE_TO_DENSE and DYNAMIC_UPDATE_SLICE."""
    dtype = d.turn("float32", "int32", "int8", "uint8", "bool")
    shape = d.shape(1, 3)
    match d.operator:
        case "SCATTER_ND":
            depth = d.between(1, len(shape))
            sizes = d.shape(1, 2, 3)
            places = np.stack([d.numbers("int32", sizes, 0, one - 1) for one in shape[:depth]], -1)
            index = d.given("int32", array=places, constant=0.5)
            update = d.given(dtype, (*sizes, *shape[depth:]), quantized=PLAIN)
            d.apply([index, update, d.ints(shape)], (dtype, (1,), PLAIN))
        case "SPARSE_TO_DENSE":
            dtype = d.turn("float32", "int32", "int8", "uint8")
            whole = math.prod(shape)
            flat = sorted(d.random.sample(range(whole), d.between(1, whole)))
            places = np.stack(np.unravel_index(flat, shape), -1).astype(np.int32)
            if len(shape) == 1 and d.chance(0.5):
                places = places[:, 0]
            count = () if d.chance(0.3) else (len(flat),)
            update, default = (
                d.given(dtype, one, quantized=PLAIN, constant=0.3) for one in (count, ())
            )
            values = [d.ints(places), d.ints(shape), update, default]
            d.apply(values, (dtype, (1,), PLAIN), validate_indices=True)
        case _:
            held = d.quantized(dtype)
            part = tuple(d.between(1, size) for size in shape)
            x, update = (d.given(dtype, one, quantized=held) for one in (shape, part))
            start = d.given("int32", (len(shape),), -2, 4, constant=0.4)
            d.apply([x, update, start], x)


def spectrum(d: Draw) -> None:
    """RFFT2D, cut or filled, and what is taken of it."""
    sizes = (d.pick(1, 2, 4), d.pick(2, 4, 8))
    x = d.given("float32", (*d.shape(0, 1), d.between(1, 5), d.between(1, 9)))
    (found,) = d.program.apply("RFFT2D", [x, d.ints(sizes)], ("complex64", (1,)))
    d.apply([found], "float32")
