"""Variables that handles name: each is one of TOSA, with the value that CALL_ONCE gives it.

VAR_HANDLE and CALL_ONCE become no operators. READ_VARIABLE and ASSIGN_VARIABLE declare the variable,
which is the same one for all that have its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.frontends.tflite.lowerings.lowering import Decomposition, Given, Refused
from tosa_convert.frontends.tflite.read import (
    DamagedError,
    Operator,
    Tensor,
    TfliteFile,
    operator_name,
)
from tosa_convert.graph.dtypes import DType, dtype
from tosa_convert.records import dataclass

if TYPE_CHECKING:
    from tosa_convert.builder import Builder
    from tosa_convert.builder.values import Value

#: Type in TFLite -> that of its variable; what is unsigned has the same bits.
_DTYPES: Final = {
    "float32": "FP32",
    "float16": "FP16",
    "bool": "BOOL",
    "uint8": "INT8",
    "uint16": "INT16",
    **{name: name.upper() for name in ("int8", "int16", "int32")},
}
_ELSEWHERE: Final = "give it a constant as its initial value, in a subgraph that does nothing else"


@dataclass(frozen=True, slots=True)
class _Variable:
    """Name, type and sizes of a variable, and the bytes of its initial value; None if it has none."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    initial: bytes | None


def _name_of(model: TfliteFile, handle: int) -> str:
    """Return the name of the variable of a handle; "" if the handle is not made here."""
    for operator in model.operators:
        if handle in operator.outputs and operator_name(operator.code) == "VAR_HANDLE":
            container = operator.options.text(0) if operator.options else ""
            shared = operator.options.text(1) if operator.options else ""
            return "/".join(filter(None, (container, shared))) or f"variable_{operator.index}"
    return ""


def _find_access(model: TfliteFile, operator: Operator) -> _Variable | Refused | None:
    """Find the variable that is read or assigned."""
    name = _name_of(model, operator.inputs[0])
    is_read = operator_name(operator.code) == "READ_VARIABLE"
    value = model.result(operator) if is_read else model.tensors[operator.inputs[1]]
    if not name:
        return Refused("its variable has no handle in the main program")
    if value.dtype not in _DTYPES:
        return Refused(f"its variable holds {value.dtype}, which TOSA does not have")
    initial: bytes | None = None
    for other, given in _initial_values(model):
        if other == name and given.data:
            if (given.dtype, given.shape) != (value.dtype, value.shape):
                held = f"{value.dtype} {list(value.shape)}"
                return Refused(f"its variable holds {held}, and at first others")
            initial = bytes(given.data)
    return _Variable(name, dtype(_DTYPES[value.dtype]), value.shape, initial)


def _initial_values(model: TfliteFile) -> Iterator[tuple[str, Tensor]]:
    """Find what subgraphs that run once assign: the names of variables, and tensors."""
    for operator in model.operators:
        if operator_name(operator.code) != "CALL_ONCE" or model.read_subgraph is None:
            continue
        first = model.read_subgraph(operator.option(0))
        for one in first.operators:
            if operator_name(one.code) == "ASSIGN_VARIABLE":
                yield _name_of(first, one.inputs[0]), first.tensors[one.inputs[1]]


def _find_call(model: TfliteFile, operator: Operator) -> bool | Refused:
    """Accept a subgraph that assigns constants and does nothing else."""
    assert model.read_subgraph is not None
    try:
        first = model.read_subgraph(operator.option(0))
    except DamagedError:
        return False  # The converter says so.
    names = {operator_name(one.code) for one in first.operators}
    if others := sorted(names - {"VAR_HANDLE", "ASSIGN_VARIABLE"}):
        return Refused(f"the subgraph that it calls has {others[0]}", _ELSEWHERE)
    if any(not tensor.data for _, tensor in _initial_values(model)):
        return Refused("the subgraph that it calls assigns no constant", _ELSEWHERE)
    return True


def _find_handle(model: TfliteFile, operator: Operator) -> bool:
    return True


def _lower_nothing(b: Builder, given: Given, facts: bool) -> list[Value]:
    return []


def _lower_read(b: Builder, given: Given, facts: _Variable) -> list[Value]:
    return [b.read(_declared(b, facts))]


def _lower_assignment(b: Builder, given: Given, facts: _Variable) -> list[Value]:
    b.write(_declared(b, facts), given.operands[0])
    return []


def _declared(b: Builder, facts: _Variable) -> Any:
    import numpy as np

    if facts.initial is None:
        return b.variable(facts.name, facts.dtype, facts.shape)
    initial = np.frombuffer(facts.initial, facts.dtype.numpy).reshape(facts.shape)
    return b.variable(facts.name, facts.dtype, facts.shape, initial)


DECOMPOSITIONS: Final[dict[str, Decomposition[Any]]] = {
    "VAR_HANDLE": Decomposition(_find_handle, _lower_nothing),
    "CALL_ONCE": Decomposition(_find_call, _lower_nothing),
    "READ_VARIABLE": Decomposition(_find_access, _lower_read),
    "ASSIGN_VARIABLE": Decomposition(_find_access, _lower_assignment),
}
