"""Find the tensors of a TFLite model that the inputs and outputs of a program are.

A tensor of the same name is taken first, also one between the model's operators; then the one that the
location of an output's operator names; and what is left corresponds by position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from tosa_convert.errors import Findings, fail
from tosa_convert.frontends.tflite.read import DamagedError, TfliteFile, read_tflite
from tosa_convert.golden.arrays.slots import Slot, slots
from tosa_convert.golden.running.programs import input_slots, output_slots
from tosa_convert.graph.model import Graph, name_in_location, quoted
from tosa_convert.io.files import map_file
from tosa_convert.records import dataclass

#: Element type of TFLite -> those that a program may have for it.
_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "float32": ("FP32",),
    "float64": ("FP32",),
    "float16": ("FP16",),
    "bfloat16": ("BF16",),
    "bool": ("BOOL",),
    "int4": ("INT4",),
    **{f"{sign}int{bits}": (f"INT{bits}",) for bits in (8, 16, 32) for sign in ("", "u")},
    **{f"{sign}int64": ("INT64", "INT32") for sign in ("", "u")},
}
_NOT_ITS_MODEL: Final = "it is not the model of this program"
_CUT: Final = "give the program's own model; of a part, an output that a tensor of TFLite is"


@dataclass(frozen=True, slots=True)
class TflitePairs:
    """Pair a program's inputs and outputs with tensors of a TFLite model.

    inputs: for each input of the model, the key of the program's.
    outputs: for each output of the program, the number of the model's tensor.
    notes: say of each pair with different names how it was found.
    """

    inputs: tuple[str, ...]
    outputs: tuple[int, ...]
    notes: tuple[str, ...]


def pair_with_tflite(graph: Graph, path: str) -> TflitePairs:
    """Find the tensors of a TFLite model that are a program's inputs and outputs.

    Raises TosaConvertError("option-conflict") if the model is not the one of the program, and
    ("unrecognised-input") or ("file-error") if it is not a model.
    """
    try:
        model = read_tflite(map_file(path))
    except DamagedError as error:
        raise fail(
            "unrecognised-input", f"tflite:{path}", f"expected a TFLite model: {error}"
        ) from None
    notes: list[str] = []
    where = f"--against tflite:{path}"
    inputs = _inputs(graph, model, where, notes)
    outputs = _outputs(graph, model, where, notes)
    return TflitePairs(tuple(inputs), tuple(outputs), tuple(notes))


def _inputs(graph: Graph, model: TfliteFile, where: str, notes: list[str]) -> list[str]:
    wanted = {slot.key: slot for slot in input_slots(graph)}
    left = dict(wanted)
    chosen: dict[int, Slot] = {}
    for tensor in model.inputs:
        name = next((name for name in _names(model, tensor) if name in left), None)
        if name is not None:
            chosen[tensor] = left.pop(name)
    others = [tensor for tensor in model.inputs if tensor not in chosen]
    pairs = list(zip(others, left.values(), strict=False))
    if len(others) != len(left) or not all(_may_be(model, *pair) for pair in pairs):
        found = ", ".join(_described(model, tensor) for tensor in model.inputs) or "none"
        expected = ", ".join(map(str, wanted.values())) or "none"
        message = f"{_NOT_ITS_MODEL}: its inputs are {found}; those of the program are {expected}"
        raise fail("option-conflict", where, message)
    for tensor, slot in pairs:
        chosen[tensor] = slot
        if slot.key != f"arg{model.inputs.index(tensor)}":
            notes.append(_note("input", slot, model, tensor, "by position"))
    return [chosen[tensor].key for tensor in model.inputs]


def _outputs(graph: Graph, model: TfliteFile, where: str, notes: list[str]) -> list[int]:
    # A program may return a tensor twice.
    wanted = [slot for output in graph.main.outputs for slot in slots(graph.main, output)]
    if len(wanted) != len(model.outputs):
        wanted = output_slots(graph)
    found = _same_names(model, wanted)
    located = _located(graph, model)
    findings = Findings()
    for index, slot in enumerate(wanted):
        if found[index] is not None:
            continue
        how = "which its location names: it may be a step on the way to it"
        tensor = located.get(slot.tensor)
        if tensor is None or not _may_be(model, tensor, slot):
            how, tensor = "by position", None
            if len(wanted) == len(model.outputs) and model.outputs[index] not in found:
                tensor = model.outputs[index]
        elif tensor in model.outputs:
            how = "which its location names"
        if tensor is None or not _may_be(model, tensor, slot):
            outputs = ", ".join(_described(model, tensor) for tensor in model.outputs)
            message = (
                f"the program's output {slot} is none of its tensors; its outputs are {outputs}"
            )
            findings.add("option-conflict", where, message, _CUT)
            continue
        found[index] = tensor
        notes.append(_note("output", slot, model, tensor, how))
    findings.raise_if_any()
    return [tensor for tensor in found if tensor is not None]


def _same_names(model: TfliteFile, wanted: Sequence[Slot]) -> list[int | None]:
    """Return the tensor of the name of each output, if there is one: at first one that is returned."""
    left = list(enumerate(model.outputs))
    inner = _made(model)
    found: list[int | None] = []
    for index, slot in enumerate(wanted):
        rows = [
            row
            for row in left
            if slot.key in (model.output_names[row[0]], model.tensors[row[1]].name)
        ]
        chosen = next((row for row in rows if row[0] == index), rows[0] if rows else None)
        if chosen is None:
            found.append(inner.get(slot.key))
        else:
            left.remove(chosen)
            found.append(chosen[1])
    return found


def _made(model: TfliteFile, *, alone: bool = False) -> dict[str, int]:
    """Return the tensors that operators make, by their names as far as these are unique.

    alone: only those of operators that make no other.
    """
    counts = Counter(tensor.name for tensor in model.tensors)
    return {
        model.tensors[tensor].name: tensor
        for operator in model.operators
        if not alone or len(operator.outputs) == 1
        for tensor in operator.outputs
        if counts[model.tensors[tensor].name] == 1
    }


def _located(graph: Graph, model: TfliteFile) -> dict[str, int]:
    """Return the tensors that the locations of operators name, by the operators' results.

    A tensor that the locations of several outputs name is left out: all but one are steps before it.
    """
    made = _made(model, alone=True)
    outputs = set(graph.main.outputs)
    rows = {
        name: made[place]
        for operator in graph.main.operators
        for name in operator.outputs
        if name in outputs and (place := name_in_location(operator.location)) in made
    }
    counts = Counter(rows.values())
    return {name: tensor for name, tensor in rows.items() if counts[tensor] == 1}


def _names(model: TfliteFile, tensor: int) -> tuple[str, str]:
    return model.input_name(tensor), model.tensors[tensor].name


def _may_be(model: TfliteFile, tensor: int, slot: Slot) -> bool:
    """Return whether a tensor has the type and the shape of a slot, as far as the file says them."""
    row = model.tensors[tensor]
    if slot.dtype.name not in _TYPES.get(row.dtype, ()):
        return False
    # Without sizes it is a scalar, or of unknown rank.
    return not row.shape or (
        len(row.shape) == len(slot.shape)
        and all(size in (-1, given) for size, given in zip(row.shape, slot.shape, strict=True))
    )


def _described(model: TfliteFile, tensor: int) -> str:
    row = model.tensors[tensor]
    return f"{quoted(row.name)} {row.dtype}{list(row.shape)}"


def _note(role: str, slot: Slot, model: TfliteFile, tensor: int, how: str) -> str:
    return (
        f"the {role} {quoted(slot.key)} is taken for {_described(model, tensor)} of TFLite, {how}"
    )
