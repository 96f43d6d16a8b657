"""Goes through an ONNX graph, node by node, and lowers each by its rule of the table."""

from __future__ import annotations

import re
import warnings
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from graphlib import TopologicalSorter
from typing import Any, Final

import numpy as np
import onnx
from onnx import defs, helper

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.frontends.lowering.open_sizes import Decision
from tosa_convert.frontends.lowering.scope import Array, Data, NotLowered, Scope, whole_data
from tosa_convert.frontends.onnx.cut import NodeCutter
from tosa_convert.frontends.onnx.node import (
    ByDefinition,
    Item,
    Items,
    Maybe,
    Names,
    Node,
    Rule,
    Stop,
    names_used,
)
from tosa_convert.frontends.onnx.rules import (
    classical,
    control_flow,
    elementwise,
    indexing,
    microsoft,
    movement,
    products,
    quantised,
    recurrent,
    reductions,
    resize,
    windows,
)
from tosa_convert.frontends.onnx.weights import Weights
from tosa_convert.frontends.process.request import CutOperator
from tosa_convert.frontends.process.request import NotLowered as Unlowered
from tosa_convert.frontends.unlowered import advice, unlowered

#: The sets of operators that ONNX itself defines.
DOMAINS: Final = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training")
#: Bytes of a result up to which onnx computes it.
_MOST_COMPUTED: Final = 1 << 26
#: Operators that give another result in every run, or that run others.
_NOT_COMPUTED: Final = frozenset(
    (
        *("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli"),
        *("Multinomial", "Dropout", "If", "Loop", "Scan", "SequenceMap"),
    )
)
#: Why a node stays whose rule failed: it takes what ONNX defines for granted.
OTHER_FORM: Final = "it does not have the operands, shapes or attributes that ONNX defines"
#: Operators of known numbers whose results may be the same for several sizes, and differ for others.
_DECIDING: Final = frozenset(
    (
        *("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal", "Min", "Max", "Clip"),
        *("Mod", "Sign"),
    )
)
#: Operators whose results may be the same for several sizes if they round.
_ROUNDING: Final = frozenset(("Div", "Floor", "Ceil", "Round", "Cast"))
_UNKNOWN: Final = "ONNX does not define it"
_INSIDE: Final = "it is inside a loop, a branch or a function"


class Walk:
    """Lowers the graphs of a model. What does not lower is collected.

    opsets: the version of each set of operators.
    functions: those of the model, by domain and name.
    reals: the element type that FP64 becomes.
    cutter: takes nodes of the main graph that do not lower out of it.
    """

    def __init__(
        self,
        weights: Weights,
        opsets: Mapping[str, int],
        functions: Iterable[Any] = (),
        reals: Any = np.float64,
        cutter: NodeCutter | None = None,
    ) -> None:
        self.weights = weights
        self.opsets = {"" if domain == "ai.onnx" else domain: n for domain, n in opsets.items()}
        self.functions = {(f.domain, f.name): f for f in functions}
        self.reals = np.dtype(reals)
        self.cutter = cutter
        self.problems: list[Unlowered] = []
        self.decisions: list[Decision] = []
        self.remarks: dict[str, None] = {}
        #: The first node that takes what no node gave: its operator, its place, and that name.
        self.unmade: tuple[str, str, str] | None = None
        self._place = ""
        self._depth = -1

    # -- graphs ----------------------------------------------------------------------------------

    def graph(
        self, scope: Scope, graph: Any, given: Sequence[Item], outer: Names | None = None
    ) -> list[Item]:
        """Return the results of a graph. outer: the names of the graphs around it."""
        names: Names = ChainMap({}, {} if outer is None else outer)
        for tensor in graph.initializer:
            names[tensor.name] = self.constant(tensor)
        for sparse in graph.sparse_initializer:
            names[sparse.values.name] = self.held(self.weights.dense(sparse))
        for info, item in zip(graph.input, given, strict=False):
            names[info.name] = item
        self._depth += 1
        try:
            self.nodes(scope, _needed(graph.node, [info.name for info in graph.output]), names)
        finally:
            self._depth -= 1
        return [self.read(names, info.name) for info in graph.output]

    def read(self, names: Names, name: str) -> Item:
        if name not in names:
            raise Stop
        return names[name]

    def nodes(self, scope: Scope, nodes: Iterable[Any], names: Names) -> None:
        """Lower nodes in their order; `names` gets their results."""
        place = self._place
        for node in nodes:
            self._place = place or node.name or next(filter(None, node.output), "")
            escaped = re.sub(r'(["\\])', r"\\\1", self._place)
            scope.builder.location = f'loc("{escaped}")'
            unknown = [name for name in node.input if name and name not in names]
            if unknown:  # It is made of what did not lower.
                self.unmade = self.unmade or (node.op_type, self._place, unknown[0])
                continue
            try:
                given = [names[name] if name else None for name in node.input]
                found = self.node(scope, node, given, names)
            except Stop:
                continue
            except NotLowered as problem:
                found = self._left(scope, node, given, problem.reason, problem.advice)
            except TosaConvertError as error:
                first = error.findings[0]
                found = self._left(scope, node, given, first.message, first.hint)
            except (LookupError, ValueError, TypeError, ArithmeticError, AssertionError):
                found = self._left(scope, node, given, OTHER_FORM, "")
            made = zip(node.output, found, strict=False)
            names.update((name, item) for name, item in made if name)
        self._place = place

    def _left(
        self, scope: Scope, node: Any, given: Sequence[Item | None], reason: str, hint: str
    ) -> Sequence[Item]:
        """Note a node that does not lower, or cut it out; return stand-ins for its results."""
        domain = "onnx" if node.domain in DOMAINS else node.domain
        problem = unlowered(f"{domain}.{node.op_type}", self._place, reason, hint)
        if self.cutter is not None:
            try:
                if self._depth:
                    raise NotLowered(_INSIDE)
                results = tuple(range(sum(map(bool, node.output))))
                row = CutOperator(
                    operator=problem.operator,
                    where=problem.where,
                    results=results,
                    attributes={
                        name: value
                        for name, value in _attributes(node).items()
                        if isinstance(value, (int, float, str, list))
                    },
                    reason=reason,
                    hint=hint or advice("onnx", problem.operator),
                )
                made = iter(self.cutter.cut_node(scope, node, given, row))
                return [next(made) if name else Maybe(None) for name in node.output]
            except NotLowered as other:
                words = f"it cannot be cut out: {other.reason}"
                problem.reason = f"{reason}; {words}" if reason else words
        self.problems.append(problem)
        return []

    # -- nodes -----------------------------------------------------------------------------------

    def node(
        self, scope: Scope, node: Any, given: Sequence[Item | None], names: Names
    ) -> Sequence[Item]:
        domain = "" if node.domain == "ai.onnx" else node.domain
        own = self.functions.get((node.domain, node.op_type))
        if own is not None:
            return self._called(scope, own, node, _attributes(node), given)
        opset = self.opsets.get(domain, 1)
        schema = _schema(node.op_type, domain, opset)
        rule = (RULES if domain in DOMAINS else MICROSOFT).get(node.op_type)
        if rule is None and schema is None:
            raise NotLowered(_UNKNOWN)
        attributes = _attributes(node)
        if schema is not None:
            attributes = {**_defaults(node.op_type, domain, opset), **attributes}
        made = Node(
            scope,
            node.op_type,
            self._place,
            given,
            attributes,
            [bool(name) for name in node.output],
            opset,
            schema.since_version if schema is not None else 1,
            self,
            names,
        )
        if node.op_type not in OWN and not domain and _are_known(given):
            computed = self._computed(node, given)
            if computed is not None:
                decides = node.op_type in _DECIDING and not _asks_for_a_mark(node, given)
                if decides or (node.op_type in _ROUNDING and _is_rounded(given, computed)):
                    arrays = (whole_data(item) for item in given if isinstance(item, Array))
                    self.decide(node.op_type, b"".join(array.tobytes() for array in arrays))
                return computed
        if rule is not None:
            with suppress(ByDefinition):
                found = rule(made)
                return [found] if isinstance(found, (Array, Items, Maybe)) else found
        function = None if schema is None else _definition(node, schema, opset, given)
        if function is None:
            raise NotLowered("")
        return self._called(scope, function, node, attributes, given)

    def _called(
        self,
        scope: Scope,
        function: Any,
        node: Any,
        attributes: Mapping[str, Any],
        given: Sequence[Item | None],
    ) -> list[Item]:
        """Return the results of a function's body for a node that calls it."""
        self._depth += 1
        values = {row.name: helper.get_attribute_value(row) for row in function.attribute_proto}
        values.update(attributes)
        names: Names = {
            name: item
            for name, item in zip(function.input, given, strict=False)
            if item is not None
        }
        absent = {name for name in function.input if name not in names}
        opsets, place = self.opsets, self._place
        imported = {
            ("" if row.domain == "ai.onnx" else row.domain): row.version
            for row in function.opset_import
        }
        self.opsets = {**opsets, **imported}
        try:
            pairs = zip(function.output, node.output, strict=False)
            wanted = [inner for inner, name in pairs if name]
            needed = _needed(function.node, wanted)
            self.nodes(scope, [_bound(one, values, absent) for one in needed], names)
        finally:
            self.opsets, self._place = opsets, place
            self._depth -= 1
        found: list[Item] = []
        for inner in function.output[: len(node.output)]:
            found.append(self.read(names, inner) if inner in wanted else Maybe(None))
        return found

    # -- constants -------------------------------------------------------------------------------

    def constant(self, tensor: Any) -> Array:
        """Return a tensor of the model. Large ones are views of files."""
        return self.held(self.weights.array(tensor))

    def held(self, data: Data) -> Array:
        """Return a constant; FP64 becomes the type that is asked for."""
        if data.dtype == np.float64 and self.reals != np.float64:
            with np.errstate(over="ignore"):
                data = data.astype(self.reals)
        return Array(data.dtype, tuple(data.shape), data)

    def dtype(self, number: int) -> Any:
        kind = np.dtype(helper.tensor_dtype_to_np_dtype(number))
        return self.reals if kind == np.float64 else kind

    def decide(self, operator: str, operands: bytes) -> None:
        """Note that a node compares or rounds known numbers; where they differ, so may the program."""
        self.decisions.append(Decision(operator, self._place, operands))

    def _computed(self, node: Any, given: Sequence[Item | None]) -> list[Item] | None:
        """Return the results of a node of known operands as onnx computes them, or None."""
        if node.op_type in _NOT_COMPUTED:
            return None
        from onnx.reference import ReferenceEvaluator

        arrays = {
            name: whole_data(item)
            for name, item in zip(node.input, given, strict=True)
            if isinstance(item, Array)
        }
        if sum(array.nbytes for array in arrays.values()) > _MOST_COMPUTED:
            return None
        graph = helper.make_graph(
            [node],
            "constant",
            [
                helper.make_tensor_value_info(
                    name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
                )
                for name, array in arrays.items()
            ],
            [helper.make_empty_tensor_value_info(name) for name in node.output if name],
        )
        opsets = [helper.make_opsetid(domain, n) for domain, n in self.opsets.items()]
        alone = helper.make_model(graph, opset_imports=opsets)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                found = ReferenceEvaluator(alone).run(None, arrays)
        except Exception:  # What onnx's own Python cannot compute is left to the lowering.
            return None
        if not all(isinstance(array, (np.ndarray, np.generic)) for array in found):
            return None
        results = iter(np.asarray(array) for array in found)
        return [self.held(next(results)) if name else Maybe(None) for name in node.output]


def _asks_for_a_mark(node: Any, given: Sequence[Item | None]) -> bool:
    """Return whether a node compares with negative numbers, which mark sizes and are none."""
    return node.op_type == "Equal" and any(
        bool((whole_data(item) < 0).all()) for item in given if isinstance(item, Array)
    )


def _is_rounded(given: Sequence[Item | None], found: Sequence[Item]) -> bool:
    """Return whether whole numbers that a node computes are not the exact results."""
    (result, *_), (first, *others) = (
        [whole_data(item) for item in row if isinstance(item, Array)] for row in (found, given)
    )
    is_quotient = bool(others)
    if is_quotient and result.dtype.kind not in "iu":
        return False
    exact = result * others[0] if is_quotient else result
    return bool(np.any(exact != first))


def _are_known(given: Sequence[Item | None]) -> bool:
    """Return whether all operands are constants of numbers, and there is one."""
    return bool(given) and all(
        item is None or (isinstance(item, Array) and item.is_constant) for item in given
    )


def _needed(nodes: Iterable[Any], results: Iterable[str]) -> list[Any]:
    """Return the nodes that results depend on, each after those that make what it takes.

    ONNX asks for this order; onnxruntime does not.
    """
    rows = list(nodes)
    made_by = {name: index for index, node in enumerate(rows) for name in node.output if name}
    given = [name for node in rows for name in node.output if name]
    if len(made_by) < len(given):
        twice = next(name for name in given if given.count(name) > 1)
        raise fail(
            "unrecognised-input", twice, "two nodes of the ONNX graph define it", "rename one"
        )
    takes = [{made_by[name] for name in names_used(node) if name in made_by} for node in rows]
    if any(max(indices, default=-1) >= index for index, indices in enumerate(takes)):
        rows = [rows[index] for index in TopologicalSorter(dict(enumerate(takes))).static_order()]
    used = set(results)
    found = []
    for node in reversed(rows):
        if not used.isdisjoint(node.output):
            found.append(node)
            used.update(names_used(node))
    return found[::-1]


def _attributes(node: Any) -> dict[str, Any]:
    return {a.name: _plain(helper.get_attribute_value(a)) for a in node.attribute}


def _plain(value: Any) -> Any:
    """Return the value of an attribute, with texts as such."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], bytes):
        return [_plain(one) for one in value]
    return value


@cache
def _schema(kind: str, domain: str, opset: int) -> Any:
    try:
        return defs.get_schema(kind, max_inclusive_version=opset, domain=domain)
    except defs.SchemaError:
        return None


@cache
def _defaults(kind: str, domain: str, opset: int) -> Mapping[str, Any]:
    rows = _schema(kind, domain, opset).attributes
    return {
        name: _plain(helper.get_attribute_value(row.default_value))
        for name, row in rows.items()
        if row.default_value.name
    }


def _bound(node: Any, values: Mapping[str, Any], absent: set[str]) -> Any:
    """Copy a node of a function's body, with what its references to attributes stand for."""
    made = onnx.NodeProto()
    made.CopyFrom(node)
    del made.attribute[:]
    for name in absent.intersection(node.input):
        made.input[:] = ["" if one == name else one for one in made.input]
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            bound = made.attribute.add()
            bound.CopyFrom(attribute)
            for graph in (bound.g, *bound.graphs):
                inner = [_bound(one, values, absent) for one in graph.node]
                del graph.node[:]
                graph.node.extend(inner)
            if not attribute.HasField("g"):
                bound.ClearField("g")
        elif values.get(attribute.ref_attr_name) is not None:
            value = values[attribute.ref_attr_name]
            made.attribute.append(
                helper.make_attribute(attribute.name, value, attr_type=attribute.type or None)
            )
    return made


def _definition(node: Any, schema: Any, opset: int, given: Sequence[Item | None]) -> Any | None:
    """Return the function by which ONNX defines an operator, or None."""
    plain = max((v for v in schema.function_opset_versions if v <= opset), default=0)
    by_context = schema.context_dependent_function_opset_versions
    dependent = max((v for v in by_context if v <= opset), default=0)
    if not plain and not dependent:
        return None
    if dependent and dependent >= plain:
        types = [_type_of(item) for item in given]
        text = schema.get_context_dependent_function_with_opset_version(
            dependent, node.SerializeToString(), types
        )
    else:
        text = schema.get_function_with_opset_version(plain)
    if not text:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(text)
    return function


def _type_of(item: Item | None) -> bytes:
    """Return the type of an operand as onnx's message."""
    if not isinstance(item, Array):
        return b""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(item.dtype))
    data: bytes = helper.make_tensor_type_proto(kind, item.shape).SerializeToString()
    return data


# -- the table of operators ------------------------------------------------------------------------
# Name -> the rule that lowers it. No two sets of operators share one.

_MODULES: Final = (
    *(classical, control_flow, elementwise, indexing, movement, products),
    *(quantised, recurrent, reductions, resize, windows),
)
RULES: Final[dict[str, Rule]] = {
    **{kind: rule for module in _MODULES for kind, rule in module.RULES.items()},
    **microsoft.OWN_DOMAIN,
    **{
        kind: quantised.with_dequantised_weights(products.RULES[kind])
        for kind in quantised.PRODUCTS
    },
}
MICROSOFT: Final[dict[str, Rule]] = microsoft.RULES
#: Rules that take known operands themselves: they move elements without a copy, or keep what is
#: quantised. Other operators of known operands are computed by onnx.
OWN: Final[frozenset[str]] = (
    control_flow.OWN | indexing.OWN | movement.OWN | products.OWN | quantised.OWN
)
