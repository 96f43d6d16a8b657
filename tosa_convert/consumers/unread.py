"""What a program that reads files does not read; limits of hardware by compiling with Vela 5.2."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from tosa_convert.consumers.readers import other_variants
from tosa_convert.eras.dialect_states import state_of
from tosa_convert.eras.downgrade import dialect_form, form_080, missing, older_findings
from tosa_convert.errors import Finding
from tosa_convert.graph.dtypes import TOOLS_STATE, ResizeMode
from tosa_convert.graph.model import DYNAMIC, Block, Operator, located, operator_path, quoted
from tosa_convert.graph.versions import newer_than
from tosa_convert.io import log
from tosa_convert.rules.operator_view import OperatorView, TypeTable
from tosa_convert.rules.validate import judge

if TYPE_CHECKING:
    from tosa_convert.consumers.readers import Consumer
    from tosa_convert.graph.model import Graph, Tensor

#: An operator of a block -> what of it the hardware does not run.
Limit = Callable[[Block, Operator], Iterator[str]]
_SUMS: Final = ("CONV2D", "CONV3D", "DEPTHWISE_CONV2D")


def _ethos_u55(block: Block, operator: Operator) -> Iterator[str]:
    limit = _ETHOS_U55.get(operator.spec.name)
    if limit is not None and _is_valid(block, operator):
        yield from limit(block, operator)
    if operator.spec.name in _SUMS and _type(block, operator.outputs[0]) == "INT48":
        users = [user.spec.name for user in block.operators if operator.outputs[0] in user.inputs]
        if users != ["RESCALE"] or operator.outputs[0] in block.outputs:
            yield "to INT48 unless its only use is a RESCALE"


def _is_valid(block: Block, operator: Operator) -> bool:
    """Return whether TOSA allows an operator, and all its sizes are known: else others report it."""
    names = {*operator.inputs, *operator.outputs}
    tensors = {name: value for name, value in block.tensors.items() if name in names}
    shapes = {name: value for name, value in block.shapes.items() if name in names}
    if names - tensors.keys() - shapes.keys():
        return False
    if any(value.shape is None or DYNAMIC in value.shape for value in tensors.values()):
        return False
    # The offset of RESIZE may be -1, which is no unknown size.
    if any(value.data is None for value in shapes.values()):
        return False
    part = replace(block, operators=[operator], tensors=tensors, shapes=shapes)
    types = TypeTable().of_block(part)
    inputs, outputs = (
        tuple(map(types.__getitem__, rows)) for rows in (operator.inputs, operator.outputs)
    )
    return not judge(OperatorView(operator, inputs, outputs, {})).violations


def _argmax(block: Block, operator: Operator) -> Iterator[str]:
    shape = _sizes(block, operator.inputs[0])
    if len(shape) > 4 or (len(shape) == 4 and shape[0] > 1):
        yield "of more than 4 dimensions, or of several batches"
    elif _integer(operator, "axis") != len(shape) - 1:
        yield "over another axis than the last"
    elif shape[-1] > 127:
        yield "over more than 127 elements"


def _avg_pool2d(block: Block, operator: Operator) -> Iterator[str]:
    if any(_integers(operator, "pad")) and max(_integers(operator, "kernel")) > 8:
        yield "with padding and a kernel of more than 8"


def _conv3d(block: Block, operator: Operator) -> Iterator[str]:
    if _sizes(block, operator.inputs[1])[1] > 1:
        yield "with a weight of more than one in depth"


def _depthwise_conv2d(block: Block, operator: Operator) -> Iterator[str]:
    if max(_integers(operator, "stride")) > 3:
        yield "with a stride of more than 3"


def _rescale(block: Block, operator: Operator) -> Iterator[str]:
    if _type(block, operator.inputs[0]) != "INT48":
        return
    makers = [one.spec.name for one in block.operators if operator.inputs[0] in one.outputs]
    if not set(makers) & set(_SUMS):
        yield "from INT48 unless the operand is the result of a convolution"


def _resize(block: Block, operator: Operator) -> Iterator[str]:
    sizes = _sizes(block, operator.inputs[0])
    scale, offset, border = (block.shapes[name].values() or () for name in operator.inputs[1:])
    if scale == (1, 1, 1, 1):
        return
    if operator.attributes["mode"] == ResizeMode.BILINEAR:
        yield "in mode BILINEAR"
    elif sizes[0] > 1:
        yield "of several batches"
    elif not all(
        sizes[1 + axis] == 1
        or _is_upscaling(scale[2 * axis : 2 * axis + 2], offset[axis], border[axis])
        for axis in range(2)
    ):
        yield "unless it is by 2, 4 or 8, with corners or with half pixels aligned"


def _is_upscaling(scale: tuple[int, ...], offset: int, border: int) -> bool:
    """Return whether an axis is enlarged 2, 4 or 8 times in one of two usual ways, or not at all."""
    numerator, denominator = scale
    if numerator == denominator:
        return (offset, border) == (0, 0)
    half = numerator // 2 - 1
    return numerator // denominator in (2, 4, 8) and (denominator, offset, border) in (
        (1, 0, 0),
        (2, -half, half),
    )


def _reverse(block: Block, operator: Operator) -> Iterator[str]:
    shape = _sizes(block, operator.inputs[0])
    axis = _integer(operator, "axis")
    is_last = axis == len(shape) - 1
    if shape[axis] == 1 or (is_last and math.prod(shape[:-3]) > 1):
        return
    if is_last:
        yield "over the last axis of one batch"
    elif _type(block, operator.inputs[0]) == "INT32":
        yield "of INT32"


def _transpose_conv2d(block: Block, operator: Operator) -> Iterator[str]:
    stride = _integers(operator, "stride")
    weight, image = (_sizes(block, operator.inputs[index])[1:3] for index in (1, 0))
    row, column = (size == 1 and kernel == 1 for size, kernel in zip(image, weight, strict=True))
    if stride not in ((1, 1), (2, 2)) and not (
        (row and stride == (1, 2)) or (column and stride == (2, 1))
    ):
        yield f"with a stride of {stride[0]} by {stride[1]}"


def _type(block: Block, name: str) -> str:
    tensor = block.tensors.get(name)
    return "" if tensor is None else str(tensor.dtype)


def _sizes(block: Block, name: str) -> tuple[int, ...]:
    tensor = block.tensors.get(name)
    return (tensor.shape or ()) if tensor is not None else ()


def _integers(operator: Operator, name: str) -> tuple[int, ...]:
    found = operator.attributes[name]
    assert isinstance(found, tuple)
    return found


def _integer(operator: Operator, name: str) -> int:
    found = operator.attributes[name]
    assert isinstance(found, int)
    return found


_ETHOS_U55: Final[dict[str, Limit]] = {
    "ARGMAX": _argmax,
    "AVG_POOL2D": _avg_pool2d,
    "CONV3D": _conv3d,
    "DEPTHWISE_CONV2D": _depthwise_conv2d,
    "RESCALE": _rescale,
    "RESIZE": _resize,
    "REVERSE": _reverse,
    "TRANSPOSE_CONV2D": _transpose_conv2d,
}


def _iree(block: Block, operator: Operator) -> Iterator[str]:
    if operator.spec.name == "COND_IF" and _sizes(block, operator.inputs[0]):
        yield "with a condition that has dimensions"


def _torq(block: Block, operator: Operator) -> Iterator[str]:
    if operator.spec.name == "RESHAPE":
        sizes = block.shapes.get(operator.inputs[1])
        if sizes is None or sizes.data is None:
            yield "to sizes that are computed"
    elif operator.spec.name == "DEPTHWISE_CONV2D":
        weight = operator.inputs[1]
        if _type(block, weight) == "INT4" and _sizes(block, weight)[:2] == (1, 1):
            yield "with a kernel of 1 by 1 of INT4"


def _soda_opt(block: Block, operator: Operator) -> Iterator[str]:
    shapes = [_sizes(block, name) for name in (*operator.inputs, *operator.outputs)]
    if operator.spec.name == "TILE" and shapes[0] != shapes[-1]:
        yield "unless it changes nothing"
    elif operator.spec.name == "DEPTHWISE_CONV2D" and shapes[2] != shapes[-1][-1:]:
        yield "with one bias for all channels"
    elif operator.spec.name == "RESIZE" and _type(block, operator.inputs[0]) == "BF16":
        if operator.attributes["mode"] == ResizeMode.BILINEAR:
            yield "of BF16 in mode BILINEAR"


#: Hardware or program -> what it does not run of an operator.
LIMITS: Final[dict[str, Limit]] = {
    "ethos-u55": _ethos_u55,
    "iree": _iree,
    "torq": _torq,
    "soda-opt": _soda_opt,
}


_CODE = "unsupported-by-reader"
_QUANTISE: Final = "quantise the model before it is converted: docs/guides/quantise.md"


def program_findings(graph: Graph, reader: Consumer, *, mlir: bool) -> Iterator[Finding]:
    """Find what a program does not read of a sound graph; mlir: it is written as MLIR."""
    found = _of_format(graph, reader, mlir=mlir)
    first = next(found, None)
    if first is None:
        return
    hint = ""
    if adapted(graph, reader, mlir=mlir) is not graph:
        hint = f"repack and convert change that: --for {reader.spelling}"
    for other in other_variants(reader):
        if not hint and next(_of_format(graph, other, mlir=mlir), None) is None:
            how = f"with {other.options}" if other.options else f"without {reader.options}"
            hint = f"{reader.name} reads the program {how}: --for {other.spelling}"
            break
    for finding in chain((first,), found):
        yield replace(finding, hint=finding.hint or hint)


def adapted(graph: Graph, reader: Consumer, *, mlir: bool) -> Graph:
    """Return a sound graph in a form that a program reads, bit for bit equal, or unchanged."""
    if not reader.rewrites or next(_of_format(graph, reader, mlir=mlir), None) is None:
        return graph
    from tosa_convert.rewrites.public import apply

    changed, report = apply(graph, *reader.rewrites)
    if changed is graph or next(_of_format(changed, reader, mlir=mlir), None) is not None:
        return graph
    for change in report.changes:
        log.info("for %s: %s", reader.spelling, change)
    return changed


def _of_format(graph: Graph, reader: Consumer, *, mlir: bool) -> Iterator[Finding]:
    if not mlir:
        yield from _findings(graph, reader)
        return
    # Only what reads the flatbuffer itself needs constants: MLIR's text and bytecode have any operands.
    yield from _findings(graph, reader._replace(constants="", dialect="", initial=False))
    if reader.dialect:
        yield from older_findings(graph, dialect_form(state_of(reader.dialect), reader.release))


def _findings(graph: Graph, reader: Consumer) -> Iterator[Finding]:
    """Find the operators, types, shapes and operands of a sound graph that a program does not read."""
    if reader.tosa:
        yield from older_findings(graph, form_080(reader.release))
    elif (graph.version.major, graph.version.minor) > reader.stamped:
        message = f"{reader.release} does not read files of TOSA {graph.version}"
        yield Finding(_CODE, "", message, "write it with --tosa-version 1.0, if that has it all")
    if reader.entry:
        message = f"with {reader.options} {reader.name} reads only functions with tf.entry_function"
        yield Finding(_CODE, "", message)
    main = next((block for _, block in graph.blocks()), Block("main"))
    values = {"an output": main.outputs, "a value": (*main.inputs, *main.outputs, *main.operators)}
    if reader.least and not values[reader.least]:
        message = f"{reader.spelling} does not read a program without {reader.least}"
        yield Finding(_CODE, "", message)
    if reader.dialect:
        yield from missing(graph, dialect_form(state_of(reader.dialect), reader.release))
    sizes = advice_on_sizes(main)
    for where, block in graph.blocks():
        used = {name for row in block.operators for name in (*row.inputs, *row.outputs)}
        for name, tensor in block.tensors.items():
            if reader.unused and name not in used and name not in block.outputs:
                continue
            yield from _tensor_findings(f"{where} tensor {quoted(name)}", tensor, reader, sizes)
        removed = _removed(block, reader.static_operators)
        for index, operator in enumerate(block.operators):
            place = located(operator_path(where, index, operator), operator)
            for message in _problems(block, operator, reader, removed):
                yield Finding(_CODE, place, message)
            lacks, _ = newer_than(block, operator, TOOLS_STATE)
            if lacks and not reader.dialect:
                yield Finding(_CODE, place, f"{reader.spelling} does not read {lacks}")
        for name in dict.fromkeys(block.outputs):
            found = ""
            if reader.computed and block is main and name in block.inputs:
                found = "an output that is an input"
            elif not reader.shape_outputs and name in block.shapes:
                found = "an output that is a shape"
            if found:
                message = f"{reader.spelling} does not read {found}"
                yield Finding(_CODE, f"{where} output {quoted(name)}", message)


def advice_on_sizes(main: Block) -> str:
    """Return how to set the sizes that the inputs of a program leave open."""
    words = []
    for name in main.inputs:
        shape = _shape(main, name) or ()
        if DYNAMIC in shape:
            sizes = "x".join("1" if size == DYNAMIC else str(size) for size in shape)
            words += ["--input-shape", f"{name}={sizes}"]
    return f"set them when you convert: {shlex.join(words)}" if words else ""


def _tensor_findings(
    where: str, tensor: Tensor, reader: Consumer, advice: str
) -> Iterator[Finding]:
    """Find what a program does not read of a tensor. advice: how to set unknown sizes."""
    unread: dict[str, str] = {}
    if reader.initial and tensor.variable and tensor.data is None:
        unread["a variable without an initial value"] = ""
    for dtype in (tensor.dtype, *(() if tensor.scale is None else (tensor.scale.dtype,))):
        if dtype.name in reader.types:
            # A processor of integers needs a model that was quantised.
            unread[f"{dtype} tensors"] = (
                _QUANTISE if dtype.is_float and "FP32" in reader.types else ""
            )
    if tensor.shape is None:
        if reader.ranked or reader.static:
            unread["tensors of unknown rank"] = ""
    elif len(tensor.shape) > reader.max_rank:
        unread[f"tensors of more than {reader.max_rank} dimensions"] = ""
    elif reader.static and DYNAMIC in tensor.shape:
        unread["tensors of unknown sizes"] = advice
    for what, hint in unread.items():
        yield Finding(_CODE, where, f"{reader.spelling} does not read {what}", hint)


def _problems(
    block: Block, operator: Operator, reader: Consumer, removed: Collection[str]
) -> Iterator[str]:
    """Find what a program does not read of an operator. removed: results that MLIR removes."""
    spec = operator.spec
    if spec.since > reader.newest:
        yield f"{reader.spelling} does not read {spec.name}"
        return
    unread = _names_of(block, operator) & reader.operators
    if unread:
        yield f"{reader.spelling} does not read {min(unread)}"
        return
    if reader.only:
        first = _type(block, (*operator.inputs, *operator.outputs)[0])
        if spec.name not in reader.only.get(first, reader.only[""]):
            yield f"{reader.spelling} does not read {spec.name}{f' of {first}' if first else ''}"
            return
    if not spec.takes(len(operator.inputs), len(operator.outputs)):
        return  # The rules of TOSA report it.
    if spec.name in reader.by_option:
        option = reader.by_option[spec.name]
        yield f"{reader.spelling} reads {spec.name} only with its option {option}"
    if spec.name == "ROW_GATHER" and reader.single_rows and not _takes_single_rows(block, operator):
        yield f"{reader.spelling} reads ROW_GATHER only for a constant row count of 1"
    if spec.name in reader.static_operators and operator.outputs[0] not in removed:
        names = (operator.inputs[0], operator.outputs[0])
        if any(DYNAMIC in (_shape(block, name) or ()) for name in names):
            yield f"{reader.spelling} does not read {spec.name} of unknown sizes"
    if reader.limits:
        for problem in LIMITS[reader.limits](block, operator):
            yield f"{reader.spelling} does not read {spec.name} {problem}"
    if reader.constants:
        yield from _operand_problems(block, operator, reader)


def _names_of(block: Block, operator: Operator) -> set[str]:
    """Return what the facts may call an operator: its name, also with types of its own."""
    name = operator.spec.name
    found = (block.tensors.get(value) for value in (*operator.inputs[:2], *operator.outputs[:1]))
    types = [str(tensor.dtype) if tensor else "" for tensor in found]
    if len(operator.inputs) < 2:
        return {name, f"{name} {types[0]}", f"{name} {'->'.join(types)}"} if types else {name}
    first, second, *results = types
    computed = f"{name} {'->'.join((first, *results))}"
    summed_in = operator.attributes.get("acc_type")
    return {
        name,
        f"{name} {first}",
        f"{name} {first}*{second}",
        computed,
        f"{computed} acc {getattr(summed_in, 'name', '')}",
    }


def _operand_problems(block: Block, operator: Operator, reader: Consumer) -> Iterator[str]:
    spec = operator.spec
    for position, name in enumerate(operator.inputs):
        row = spec.operand(position, len(operator.inputs))
        wanted = row.is_constant and (reader.constants == "all" or row.name.endswith("_zp"))
        tensor = block.tensors.get(name)
        if tensor is None or (tensor.data is not None and not tensor.variable):
            continue
        kind = "CONV2D" if spec.name == "CONV3D" and _is_flat(block, operator) else spec.name
        named = f"{kind} {row.name}"
        if wanted or {named, f"{named} {tensor.dtype}"} & reader.further_constants:
            yield (
                f"{reader.spelling} reads {spec.name} only with a constant {row.name}, "
                f"found the tensor {quoted(name)}"
            )


def _is_flat(block: Block, operator: Operator) -> bool:
    """Return whether a CONV3D is a CONV2D, because its weight has one element in depth."""
    return (_shape(block, operator.inputs[1]) or (0, 0))[1] == 1


def _takes_single_rows(block: Block, operator: Operator) -> bool:
    tensor = block.tensors.get(operator.inputs[2])
    return tensor is not None and tensor.data is not None and tensor.data.numpy().tolist() == [1]


def _removed(block: Block, kinds: Collection[str]) -> set[str]:
    """Return the results of RESHAPE and TRANSPOSE, of those among the kinds, that MLIR removes.

    Those are unused, joined with their users, or no change.
    """
    users: dict[str, set[str]] = {name: {""} for name in block.outputs}
    for operator in block.operators:
        for name in operator.inputs:
            users.setdefault(name, set()).add(operator.spec.name)
    removed: set[str] = set()
    joined: dict[tuple[str, str], tuple[str, tuple[int, ...] | None]] = {}
    for operator in block.operators:
        kind = operator.spec.name
        if kind not in kinds:
            continue
        result, order = operator.outputs[0], operator.attributes.get("perms")
        first, earlier = joined.get((kind, operator.inputs[0]), (operator.inputs[0], None))
        if isinstance(order, tuple) and earlier is not None:
            order = tuple(earlier[axis] for axis in order)
        joined[kind, result] = first, order if isinstance(order, tuple) else None
        before, after = _shape(block, first), _shape(block, result)
        is_same = before is not None and before == after and before.count(DYNAMIC) <= 1
        if isinstance(order, tuple):
            is_same = order == tuple(range(len(order)))
        if is_same or users.get(result, set()) <= {kind}:
            removed.add(result)
    return removed


def _shape(block: Block, name: str) -> tuple[int, ...] | None:
    tensor = block.tensors.get(name)
    return None if tensor is None else tensor.shape
