"""Operators that move elements, make them, or choose among them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from frontends.tflite_operators.programs import Program, Programs, one
from frontends.tflite_operators.values import PLAIN, Given, Quantized, Result, Shape, numbers

_SOME: Final = ("float32", "int8", "int32", "bool")
_MORE: Final = ("float32", "int8", "uint8", "int16", "int32", "bool")


def shapes() -> Programs:
    """Iterate over operators that keep the order of elements."""
    for dtype in _MORE:
        for sizes in ((3, 8), (24,), (1, 2, 3, 4), (2, 2, 2, 3, 1)):
            name = f"{dtype}_rank_{len(sizes)}"
            given: Given = [(dtype, (2, 3, 4))]
            yield one("RESHAPE", name, given, (dtype, sizes), constants=[sizes], new_shape=sizes)
    for dtype in _SOME:
        for axes, result in (((0,), (3, 1, 2)), ((0, 2), (3, 2)), ((), (3, 2)), ((-2,), (1, 3, 2))):
            name = f"{dtype}_axes_{'_'.join(map(str, axes)) or 'all'}"
            given = [(dtype, (1, 3, 1, 2))]
            yield one("SQUEEZE", name, given, (dtype, result), squeeze_dims=axes)
        for axis in (0, 1, -1):
            made = tuple(int(size) for size in np.expand_dims(np.empty((2, 3)), axis).shape)
            name = f"{dtype}_axis_{axis}"
            yield one("EXPAND_DIMS", name, [(dtype, (2, 3))], (dtype, made), constants=[axis])
    for shape in ((2, 3), (4,), (1, 2, 3, 4)):
        rank = len(shape)
        yield one("SHAPE", f"rank_{rank}", [("float32", shape)], ("int32", (rank,)), out_type=2)
        yield one("RANK", f"rank_{rank}", [("float32", shape)], ("int32", ()))


def layouts() -> Programs:
    """Transposed, reversed, and in other blocks."""
    program = Program("TRANSPOSE", "bool_constant")
    elements = program.constant([[[1, 0, 0], [1, 1, 0]], [[0, 1, 0], [0, 0, 1]]], "bool")
    (turned,) = program.apply("LOGICAL_NOT", [elements], ("bool", (2, 2, 3)))
    axes = program.constant((2, 0, 1), "int32")
    (moved,) = program.apply("TRANSPOSE", [turned, axes], ("bool", (3, 2, 2)))
    x = program.input("bool", (3, 2, 2))
    yield program.returns(program.apply("LOGICAL_AND", [x, moved], ("bool", (3, 2, 2))))
    orders = ((1, 0), (0, 2, 1), (2, 0, 1), (0, 3, 1, 2), (3, 2, 1, 0), (0, 2, 1, 4, 3))
    for dtype in _MORE:
        from_end = [(dtype, (2, 3, 4))]
        yield one(
            "TRANSPOSE", f"{dtype}_from_end", from_end, (dtype, (4, 2, 3)), constants=[(-1, 0, 1)]
        )
        for order in orders:
            shape = (2, 3, 4, 5, 2)[: len(order)]
            result = tuple(shape[axis] for axis in order)
            name = f"{dtype}_{''.join(map(str, order))}"
            yield one("TRANSPOSE", name, [(dtype, shape)], (dtype, result), constants=[order])
        for axis in (0, 1, 2):
            given = [(dtype, (2, 3, 4))]
            name = f"{dtype}_axis_{axis}"
            yield one("REVERSE_V2", name, given, (dtype, (2, 3, 4)), constants=[[axis]])
    for dtype in ("float32", "int8", "uint8", "int32"):
        for block in (2, 3):
            deep, wide = (dtype, (1, 2, 3, 2 * block**2)), (dtype, (1, 2 * block, 3 * block, 2))
            yield one("DEPTH_TO_SPACE", f"{dtype}_{block}", [deep], wide, block_size=block)
            yield one("SPACE_TO_DEPTH", f"{dtype}_{block}", [wide], deep, block_size=block)
        large, crops = (dtype, (1, 6, 8, 2)), [[0, 0], [0, 0]]
        small = (dtype, (4, 3, 4, 2))
        yield one("SPACE_TO_BATCH_ND", dtype, [large], small, constants=[[2, 2], crops])
        yield one("BATCH_TO_SPACE_ND", dtype, [small], large, constants=[[2, 2], crops])
        padded, borders = (dtype, (4, 4, 5, 2)), [[1, 1], [0, 2]]
        name = f"{dtype}_border"
        yield one("SPACE_TO_BATCH_ND", name, [large], padded, constants=[[2, 2], borders])
        yield one("BATCH_TO_SPACE_ND", name, [padded], large, constants=[[2, 2], borders])
        if dtype != "int8":  # Which TFLite does not run.
            yield one(
                *("REVERSE_SEQUENCE", dtype, [(dtype, (3, 4, 2))], (dtype, (3, 4, 2))),
                constants=[[2, 4, 1]],
                seq_dim=1,
                batch_dim=0,
            )


def joined() -> Programs:
    """Iterate over tensors put together, and taken apart."""
    for dtype in _MORE:
        for axis in (0, 1, -1):
            first, second = (2, 3, 4), [2, 3, 4]
            second[axis] = 5
            result = list(first)
            result[axis] += 5
            given = [(dtype, first), (dtype, tuple(second))]
            name = f"{dtype}_axis_{axis}"
            yield one("CONCATENATION", name, given, (dtype, tuple(result)), axis=axis)
        for axis in (0, 1, 2, -1):
            at = axis % 3
            stacked = [2, 4]
            stacked.insert(at, 3)
            parts: list[Result] = [(dtype, (2, 4))] * 3
            name = f"{dtype}_axis_{axis}"
            if dtype == "bool":
                continue  # PACK and the others have no kernel for it.
            yield one(
                *("PACK", name, [(dtype, (2, 4))] * 3, (dtype, tuple(stacked))),
                values_count=3,
                axis=axis,
            )
            yield one("UNPACK", name, [(dtype, tuple(stacked))], *parts, num=3, axis=axis)
    for dtype in ("float32", "int8", "int32"):
        for axis in (0, 1, -1):
            shape = [4, 4, 4]
            shape[axis] = 6
            part = list(shape)
            part[axis] = 2
            program = Program("SPLIT", f"{dtype}_axis_{axis}")
            along = program.constant(axis, "int32")
            x = program.input(dtype, tuple(shape))
            made = program.apply("SPLIT", [along, x], *[(dtype, tuple(part))] * 3, num_splits=3)
            yield program.returns(made)
            program = Program("SPLIT_V", f"{dtype}_axis_{axis}")
            x = program.input(dtype, tuple(shape))
            sizes = (1, 3, 2)
            values = [x, program.constant(sizes, "int32"), program.constant(axis, "int32")]
            rows: list[Result] = []
            for size in sizes:
                part[axis] = size
                rows.append((dtype, tuple(part)))
            yield program.returns(program.apply("SPLIT_V", values, *rows, num_splits=3))
    program = Program("CONCATENATION", "int8_scales")
    scaled = [Quantized((0.02 + 0.01 * index,), index) for index in range(3)]
    values = [program.input("int8", (2, 3), quantized=row) for row in scaled]
    joined_row = ("int8", (2, 9), scaled[2])
    yield program.returns(program.apply("CONCATENATION", values, joined_row, axis=1))


def slices() -> Programs:
    """Parts of tensors, and borders around them."""
    for dtype in _MORE:
        for name, begin, size in (
            ("inner", (1, 0, 2), (2, 3, 2)),
            ("rest", (1, 1, 0), (-1, 2, -1)),
            ("all", (0, 0, 0), (4, 3, 5)),
        ):
            shape = (4, 3, 5)
            result = tuple(
                whole - start if count < 0 else count
                for whole, start, count in zip(shape, begin, size, strict=True)
            )
            given = [(dtype, shape)]
            yield one("SLICE", f"{dtype}_{name}", given, (dtype, result), constants=[begin, size])
    forms: dict[str, tuple[Any, dict[str, Any]]] = {
        "step": ((slice(0, 4, 2), slice(0, 3, 1), slice(1, 5, 3)), {}),
        "back": ((slice(3, 0, -1), slice(0, 3, 1), slice(4, 1, -2)), {}),
        "negative": ((slice(-3, -1, 1), slice(0, 3, 1), slice(-4, 5, 2)), {}),
        "masks": (
            (slice(1, 2, 1), slice(1, 2, 1), slice(1, 2, 1)),
            {"begin_mask": 1, "end_mask": 6},
        ),
        "shrink": ((slice(1, 2, 1), slice(0, 3, 1), slice(2, 3, 1)), {"shrink_axis_mask": 5}),
        "last": ((slice(0, 4, 1), slice(-1, 0, 1), slice(0, 5, 1)), {"shrink_axis_mask": 2}),
    }
    for dtype in _SOME:
        for name, (rows, masks) in forms.items():
            bounds = [[getattr(row, key) for row in rows] for key in ("start", "stop", "step")]
            strided = _strided((4, 3, 5), rows, masks)
            yield one(
                *("STRIDED_SLICE", f"{dtype}_{name}", [(dtype, (4, 3, 5))], (dtype, strided)),
                constants=bounds,
                **masks,
            )
    program = Program("STRIDED_SLICE", "float32_new_axis")
    x = program.input("float32", (4, 5))
    values = [x, *(program.constant(row, "int32") for row in ([0, 0, 1], [1, 4, 5], [1, 1, 2]))]
    made = program.apply("STRIDED_SLICE", values, ("float32", (1, 4, 2)), new_axis_mask=1)
    yield program.returns(made)
    borders = [[1, 0], [0, 2], [3, 1]]
    padded = (3, 5, 8)
    for dtype in ("float32", "int8", "uint8", "int16", "int32"):
        given = [(dtype, (2, 3, 4))]
        yield one("PAD", dtype, given, (dtype, padded), constants=[borders])
        yield one("PAD", f"{dtype}_none", given, given[0], constants=[np.zeros((3, 2))])
        program = Program("PADV2", dtype)
        x = program.input(dtype, (2, 3, 4))
        value = program.constant(7, dtype, quantized=x.quantized)
        made = program.apply(
            "PADV2", [x, program.constant(borders, "int32"), value], (dtype, padded)
        )
        yield program.returns(made)
        for mode, name in ((0, "reflect"), (1, "symmetric")):
            sizes = [[1, 1], [0, 2], [2, 0]]
            row = (dtype, (4, 5, 6))
            yield one("MIRROR_PAD", f"{dtype}_{name}", given, row, constants=[sizes], mode=mode)


def _strided(shape: Shape, rows: Any, masks: dict[str, int]) -> Shape:
    """Return the shape of a strided slice."""
    taken: list[Any] = []
    for axis, row in enumerate(rows):
        if masks.get("shrink_axis_mask", 0) >> axis & 1:
            taken.append(row.start)
            continue
        start = None if masks.get("begin_mask", 0) >> axis & 1 else row.start
        stop = None if masks.get("end_mask", 0) >> axis & 1 else row.stop
        taken.append(slice(start, stop, row.step))
    return tuple(np.empty(shape)[tuple(taken)].shape)


def copies() -> Programs:
    """Elements that are repeated, or made."""
    for dtype in _MORE:
        for times in ((1, 2, 1), (2, 1, 3), (1, 1, 1)):
            result = tuple(size * count for size, count in zip((2, 3, 2), times, strict=True))
            name = f"{dtype}_{''.join(map(str, times))}"
            yield one("TILE", name, [(dtype, (2, 3, 2))], (dtype, result), constants=[times])
        for given, wanted in (((1, 3), (4, 3)), ((3,), (2, 5, 3)), ((2, 1, 4), (2, 3, 4))):
            name = f"{dtype}_rank_{len(given)}_to_{len(wanted)}"
            yield one("BROADCAST_TO", name, [(dtype, given)], (dtype, wanted), constants=[wanted])
    for dtype in ("float32", "int32", "int8", "bool"):
        program = Program("FILL", dtype)
        value = program.input(dtype, ())
        made = program.apply("FILL", [program.constant((2, 3), "int32"), value], (dtype, (2, 3)))
        yield program.returns(made)
    for dtype in ("float32", "int32"):
        program = Program("RANGE", dtype)
        x = program.input(dtype, (5,))
        values = [program.constant(number, dtype) for number in (1, 11, 2)]
        made = program.apply("RANGE", values, (dtype, (5,)))
        yield program.returns(program.apply("ADD", [x, made[0]], (dtype, (5,))))
    for dtype, axis in (("float32", -1), ("float32", 0), ("int32", 1), ("bool", -1), ("int8", -1)):
        program = Program("ONE_HOT", f"{dtype}_axis_{axis}")
        x = program.input("int32", (2, 3), between=(0, 4))
        on, off = (program.constant(number, dtype) for number in (1, 0))
        shape = {-1: (2, 3, 5), 0: (5, 2, 3), 1: (2, 5, 3)}[axis]
        values = [x, program.constant(5, "int32"), on, off]
        made = program.apply("ONE_HOT", values, (dtype, shape), axis=axis)
        yield program.returns(made)


def indexed() -> Programs:
    """Elements chosen by indices."""
    for dtype in _MORE:
        for axis, batch, shape, indices in (
            *((0, 0, (5, 3), (4,)), (1, 0, (2, 5, 3), (2, 2)), (2, 0, (2, 3, 5), (3,))),
            *((1, 1, (2, 5, 3), (2, 4)), (-1, 0, (2, 5), (3,))),
        ):
            program = Program("GATHER", f"{dtype}_axis_{axis}_batch_{batch}_rank_{len(shape)}")
            x = program.input(dtype, shape)
            rows = program.input("int32", indices, between=(0, shape[axis] - 1))
            at = axis % len(shape)
            result = (*shape[:at], *indices[batch:], *shape[at + 1 :])
            options = {"axis": axis, "batch_dims": batch}
            yield program.returns(program.apply("GATHER", [x, rows], (dtype, result), **options))
        for depth in (1, 2, 3):
            program = Program("GATHER_ND", f"{dtype}_depth_{depth}")
            x = program.input(dtype, (3, 4, 5))
            rows = program.input("int32", (2, 3, depth), between=(0, 2))
            result = (2, 3, *(3, 4, 5)[depth:])
            yield program.returns(program.apply("GATHER_ND", [x, rows], (dtype, result)))
    for dtype in ("float32", "int32", "int8", "uint8", "bool"):
        program = Program("SCATTER_ND", dtype)
        rows = program.constant([[4], [1], [6]], "int32")
        updates = program.input(dtype, (3, 2), quantized=PLAIN)
        sizes = program.constant((8, 2), "int32")
        made = program.apply("SCATTER_ND", [rows, updates, sizes], (dtype, (8, 2), PLAIN))
        yield program.returns(made)
    for dtype in ("float32", "int8", "int32"):
        program = Program("EMBEDDING_LOOKUP", dtype)
        rows = program.input("int32", (4,), between=(0, 5))
        table = program.random(dtype, (6, 3), quantized=rows.quantized)
        yield program.returns(
            program.apply("EMBEDDING_LOOKUP", [rows, table], (dtype, (4, 3), PLAIN))
        )
        program = Program("DYNAMIC_UPDATE_SLICE", dtype)
        x, update = program.input(dtype, (5, 4)), program.input(dtype, (2, 3))
        start = program.input("int32", (2,), between=(0, 1))
        made = program.apply("DYNAMIC_UPDATE_SLICE", [x, update, start], (dtype, (5, 4)))
        yield program.returns(made)
    for scales in ((0.02,), (0.01, 0.02, 0.03, 0.04, 0.05, 0.06)):
        program = Program("EMBEDDING_LOOKUP", f"int8_to_float32_{len(scales)}")
        rows = program.input("int32", (4,), between=(0, 5))
        table = program.random("int8", (6, 3), quantized=Quantized(scales))
        made = program.apply("EMBEDDING_LOOKUP", [rows, table], ("float32", (4, 3)))
        yield program.returns(made)
    program = Program("SPARSE_TO_DENSE", "float32")
    values = [program.constant(row, "int32") for row in ([[0, 1], [2, 3]], [4, 5])]
    values += [program.input("float32", (2,)), program.constant(0, "float32")]
    yield program.returns(program.apply("SPARSE_TO_DENSE", values, ("float32", (4, 5))))


def chosen() -> Programs:
    """Elements chosen by truth values."""
    for dtype in _MORE:
        given: Given = [("bool", (2, 3)), (dtype, (2, 3)), (dtype, (2, 3))]
        yield one("SELECT", dtype, given, (dtype, (2, 3)))
        yield one("SELECT_V2", dtype, given, (dtype, (2, 3)))
        given = [("bool", (2, 1, 1)), (dtype, (3, 1)), (dtype, (4,))]
        yield one("SELECT_V2", f"{dtype}_broadcast", given, (dtype, (2, 3, 4)))
        given = [("bool", (2,)), (dtype, (2, 3)), (dtype, (2, 3))]
        yield one("SELECT", f"{dtype}_rows", given, (dtype, (2, 3)))


def conversions() -> Programs:
    """Conversions of element types."""
    codes = {"float32": 0, "int32": 2, "uint8": 3, "bool": 6, "int16": 7, "int8": 9, "uint32": 15}
    for source, target in (
        *(("float32", "int32"), ("int32", "float32"), ("float32", "bool"), ("bool", "float32")),
        *(("int32", "bool"), ("bool", "int32"), ("float32", "int8"), ("int8", "float32")),
        *(("int32", "int8"), ("int8", "int32"), ("int16", "int32"), ("int32", "int16")),
        *(("uint8", "float32"), ("float32", "uint8"), ("uint8", "int32"), ("float32", "int16")),
    ):
        between = None if source != "float32" else ((0, 99) if target == "uint8" else (-99, 99))
        program = Program("CAST", f"{source}_to_{target}")
        x = program.input(source, (3, 7), between=between, quantized=PLAIN)
        options = {"in_data_type": codes[source], "out_data_type": codes[target]}
        yield program.returns(program.apply("CAST", [x], (target, (3, 7), PLAIN), **options))
    for dtype in ("int8", "uint8", "int16"):
        given = [("float32", (3, 40))]
        yield one("QUANTIZE", f"float32_to_{dtype}", given, (dtype, (3, 40)), between=(-5, 5))
        yield one("DEQUANTIZE", f"{dtype}_to_float32", [(dtype, (3, 40))], ("float32", (3, 40)))
    program = Program("DEQUANTIZE", "float16_to_float32")
    x = program.input("float32", (3, 4))
    half = program.constant(numbers("float16", (3, 4), 1), "float16", quantized=PLAIN)
    (made,) = program.apply("DEQUANTIZE", [half], ("float32", (3, 4)))
    yield program.returns(program.apply("ADD", [x, made], ("float32", (3, 4))))
    for source, target, scale, zero in (
        *(("int8", "int8", 0.05, 4), ("uint8", "int8", 0.03, -6), ("int8", "uint8", 0.03, 123)),
        *(("int16", "int8", 0.06, 3), ("int8", "int16", 0.0003, 0), ("int16", "int16", 0.0003, 0)),
        *(("uint8", "uint8", 0.02, 99), ("int16", "int32", 0.001, 0)),
    ):
        program = Program("QUANTIZE", f"{source}_to_{target}")
        x = program.input(source, (3, 40))
        row = (target, (3, 40), Quantized((scale,), zero))
        yield program.returns(program.apply("QUANTIZE", [x], row))
