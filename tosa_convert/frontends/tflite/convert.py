"""TFLite models, lowered by our own table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tosa_convert.errors import fail
from tosa_convert.frontends.lower_model import write_program
from tosa_convert.frontends.lowering.cut import Cutter
from tosa_convert.frontends.process.request import (
    Interface,
    Request,
    Value,
    by_position,
    say_stage,
)
from tosa_convert.frontends.tflite.program import lower_model
from tosa_convert.frontends.tflite.read import (
    DamagedError,
    TfliteFile,
    operator_name,
    reached,
    read_tflite,
    with_first_subgraph,
)
from tosa_convert.frontends.tflite.rules.windows import rounds_halves
from tosa_convert.graph.model import counted
from tosa_convert.io.files import map_file
from tosa_convert.io.flatbuffer_tables import FlatbufferError

#: Operators of which TFLite has kernels for inputs of FP32 and weights of integers.
_HYBRID: Final = frozenset({"FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D", "BATCH_MATMUL"})


def lower(request: Request, folder: Path) -> Interface:
    return lower_file(Path(request.source), request, folder)


def lower_file(path: Path, request: Request, folder: Path) -> Interface:
    """Lower the TFLite model in a file, which may be made from the request's source."""
    shown = request.shown or str(path)
    try:
        return _interface(path, request, folder)
    except DamagedError as error:
        raise fail("unrecognised-input", shown, str(error)) from None
    except FlatbufferError as error:  # Options of operators are read when these are lowered.
        raise fail("unrecognised-input", shown, f"the TFLite file is damaged: {error}") from None


def _interface(path: Path, request: Request, folder: Path) -> Interface:
    data = map_file(path)
    model = read_tflite(data, request.func)
    runs = ""
    if model.subgraph:
        swapped = with_first_subgraph(data, model.subgraph)
        if not request.partial:  # Parts are made of the model, of which the names are known.
            runs = path.name
            (folder / runs).write_bytes(swapped)
    remarks = []
    if model.other_signatures and not request.func:
        names = ", ".join(map(repr, model.other_signatures))
        left = f"signatures of other subgraphs are not converted: {names}"
        remarks.append(f"{left}; --func chooses one")
    remarks += _remarks(model)
    shapes = _by_tensor(model, request.input_shapes)
    cutter = Cutter() if request.partial else None
    say_stage(folder, "lowering the model")
    found = lower_model(model, path.name, shapes, narrow=request.narrow, cutter=cutter)
    interface = Interface(
        inputs=[_value(model, tensor, model.input_name(tensor)) for tensor in model.inputs],
        outputs=[
            _value(model, tensor, name)
            for tensor, name in zip(model.outputs, model.output_names, strict=True)
        ],
        not_lowered=list(found.problems),
        remarks=remarks,
        model=runs,
        operators=model.operator_making(),
        kinds=model.kinds(),
    )
    if found.graph is not None:
        write_program(found.graph, folder)
        if cutter is not None:
            cutter.add_to(interface)
    return interface


def _remarks(model: TfliteFile) -> list[str]:
    return [*_hybrid_remarks(model), *_custom_remarks(model), *_resize_remarks(model)]


def _hybrid_remarks(model: TfliteFile) -> list[str]:
    """Tell of products of FP32 with integer weights, which TFLite's kernels compute otherwise."""
    found = [
        f'{operator_name(operator.code)} that makes "{part.result(operator).name}"'
        for part in reached(model)
        for operator in part.operators
        if operator_name(operator.code) in _HYBRID
        and [tensor.dtype for tensor in part.operands(operator)[:2]]
        in (["float32", "int8"], ["float32", "int4"])
    ]
    if not found:
        return []
    what = "weights of integers become FP32, and TFLite would quantise the inputs in each call"
    return [f"{counted(len(found), 'product')} of FP32, beginning with {found[0]}: {what}"]


def _custom_remarks(model: TfliteFile) -> list[str]:
    """Tell of operators that TFLite does not define either."""
    names = [one.custom for part in reached(model) for one in part.operators if one.custom]
    if not names:
        return []
    listed = ", ".join(dict.fromkeys(names))
    what = "only a program that has them can run it"
    return [f"{counted(len(names), 'custom operator')} became CUSTOM of TOSA: {listed}; {what}"]


def _resize_remarks(model: TfliteFile) -> list[str]:
    """Tell of resized bytes of which TFLite's kernel rounds some halves down."""
    found = []
    for part in reached(model):
        for one in part.operators:
            if operator_name(one.code) != "RESIZE_BILINEAR":
                continue
            result = part.result(one)
            if result.dtype == "uint8":
                sizes = part.operands(one)[0].shape[1:3], result.shape[1:3]
                aligned, half = (bool(one.option(at, "b")) for at in (2, 3))
                if min((*sizes[0], *sizes[1]), default=0) > 0 and rounds_halves(
                    list(zip(*sizes, strict=True)), aligned=aligned, half=half
                ):
                    found.append(f'"{result.name}"')
    if not found:
        return []
    what = "TFLite computes in FP32, and its elements halfway between two integers may be 1 less"
    return [f"RESIZE_BILINEAR of uint8 that makes {', '.join(found)}: {what}"]


def _value(model: TfliteFile, number: int, name: str) -> Value:
    tensor = model.tensors[number]
    return Value(
        name=name,
        dtype=tensor.dtype,
        shape=tensor.shape,
        scale=tensor.scale or None,
        zero_point=tensor.zero_point,
    )


def _by_tensor(
    model: TfliteFile, shapes: Mapping[str, tuple[int, ...]]
) -> dict[int, tuple[int, ...]]:
    """Return shapes by the numbers of tensors; raise TosaConvertError with every finding."""
    tensors = [model.tensors[number] for number in model.inputs]
    inputs = [
        ((tensor.name, model.input_name(number)), tensor.shape)
        for tensor, number in zip(tensors, model.inputs, strict=True)
    ]
    return {model.inputs[at]: sizes for at, sizes in by_position(inputs, shapes).items()}
