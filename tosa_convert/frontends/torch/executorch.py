"""Torch programs through ExecuTorch's Arm backend: integer arithmetic for those that pt2e quantised."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from executorch.backends.arm.tosa import partitioner as arm
from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from torch.export.graph_signature import InputKind, OutputKind, TensorArgument

from tosa_convert.errors import fail
from tosa_convert.frontends.lower_model import write_examples
from tosa_convert.frontends.process.request import (
    CONSTANTS_FILE,
    Cut,
    CutOperator,
    Interface,
    NotLowered,
    Operand,
    Part,
    Request,
    Value,
    Whole,
)
from tosa_convert.frontends.torch.export import (
    arrays_of,
    example_tensors,
    is_quantised,
    load_program,
    remarks_of,
    value_of_tensor,
    write_states,
)
from tosa_convert.frontends.torch.refusals import place_of
from tosa_convert.frontends.torch.signature import (
    CHANGED_STATE,
    State,
    held_tensor,
    input_names,
    output_names,
    user_inputs,
)
from tosa_convert.frontends.unlowered import advice, grouped, unlowered

#: Arguments of a quantise or dequantise operator: the tensor, scale, zero point, bounds, element type.
_PER_TENSOR: Final = 6
_GET: Final = "getitem"


class Scale(NamedTuple):
    """An integer i means scale * (i - zero_point)."""

    scale: float
    zero_point: int
    lowest: int
    highest: int
    dtype: torch.dtype

    def quantised(self, tensor: Any) -> Any:
        """Quantise real numbers to integers, rounded as torch does."""
        wide = torch.round(tensor / self.scale) + self.zero_point
        return wide.clamp(self.lowest, self.highest).to(self.dtype)


@dataclass
class Boundary:
    """An argument or a result of the program.

    node: the placeholder, or what is returned. value: the value of the parts that it is.
    scale: if the value is quantised and the argument or result in torch is not.
    """

    node: Any
    value: str
    scale: Scale | None = None


@dataclass
class Reading:
    """Hold calls of delegates with their modules, and the nodes that stay in torch, in order."""

    delegates: list[tuple[Any, Any]] = field(default_factory=list)
    left: list[Any] = field(default_factory=list)


def is_operator(node: Any, name: str) -> bool:
    """Return whether a node calls an operator of pt2e, by its name."""
    return node.op == "call_function" and f"quantized_decomposed.{name}" in str(node.target)


def scale_of(node: Any) -> Scale | None:
    """Return the scale of a node that quantises or dequantises a whole tensor by numbers, or None."""
    arguments = node.args
    if len(arguments) != _PER_TENSOR or any(
        isinstance(one, torch.fx.Node) for one in arguments[1:]
    ):
        return None
    scale, zero_point, lowest, highest, dtype = arguments[1:]
    return Scale(float(scale), int(zero_point), int(lowest), int(highest), dtype)


def argument(placeholder: Any) -> Boundary:
    """Return what the parts take for an argument: integers if all it is used by is one quantisation."""
    users = list(placeholder.users)
    if len(users) == 1 and is_operator(users[0], "quantize_per_tensor"):
        scale = scale_of(users[0])
        if scale is not None:
            return Boundary(placeholder, users[0].name, scale)
    return Boundary(placeholder, placeholder.name)


def result(node: Any) -> Boundary:
    """Return what the parts give for a result: the integers before a dequantise operator."""
    if is_operator(node, "dequantize_per_tensor"):
        scale = scale_of(node)
        if scale is not None:
            return Boundary(node, value_of(node.args[0]), scale)
    return Boundary(node, value_of(node))


def value_of(node: Any) -> str:
    """Return the name of a node's value; one of several that a node gives is called after that node."""
    if node.op == "call_function" and _GET in str(node.target):
        return f"{node.args[0].name}.{node.args[1]}"
    return str(node.name)


def results_of(node: Any) -> dict[str, Any]:
    """Return the tensors without data that a node gives, by their names."""
    found = node.meta.get("val")
    if isinstance(found, (list, tuple)):
        return {f"{node.name}.{place}": tensor for place, tensor in enumerate(found)}
    return {str(node.name): found}


def read_graph(program: Any, bounds: Sequence[Boundary]) -> Reading:
    reading = Reading()
    around = {bound.value for bound in bounds if bound.scale} | {
        bound.node.name for bound in bounds if bound.scale
    }
    for node in program.graph.nodes:
        if node.op != "call_function" or _GET in str(node.target):
            continue
        if "executorch_call_delegate" in str(node.target):
            module = getattr(program.graph_module, str(node.args[0].target))
            reading.delegates.append((node, module))
        elif not (node.name in around and _is_border(node)):
            reading.left.append(node)
    return reading


def _is_border(node: Any) -> bool:
    """Return whether a node quantises an argument, or dequantises what is only a result."""
    if is_operator(node, "quantize_per_tensor"):
        return bool(node.args[0].op == "placeholder")
    return is_operator(node, "dequantize_per_tensor") and all(
        user.op == "output" for user in node.users
    )


def tensors_in(arguments: Any) -> Iterator[Any]:
    """Iterate over the nodes among arguments, also in lists."""
    for one in arguments:
        if isinstance(one, torch.fx.Node):
            yield one
        elif isinstance(one, (list, tuple)):
            yield from tensors_in(one)


_INTEGERS: Final = "TOSA-1.0+INT"
_FLOATS: Final = "TOSA-1.0+FP"
_FRAMEWORK_HOLDS: Final = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
_STAYS: Final = "ExecuTorch leaves it in torch"
_NOT_QUANTISED: Final = "quantise it, too; or leave it to the caller with --partial"
_WIDE: Final = "take int32 in the model: TOSA has no 64-bit integers, and torch's gathers take both"
_OTHER_SCALE: Final = "the state {name} is read with one scale and written with another"
_MOST_LINES: Final = 4
#: Operators whose lower bound of 0 the Arm backend leaves to the quantisation behind a convolution.
_RECTIFIERS: Final = ("hardtanh", "hardtanh_", "relu", "relu6", "relu6_", "relu_")
_SUMS: Final = ("conv", "linear")


def lower(request: Request, folder: Path) -> Interface:
    """Lower the program of a `.pt2` file or of a factory; see `Interface`."""
    program = load_program(request)
    inputs = input_names(program)
    remarks = remarks_of(program)
    edge, reasons = _lowered(program)
    borders = _borders(edge, inputs, output_names(program, inputs))
    reading = read_graph(edge, [*borders.arguments, *borders.results])
    if reading.left and not request.partial:
        rows = grouped(_rows(reading, reasons, is_quantised(program)), "torch")
        return Interface(not_lowered=rows, remarks=remarks)
    write_examples(request, folder, arrays_of(example_tensors(program)))
    interface = Interface(
        inputs=[_value(name, bound) for name, bound in borders.inputs.items()],
        outputs=[_value(name, bound) for name, bound in borders.outputs.items()],
        remarks=[*remarks, *_scale_remarks(borders)],
    )
    _Writer(edge, borders, reading, reasons, folder).write(interface)
    return interface


def _lowered(program: Any) -> tuple[Any, dict[str, str]]:
    """Lower to an edge program with delegates; also return why nodes are in none, by their names."""
    _keep_lower_bounds(program)
    reasons: dict[str, str] = {}

    class Reporter(arm.WhyNoPartitionReporter):  # type: ignore[misc, unused-ignore]
        def report_reject(self, node: Any, reason: str) -> None:
            said = " ".join(str(reason).split()).partition(": schema = ")[0]
            reasons.setdefault(node.name, said.rstrip("."))
            super().report_reject(node, reason)

    spec = TosaCompileSpec(_INTEGERS if is_quantised(program) else _FLOATS)
    usual, arm.WhyNoPartitionReporter = arm.WhyNoPartitionReporter, Reporter
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = to_edge_transform_and_lower(
                program,
                partitioner=[arm.TOSAPartitioner(spec)],
                # What is not in the core operators is reported with what else stays.
                compile_config=EdgeCompileConfig(_check_ir_validity=False),
            )
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None:  # Passes wrap it, with the names of all passes before.
            cause = cause.__cause__
        lines = [line.strip() for line in str(cause).splitlines()]
        said = [line for line in lines if line and "tlparse" not in line][:_MOST_LINES]
        message = f"ExecuTorch fails with {type(cause).__name__}: {' / '.join(said)}"
        raise fail("frontend-failed", "executorch", message, "convert without --via") from None
    finally:
        arm.WhyNoPartitionReporter = usual
    return made.exported_program(), reasons


def _keep_lower_bounds(program: Any) -> None:
    """Quantise what a convolution gives before it is rectified, where the Arm backend would lose the 0.

    It drops a ReLU between a convolution and its quantisation, whose least integer it takes for 0. Where
    the zero point is another integer, negative numbers would stay. Quantised with the same scale before,
    too, the result is the same, and the ReLU becomes a CLAMP.
    """
    quantise = torch.ops.quantized_decomposed.quantize_per_tensor.default
    dequantise = torch.ops.quantized_decomposed.dequantize_per_tensor.default
    graph = program.graph_module.graph
    for node in list(graph.nodes):
        users = list(node.users)
        if _packet(node) not in _RECTIFIERS or [user.target for user in users] != [quantise]:
            continue
        (sums, *_), scale = node.args, users[0].args[1:]
        if not (_packet(sums).startswith(_SUMS) and len(sums.users) == 1):
            continue
        if len(scale) != 5 or scale[1] == scale[2] or _least(node) != 0:
            continue
        value = sums.meta["val"]
        with graph.inserting_after(sums):
            integers = graph.call_function(quantise, (sums, *scale))
        with graph.inserting_after(integers):
            numbers = graph.call_function(dequantise, (integers, *scale))
        integers.meta = {**sums.meta, "val": value.to(scale[-1])}
        numbers.meta = dict(sums.meta)
        node.replace_input_with(sums, numbers)
    program.graph_module.recompile()


def _least(node: Any) -> float:
    """Return the lower bound of a rectifier."""
    return (*node.args, -1.0)[1] if _packet(node).startswith("hardtanh") else 0.0


def _packet(node: Any) -> str:
    """Return the name of a node's operator without its overload, such as "conv2d"."""
    return str(getattr(node.target, "_opname", ""))


@dataclass
class _Borders:
    """Arguments and results of the edge program, by name; states: name -> argument and result."""

    inputs: dict[str, Boundary] = field(default_factory=dict)
    outputs: dict[str, Boundary] = field(default_factory=dict)
    states: dict[str, tuple[Boundary, Boundary]] = field(default_factory=dict)

    @property
    def arguments(self) -> list[Boundary]:
        return [*self.inputs.values(), *(taken for taken, _ in self.states.values())]

    @property
    def results(self) -> list[Boundary]:
        return [*self.outputs.values(), *(given for _, given in self.states.values())]


def _borders(program: Any, inputs: list[str], outputs: list[str]) -> _Borders:
    """Return the arguments and results of the edge program, by torch's names."""
    signature = program.graph_signature
    nodes = {node.name: node for node in program.graph.nodes}
    borders = _Borders()
    for name, spec in zip(inputs, user_inputs(program, TensorArgument), strict=True):
        borders.inputs[name] = argument(nodes[spec.arg.name])
    (returned,) = (node.args[0] for node in program.graph.nodes if node.op == "output")
    names = iter(outputs)
    for spec, node in zip(signature.output_specs, returned, strict=True):
        if spec.kind == OutputKind.USER_OUTPUT:
            if not isinstance(node, torch.fx.Node):
                message = f"the program returns {node!r}, and programs have tensors only"
                raise fail("frontend-failed", next(names), message, "return tensors only")
            borders.outputs[next(names)] = result(node)
        elif spec.kind in CHANGED_STATE:
            (held,) = (one for one in signature.input_specs if one.target == spec.target)
            borders.states[spec.target] = argument(nodes[held.arg.name]), result(node)
        else:
            message = f"the program writes to its input {spec.target}"
            hint = "return the new value instead, or convert without --via"
            raise fail("frontend-failed", "executorch", message, hint)
    for name, (taken, given) in borders.states.items():
        if taken.scale != given.scale:
            raise fail("not-lowered", name, _OTHER_SCALE.format(name=name), "convert without --via")
    return borders


def _value(name: str, bound: Boundary) -> Value:
    value = value_of_tensor(name, _first(bound.node))
    if bound.scale is not None:
        value.dtype = _dtype(bound.scale.dtype)
        value.scale, value.zero_point = bound.scale.scale, bound.scale.zero_point
    return value


def _first(node: Any) -> Any:
    return next(iter(results_of(node).values()))


def _dtype(element: Any) -> str:
    return str(element).removeprefix("torch.")


def _scale_remarks(borders: _Borders) -> Iterator[str]:
    for what, bounds in (("input", borders.inputs), ("output", borders.outputs)):
        for name, bound in bounds.items():
            if bound.scale is not None:
                yield (
                    f"the {what} {name} is {_dtype(bound.scale.dtype)}: scale {bound.scale.scale!r},"
                    f" zero point {bound.scale.zero_point}"
                )


def _rows(reading: Reading, reasons: Mapping[str, str], quantised: bool) -> Iterator[NotLowered]:
    """Iterate over the operators that stay in torch."""
    for node in reading.left:
        types = [getattr(one, "dtype", None) for one in results_of(node).values()]
        is_float = any(one is not None and one.is_floating_point for one in types)
        hint = _NOT_QUANTISED if quantised and is_float else ""
        taken = (tensor for one in tensors_in(node.args) for tensor in results_of(one).values())
        if any(getattr(tensor, "dtype", None) == torch.int64 for tensor in taken):
            hint = _WIDE
        yield unlowered(_name(node), place_of(node), reasons.get(node.name, _STAYS), hint)


def _name(node: Any) -> str:
    """Return the operator of a node as torch calls it, such as `aten.embedding.default`."""
    return str(getattr(node.target, "_op", node.target))


class _Writer:
    """Writes delegates as files, and says how they and the operators that stay belong together."""

    def __init__(
        self,
        program: Any,
        borders: _Borders,
        reading: Reading,
        reasons: Mapping[str, str],
        folder: Path,
    ) -> None:
        self.program, self.borders, self.reading = program, borders, reading
        self.reasons, self.folder = reasons, folder
        self.values: dict[str, Value] = {}
        self.constants: dict[str, Any] = {}
        self.outputs = [bound.value for bound in borders.outputs.values()]

    def write(self, interface: Interface) -> None:
        for bound in (*self.borders.arguments, *self.borders.results):
            self.values[bound.value] = _value(bound.value, bound)
        parts = [self._part(number) for number in range(len(self.reading.delegates))]
        inputs = [bound.value for bound in self.borders.inputs.values()]
        if self.reading.left:
            self._cut(interface, inputs)
        states = self.borders.states
        rows = [
            State(name, len(inputs) + number, len(self.outputs) + number, self._before(taken))
            for number, (name, (taken, _)) in enumerate(states.items())
        ]
        interface.states = write_states(rows, self.folder)
        if self.constants:
            np.savez(self.folder / CONSTANTS_FILE, allow_pickle=False, **self.constants)
        interface.whole = Whole(
            parts=parts,
            values=list(self.values.values()),
            inputs=[*inputs, *(taken.value for taken, _ in states.values())],
            outputs=[*self.outputs, *(given.value for _, given in states.values())],
            constants={name: name for name in self.constants},
        )

    def _part(self, number: int) -> Part:
        node, module = self.reading.delegates[number]
        file = f"part{number}.tosa"
        (self.folder / file).write_bytes(module.processed_bytes)
        inputs, given = [self._know(one) for one in node.args[1:]], results_of(node)
        for name, tensor in given.items():
            self.values.setdefault(name, value_of_tensor(name, tensor))
        return Part(file=file, inputs=inputs, outputs=list(given))

    def _know(self, node: Any) -> str:
        """Register and name the value of a node; one that the program holds becomes a constant."""
        name = value_of(node)
        if name not in self.values:
            self.values[name] = value_of_tensor(name, _first(node))
            if node.op == "placeholder":
                (self.constants[name],) = arrays_of([self._held(node)])
        return name

    def _held(self, node: Any) -> Any:
        specs = self.program.graph_signature.input_specs
        (spec,) = (one for one in specs if getattr(one.arg, "name", None) == node.name)
        assert spec.kind in _FRAMEWORK_HOLDS, spec
        return held_tensor(self.program, spec)

    def _before(self, taken: Boundary) -> Any:
        tensor = self._held(taken.node)
        return tensor if taken.scale is None else taken.scale.quantised(tensor)

    def _cut(self, interface: Interface, inputs: list[str]) -> None:
        """Make arguments and results of what the operators that stay give and take."""
        count, returned = len(inputs), len(self.outputs)
        operators = []
        for number, node in enumerate(self.reading.left):
            given = results_of(node)
            for which, (name, tensor) in enumerate(given.items()):
                self.values[name] = value_of_tensor(name, tensor)
                label = f"{_name(node)}.{number}" + (f".{which}" if len(given) > 1 else "")
                interface.inputs.append(Value(name=label))
            operators.append((node, tuple(range(len(inputs), len(inputs) + len(given)))))
            inputs += given
        operators_cut = tuple(self._operator(node, places) for node, places in operators)
        more = len(self.outputs) - returned
        interface.outputs += [Value(name=f"operand.{number}") for number in range(more)]
        interface.cut = Cut(inputs=count, outputs=tuple(range(returned)), operators=operators_cut)

    def _operator(self, node: Any, results: tuple[int, ...]) -> CutOperator:
        for one in tensors_in(node.args):
            self._know(one)
        name = _name(node)
        return CutOperator(
            operator=name,
            where=place_of(node),
            operands=tuple(map(self._operand, node.args)),
            results=results,
            attributes={key: _plain(value) for key, value in node.kwargs.items()},
            reason=self.reasons.get(node.name, _STAYS),
            hint=advice("torch", name),
        )

    def _operand(self, one: Any) -> Operand:
        if isinstance(one, torch.fx.Node):
            name = value_of(one)
            if name not in self.outputs:
                self.outputs.append(name)
            return Operand(place=self.outputs.index(name))
        if isinstance(one, (list, tuple)):
            return Operand(items=tuple(map(self._operand, one)))
        return Operand(literal=_plain(one))


def _plain(one: Any) -> Any:
    """Return numbers and texts as they are; objects such as element types as torch prints them."""
    if isinstance(one, (list, tuple)):
        return [_plain(item) for item in one]
    return one if one is None or isinstance(one, (bool, int, float, str)) else str(one)
