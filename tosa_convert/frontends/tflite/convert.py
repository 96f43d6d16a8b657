"""TFLite models, by tosa-converter-for-tflite."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import tosa_converter_for_tflite as converter

from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.frontends.process.request import (
    PROGRAM_FILE,
    Interface,
    NotLowered,
    Request,
    Value,
)
from tosa_convert.frontends.tflite.edit_bytes import (
    reached,
    with_axes_from_start,
    with_first_subgraph,
    with_placeholders,
    without_operators,
)
from tosa_convert.frontends.tflite.failing_operators import (
    failing_operators,
    in_fork,
    words_on_stderr,
)
from tosa_convert.frontends.tflite.lowerings.find import (
    Wanted,
    cut_out,
    find_corrections,
    find_refused,
    without_decomposed,
)
from tosa_convert.frontends.tflite.read import (
    DamagedError,
    TfliteFile,
    operator_name,
    read_tflite,
)
from tosa_convert.frontends.tflite.unlowered import with_unmade_operands
from tosa_convert.graph.model import counted
from tosa_convert.io.files import map_file
from tosa_convert.io.flatbuffer_tables import FlatbufferError

#: A key of metadata with which models of litert-torch and litert-converter ask that constants stay
#: operators of StableHLO, which nothing lowers; and a key of the same length that means nothing.
_KEEP_CONSTANTS: Final = b"keep_stablehlo_constant"
_IGNORED_KEY: Final = b"keep_no_other_constants"
#: What the converter calls the function of the first subgraph.
_MAIN: Final = "main"
#: Operators of which TFLite has kernels for inputs of FP32 and weights of integers.
_HYBRID: Final = frozenset({"FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D"})
#: Lines of what the converter says that a message repeats, and characters of each.
_MOST_LINES: Final = 12
_LINE_CHARACTERS: Final = 200


def warm_up() -> None:
    """Import what completes programs; numpy is most of it."""
    from tosa_convert.frontends.tflite import complete  # noqa: F401


def lower(request: Request, folder: Path) -> Interface:
    """Lower a TFLite model."""
    return lower_file(Path(request.source), request, folder)


def lower_file(path: Path, request: Request, folder: Path) -> Interface:
    """Lower the TFLite model in a file, which may be made from the request's source."""
    shown = request.shown or str(path)
    try:
        return _interface(path, request, folder)
    except DamagedError as error:
        raise fail("unrecognised-input", shown, str(error)) from None
    except (
        FlatbufferError
    ) as error:  # Some options of operators are not read before their lowering.
        raise fail("unrecognised-input", shown, f"the TFLite file is damaged: {error}") from None
    except RuntimeError as error:
        raise fail("frontend-failed", shown, f"TFLite's converter fails: {error}") from None


def _interface(path: Path, request: Request, folder: Path) -> Interface:
    """Lower the model in a file, and return what `lower_file` returns."""
    data = map_file(path)
    model = read_tflite(data, request.func)
    chosen: bytes | memoryview = data
    runs = ""
    if model.subgraph:
        chosen = with_first_subgraph(data, model.subgraph)
        if not request.partial:  # Parts are made of the model, of which the names are known.
            runs = path.name
            (folder / runs).write_bytes(chosen)
    whole, remarks = _with_repairs(chosen, model)
    if model.other_signatures and not request.func:
        names = ", ".join(map(repr, model.other_signatures))
        left = f"signatures of other subgraphs are not converted: {names}"
        remarks.append(f"{left}; --func chooses one")
    remarks += _remarks(model)
    cut = None
    if request.cut:
        model, cut = cut_out(model, request.cut)
    if opaque := [*with_unmade_operands(model), *find_refused(model)]:
        return Interface(not_lowered=opaque)
    rest, decomposed = without_decomposed(model)
    changed = whole if cut is None and decomposed is None else without_operators(whole, rest)
    if changed is not data:
        # Locations have the file's name.
        path = folder / "changed" / path.name
        path.parent.mkdir()
        path.write_bytes(changed)
    wanted: list[Wanted] = []
    damage: DamagedError | None = None
    try:
        wanted += find_corrections(rest)
    except DamagedError as error:
        damage = error  # If the converter fails, what it says comes first.
    shapes = _by_tensor(rest, request.input_shapes)
    ends = {rest.tensors[one].dtype for one in (*rest.inputs, *rest.outputs)}
    is_completed = bool(decomposed or wanted or ends & {"uint16", "uint32"})
    meanwhile = warm_up if is_completed else _do_nothing
    not_lowered = _write_program(rest, whole, path, shapes, folder, meanwhile)
    if damage is not None:
        raise damage
    func = _function_of(model)
    if is_completed and not not_lowered:
        from tosa_convert.frontends.tflite.complete import complete_program

        remarks += complete_program(decomposed, wanted, request, folder, file=path.name, func=func)
    return Interface(
        inputs=[_value(model, tensor, model.input_name(tensor)) for tensor in model.inputs],
        outputs=[
            _value(model, tensor, name)
            for tensor, name in zip(model.outputs, model.output_names, strict=True)
        ],
        not_lowered=not_lowered,
        remarks=remarks,
        function=func,
        model=runs,
        operators=model.operator_making(),
        kinds=model.kinds(),
        cut=cut,
    )


def _function_of(model: TfliteFile) -> str:
    """Return the name of the model's function; "" if the program has only one."""
    if model.subgraph:
        return _MAIN
    # A SavedModel without the signature serving_default has no subgraph of the name main.
    return (model.name or _MAIN) if model.other_signatures else ""


def _remarks(model: TfliteFile) -> list[str]:
    return [*_hybrid_remarks(model), *_custom_remarks(model)]


def _hybrid_remarks(model: TfliteFile) -> list[str]:
    """Tell of products of FP32 with integer weights, which TFLite's kernels compute otherwise."""
    found = [
        f'{operator_name(operator.code)} that makes "{part.result(operator).name}"'
        for part in reached(model).values()
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
    parts = reached(model).values()
    names = [one.custom for part in parts for one in part.operators if one.custom]
    if not names:
        return []
    listed = ", ".join(dict.fromkeys(names))
    what = "only a program that has them can run it"
    return [f"{counted(len(names), 'custom operator')} became CUSTOM of TOSA: {listed}; {what}"]


def _with_repairs(
    data: bytes | memoryview, model: TfliteFile
) -> tuple[bytes | memoryview, list[str]]:
    """Return a model's bytes in the form that the converter lowers, and what the user is told of it."""
    remarks = []
    if re.search(_KEEP_CONSTANTS, data):
        data = bytes(data).replace(_KEEP_CONSTANTS, _IGNORED_KEY)
        remarks.append(f"the metadata {_KEEP_CONSTANTS.decode()} was ignored")
    return with_axes_from_start(with_placeholders(data, model), model), remarks


def _write_program(
    model: TfliteFile,
    data: bytes | memoryview,
    path: Path,
    shapes: dict[str, list[int]],
    folder: Path,
    meanwhile: Callable[[], object],
) -> list[NotLowered]:
    """Write the program of a model; returns the operators that it fails with, which are left out.

    Raises RuntimeError if the converter fails and not because of one operator.
    """
    failure: RuntimeError | None = None
    with words_on_stderr() as words:
        try:
            _convert(path, shapes, folder / PROGRAM_FILE, meanwhile)
        except RuntimeError as error:
            failure = error
    sys.stderr.write("".join(f"{line}\n" for line in words))
    if failure is None:
        return []
    scratch = folder / "alone" / path.name
    scratch.parent.mkdir()
    made = scratch.with_name("program")
    rows = failing_operators(model, data, scratch, lambda file: _convert(file, {}, made))
    if not rows:
        said = [line[:_LINE_CHARACTERS] for line in words[:_MOST_LINES]]
        raise RuntimeError("\n    ".join([str(failure), *said]))
    rest, _ = cut_out(model, [(row.index, row.operator) for row in rows if row.index is not None])
    if rest.operators:
        scratch.write_bytes(without_operators(data, rest))
        # What else stays is found in it.
        with contextlib.suppress(RuntimeError):
            _convert(scratch, shapes, folder / PROGRAM_FILE)
    return rows


def _do_nothing() -> None:
    pass


def _convert(
    path: Path,
    shapes: dict[str, list[int]],
    target: Path,
    meanwhile: Callable[[], object] = _do_nothing,
) -> None:
    """Write the converter's program, if it does not fail.

    Raises RuntimeError if it fails, or ends its process.
    """
    part = target.with_name(f"{target.name}.part")
    if sys.platform == "linux":
        in_fork(lambda: _write(path, shapes, part), meanwhile)
    else:
        _write(path, shapes, part)
    part.replace(target)


def _write(path: Path, shapes: dict[str, list[int]], target: Path) -> None:
    form: Any = converter.TosaConverterOutputFormat.Bytecode
    debug: Any = converter.TosaConverterDebugInfo.Enable
    with open(target, "wb") as sink:
        if shapes:
            # Not public, and the only way to give a size to what is dynamic in the model.
            converter._tflite_flatbuffer_to_tosa_mlir(str(path), sink, form, debug, shapes)
        else:
            converter.tflite_flatbuffer_to_tosa_mlir(str(path), sink, form, debug)


def _value(model: TfliteFile, number: int, name: str) -> Value:
    tensor = model.tensors[number]
    return Value(
        name=name,
        dtype=tensor.dtype,
        shape=tensor.shape,
        scale=tensor.scale or None,
        zero_point=tensor.zero_point,
    )


def _by_tensor(model: TfliteFile, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, list[int]]:
    """Return the given shapes by the names of tensors, as the converter takes them.

    Those that the model has already are left out: the converter sets none in a model with a loop.

    Raises TosaConvertError("unknown-argument") or ("option-conflict"), with every finding: the converter
    would ignore them.
    """
    known = {}
    for position, number in enumerate(model.inputs):
        for name in (f"arg{position}", model.tensors[number].name, model.input_name(number)):
            known[name] = model.tensors[number]
    findings = list(_shape_findings(model, known, shapes))
    if findings:
        raise TosaConvertError(findings)
    return {
        known[name].name: list(sizes)
        for name, sizes in shapes.items()
        if known[name].shape != tuple(sizes)
    }


def _shape_findings(
    model: TfliteFile, known: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]
) -> Iterator[Finding]:
    inputs = ", ".join(
        f"{model.input_name(number)} {list(model.tensors[number].shape)}" for number in model.inputs
    )
    for name, sizes in shapes.items():
        if name not in known:
            message = f"the model has no input of this name; it has {inputs}"
            yield Finding("unknown-argument", f"--input-shape {name}", message)
            continue
        found = known[name].shape
        if len(found) != len(sizes) or any(
            size not in (-1, given) for size, given in zip(found, sizes, strict=True)
        ):
            message = f"found the shape {list(sizes)}, the model has {list(found)} (-1 is dynamic)"
            yield Finding("option-conflict", f"--input-shape {name}", message)
