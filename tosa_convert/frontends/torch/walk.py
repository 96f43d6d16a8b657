"""Goes through a torch program, node by node, and lowers each by its rule."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch.export.graph_signature import InputKind, TensorArgument

from tosa_convert.builder import Builder
from tosa_convert.errors import TosaConvertError
from tosa_convert.frontends.lowering.complex_numbers import is_complex, real_kind
from tosa_convert.frontends.lowering.cut import Cutter
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, whole_data
from tosa_convert.frontends.lowering.types import FLOAT32, carrier, refuse_empty
from tosa_convert.frontends.process.request import CutOperator
from tosa_convert.frontends.process.request import NotLowered as Unlowered
from tosa_convert.frontends.torch.export import CHECKS, QUANTISED
from tosa_convert.frontends.torch.refusals import (
    COMPLEX,
    RANDOM,
    NotLoweredError,
    arguments_of,
    is_random,
    locate,
    place_of,
)
from tosa_convert.frontends.torch.rules.node import Node, array_of, kind_of, own_kind
from tosa_convert.frontends.torch.signature import HELD, held_tensor
from tosa_convert.frontends.torch.table import MOVES, complex_rule_of, name_of, rule_of
from tosa_convert.frontends.unlowered import advice, unlowered
from tosa_convert.graph.model import Graph

#: The largest constant in bytes that is computed, unless its operands are as large.
_MOST_FOLDED: Final = 1 << 20
#: Functions of numbers that may be computed, such as the place of a part.
_SUMS: Final = {operator.add: "add", operator.sub: "sub"}
_NO_RULE: Final = ""
_NO_FORM: Final = "it has no form with pairs of real numbers here"
_INSIDE: Final = "it is inside a loop or a branch"


class Walk:
    """Lowers a decomposed program; what does not lower is in `problems`, stood in for, or cut out."""

    def __init__(self, narrow: Sequence[str] = (), partial: bool = False) -> None:
        self.narrow = frozenset(narrow)
        self.cutter = Cutter() if partial else None
        self.problems: list[Unlowered] = []
        self._depth = 0

    # -- programs --------------------------------------------------------------------------------

    def program(self, program: Any) -> Graph:
        """Return the program whose inputs are those that torch's user gives, state included."""
        builder = Builder("main")
        scope = Scope(builder, "i64" in self.narrow)
        specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
        values: list[Any] = []
        for node in program.graph.find_nodes(op="placeholder"):
            values.append(self._given(program, scope, node, specs[node.name]))
        inputs = sum(isinstance(one, Array) and one.data is None for one in values)
        nodes = program.graph.output_node().args[0]
        made = self.graph(scope, program.graph_module, values)
        by_name = {node.name: one for node, one in zip(nodes, made, strict=True)}
        results = []
        for spec in program.graph_signature.output_specs:
            found = by_name[spec.arg.name]
            if is_complex(found.dtype):
                self.problems.append(unlowered(f"output {spec.arg.name}", "", COMPLEX))
                continue
            try:
                results.append(scope.whole(found))
            except NotLowered as problem:
                name = f"output {spec.arg.name}"
                self.problems.append(unlowered(name, "", problem.reason, problem.advice))
        if self.cutter is not None:
            results = self.cutter.results(scope, results, inputs)
        if not results and self.problems:
            raise NotLoweredError(*self.problems)
        builder.output(*results)
        return builder.graph()

    def _given(self, program: Any, scope: Scope, node: Any, spec: Any) -> Any:
        """Return the value of an input of the graph: an array, or a number."""
        if spec.kind in HELD:
            return array_of(held_tensor(program, spec))
        if spec.kind != InputKind.USER_INPUT or not isinstance(spec.arg, TensorArgument):
            return getattr(spec.arg, "value", None)
        value = node.meta["val"]
        kind = self.kind(value.dtype)
        shape = tuple(map(int, value.shape))
        made = Array(kind, shape)
        try:
            refuse_empty(shape)
            made.value = scope.builder.input(node.name, _held(kind), shape)
        except NotLowered as problem:
            self.refuse(f"the input {node.name}", node, problem)
            return self._stand_in(scope, shape, kind)
        return made

    def kind(self, dtype: Any) -> np.dtype[Any]:
        """Return the element type of a type of torch: FP32 for 64 bits, if these are narrowed."""
        return own_kind(kind_of(dtype), self.narrow)

    # -- graphs ----------------------------------------------------------------------------------

    def graph(self, scope: Scope, module: Any, given: Sequence[Any]) -> list[Any]:
        values: dict[Any, Any] = {}
        inputs = iter(given)
        outer = scope.builder.location
        for node in module.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(inputs)
            elif node.op == "get_attr":
                found = _attribute(module, node.target)
                values[node] = array_of(found) if isinstance(found, torch.Tensor) else found
            elif node.op == "call_function":
                scope.builder.location = _location(node)
                values[node] = self.call(scope, node, values)
            elif node.op == "output":
                scope.builder.location = outer
                results = torch.fx.map_arg(node.args[0], values.__getitem__)
                return list(results) if isinstance(results, (tuple, list)) else [results]
        raise AssertionError("a graph has an output")

    def call(self, scope: Scope, node: Any, values: Mapping[Any, Any]) -> Any:
        args, keywords = (
            torch.fx.map_arg(part, values.__getitem__) for part in (node.args, node.kwargs)
        )
        if node.target is operator.getitem:
            return args[0][args[1]]
        if name_of(node.target)[0] in (*CHECKS, "_assert_tensor_metadata"):
            return None
        value = node.meta.get("val")
        results = list(value) if isinstance(value, (tuple, list)) else [value]
        try:
            if not any(isinstance(one, torch.Tensor) for one in results):
                return self._number(scope, node, args)
            shapes = [_shape(one) for one in results]
            narrow = ("f64",) if _is_scale(node) else self.narrow
            kinds = [own_kind(kind_of(k.dtype), narrow) if k is not None else None for k in results]
            if all(0 in shape for shape in shapes):
                made: Any = [
                    Array(kind, shape, np.zeros(shape, kind))
                    for shape, kind in zip(shapes, kinds, strict=True)
                ]
                return made if isinstance(value, (tuple, list)) else made[0]
            if self._is_folded(node, args, keywords, results):
                return self._folded(node, args, keywords)
            return self._by_rule(scope, node, args, keywords, shapes, kinds)
        except NotLowered as problem:
            refused = problem
        except TosaConvertError as error:
            refused = NotLowered(error.findings[0].message)  # Its hint is for programs.
        if self.cutter is not None and is_random(node):
            refused.reason = f"{refused.reason}, and it cannot be cut out"
        elif cut := self._cut(scope, node, values, results, refused):
            return cut if isinstance(value, (tuple, list)) else cut[0]
        # What torch decomposed is named as the model has it.
        given = _arrays_in((args, tuple(keywords.values())))
        is_of_stand_in = any(one.dtype == np.float64 and one.data is None for one in given)
        if not is_of_stand_in or any(
            getattr(one, "dtype", None) == torch.float64 for one in results
        ):
            self.refuse(str(node.meta.get("original_aten") or node.target), node, refused)
        stand_ins = [
            self._stand_in(scope, _shape(one), self.kind(one.dtype))
            if isinstance(one, torch.Tensor)
            else (None if one is None else 0)
            for one in results
        ]
        return stand_ins if isinstance(value, (tuple, list)) else stand_ins[0]

    def _by_rule(
        self, scope: Scope, node: Any, args: Any, keywords: Any, shapes: Any, kinds: Any
    ) -> Any:
        """Return what the rule of an operator gives, for complex numbers or for others."""
        has_pairs = any(map(is_complex, kinds)) or any(
            is_complex(one.dtype) for one in _arrays_in((args, tuple(keywords.values())))
        )
        rule = (complex_rule_of if has_pairs else rule_of)(node.target)
        if rule is None:
            raise NotLowered(RANDOM if is_random(node) else _NO_FORM if has_pairs else _NO_RULE)
        for kind in kinds:
            if kind is not None:
                _held(real_kind(kind))
        raw = [one.meta.get("val") if isinstance(one, torch.fx.Node) else one for one in node.args]
        users = [one for one in node.users if one.target is operator.getitem]
        used = {one.args[1] for one in users if one.users}
        at = Node(*(scope, shapes, kinds, self.narrow, raw), *(used.__contains__, self._inner))
        found = rule(at, *args, **keywords)
        for one, shape, kind in zip(
            found if isinstance(found, (tuple, list)) else [found], shapes, kinds, strict=False
        ):
            assert one is None or (one.shape, one.dtype) == (shape, kind), (
                f"{node.target}: {one.shape} {one.dtype} for {shape} {kind}"
            )
        return found

    def _inner(self, scope: Scope, module: Any, given: Sequence[Any]) -> list[Any]:
        self._depth += 1
        try:
            return self.graph(scope, module, given)
        finally:
            self._depth -= 1

    def _cut(
        self,
        scope: Scope,
        node: Any,
        values: Mapping[Any, Any],
        results: Sequence[Any],
        refused: NotLowered,
    ) -> list[Array] | None:
        """Cut an operator out: return new inputs of the program in place of its results, else None."""
        if self.cutter is None:
            return None
        name = str(node.target).removesuffix(".default")
        try:
            if self._depth:
                raise NotLowered(_INSIDE)
            given = [
                torch.fx.map_arg(one, values.__getitem__) for one in arguments_of(node).values()
            ]
            types = [(self.kind(one.dtype), _shape(one)) for one in results]
            row = CutOperator(
                operator=name,
                where=place_of(node),
                results=tuple(range(len(types))),
                reason=refused.reason,
                hint=refused.advice or advice("torch", name),
            )
            return self.cutter.cut(scope, given, row, types)
        except (NotLowered, AttributeError) as problem:
            why = getattr(problem, "reason", "it gives something else than tensors")
            refused.reason = f"{refused.reason}; it cannot be cut out: {why}"
            return None

    def _number(self, scope: Scope, node: Any, args: Sequence[Any]) -> Any:
        """Return what is not a tensor: the element of one, or arithmetic of numbers."""
        if name_of(node.target)[0] in ("_local_scalar_dense", "item"):
            number = args[0].number()
            return args[0] if number is None else number.item()
        if any(isinstance(one, Array) for one in args):
            if node.target not in _SUMS:
                raise NotLowered("it computes a number of the data", "compute it with tensors")
            return scope.elementwise(_SUMS[node.target], *args)
        return node.target(*args)

    def refuse(self, name: str, node: Any, problem: NotLowered) -> None:
        name = name.removesuffix(".default")
        self.problems.append(unlowered(name, place_of(node), problem.reason, problem.advice))

    def _stand_in(self, scope: Scope, shape: tuple[int, ...], kind: Any) -> Array:
        """Return an array in place of one that does not lower: what follows is examined, too."""
        if is_complex(kind):
            part = self._stand_in(scope, shape, real_kind(kind))
            return Array(kind, shape, parts=(part, part))
        try:
            held = carrier(kind)
        except NotLowered:
            held = FLOAT32
        if 0 in shape:
            return Array(kind, shape, np.zeros(shape, kind))
        return Array(kind, shape, None, scope.builder.const(np.zeros((1,) * len(shape), held)))

    # -- constants -------------------------------------------------------------------------------

    def _is_folded(self, node: Any, args: Any, keywords: Any, results: Sequence[Any]) -> bool:
        """Return whether torch computes an operator now: of constants, with results not much larger."""
        leaves = _arrays_in((args, tuple(keywords.values())))
        if any(one.data is None for one in leaves) or name_of(node.target)[0] in MOVES:
            return False
        if not isinstance(node.target, torch._ops.OpOverload):
            return False
        if is_random(node):
            return False
        if node.target.namespace == QUANTISED:
            return False
        given = sum(math.prod(one.stored) * one.dtype.itemsize for one in leaves)
        if _is_elementwise(node):
            sizes = (
                np.broadcast_shapes(*(_padded(one.stored, 8) for one in leaves)) if leaves else ()
            )
            made = math.prod(sizes) * results[0].dtype.itemsize
        else:
            made = sum(
                math.prod(one.shape) * one.dtype.itemsize for one in results if one is not None
            )
        return bool(made <= max(_MOST_FOLDED, 2 * given))

    def _folded(self, node: Any, args: Any, keywords: Any) -> Any:
        """Return the results of an operator of constants, which torch computes."""
        is_stored = _is_elementwise(node)
        nodes = (node.args, node.kwargs)
        # By the types of torch, which 64 bits keep here.
        kinds = {one: one.meta["val"].dtype for one in node.all_input_nodes if "val" in one.meta}
        values: dict[Any, Any] = {}

        def pair(one: Any, array: Any) -> None:
            if isinstance(one, torch.fx.Node):
                values[one] = _tensor(array, kinds.get(one), is_stored)
            elif isinstance(one, (list, tuple)):
                for part, held in zip(one, array, strict=True):
                    pair(part, held)
            elif isinstance(one, dict):
                for key, part in one.items():
                    pair(part, array[key])

        pair(nodes, (args, keywords))
        given, named = torch.fx.map_arg(nodes, values.__getitem__)
        with torch.no_grad():
            made = node.target(*given, **named)
        value = node.meta["val"]
        if isinstance(value, (tuple, list)):
            return [self._made(one, like) for one, like in zip(made, value, strict=True)]
        return self._made(made, value)

    def _made(self, tensor: Any, like: Any) -> Array:
        found = array_of(tensor)
        kind = self.kind(like.dtype)
        data = found.data
        assert data is not None
        if data.dtype != kind:
            data = data.astype(kind)
        shape = _shape(like)
        if data.ndim < len(shape):
            data = data.reshape(_padded(data.shape, len(shape)))
        return Array(kind, shape, data)


def _held(kind: Any) -> np.dtype[Any]:
    """Return the type of numpy that holds elements; raise NotLowered if TOSA has none."""
    if kind == np.float64:
        advice = "compute in float32, as --narrow f64 does"
        raise NotLowered("TOSA does not have the element type float64", advice)
    return carrier(kind)


def _tensor(value: Any, dtype: Any, is_stored: bool) -> Any:
    """Return a constant as a tensor of torch; one with equal elements as it is stored."""
    if not isinstance(value, Array):
        return value
    data = value.data if is_stored else whole_data(value)
    assert data is not None
    if data.dtype.kind not in "biufc":
        plain = np.dtype(f"int{8 * data.dtype.itemsize}")
        return torch.from_numpy(np.array(data.view(plain))).view(dtype)
    made = torch.from_numpy(
        np.array(data)
        if not data.flags.writeable or any(stride < 0 for stride in data.strides)
        else data
    )
    return made if dtype is None else made.to(dtype)


def _is_scale(node: Any) -> bool:
    """Return whether an operator chooses a scale, of 64 bits, that only quantisers use: as FP32."""
    if "choose_qparams" not in str(node.target):
        return False
    scales = [one for one in node.users if one.meta["val"].dtype == torch.float64]
    users = [user for one in scales for user in one.users]
    return all(getattr(one.target, "namespace", "") == QUANTISED for one in users)


def _is_elementwise(node: Any) -> bool:
    return torch.Tag.pointwise in getattr(node.target, "tags", ())


def _padded(sizes: Sequence[int], rank: int) -> tuple[int, ...]:
    return (1,) * (rank - len(sizes)) + tuple(sizes)


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(map(int, value.shape)) if value is not None else ()


def _arrays_in(value: Any) -> list[Array]:
    if isinstance(value, Array):
        return [value]
    if isinstance(value, (tuple, list)):
        return [one for part in value for one in _arrays_in(part)]
    return []


def _attribute(module: Any, target: str) -> Any:
    for name in target.split("."):
        module = getattr(module, name)
    return module


def _location(node: Any) -> str:
    """Return where a node was written: the innermost line of the user's code, and its name."""
    where = locate(node)
    frames = where.split(" ") if where else []
    if not frames:
        return f'loc("{node.name}")'
    if len(frames) == 1:
        return f"loc({frames[0]})"
    nested = frames[-1]
    for frame in reversed(frames[:-1]):
        nested = f"callsite({frame} at {nested})"
    return f"loc({nested})"
