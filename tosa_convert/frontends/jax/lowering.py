"""A JAX function as a TOSA program."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

import jax
import numpy as np
from jax.tree_util import SequenceKey, keystr, tree_flatten_with_path

from tosa_convert.builder import Builder
from tosa_convert.errors import fail
from tosa_convert.frontends.jax.modules import State, Variables, refuse_changed_arguments, state_of
from tosa_convert.frontends.jax.walk import Walk, is_key
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope
from tosa_convert.frontends.lowering.types import RANDOM_ADVICE, carrier, refuse_empty
from tosa_convert.frontends.process.request import NotLowered as Unlowered
from tosa_convert.frontends.process.request import Value, by_position
from tosa_convert.frontends.read_result import with_own_outputs
from tosa_convert.graph.derived import rename_in_order
from tosa_convert.graph.model import Graph

_NUMBERS: Final = (bool, int, float, complex)
_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class Lowered:
    """What became of a function.

    graph: the program; None if something does not lower.
    inputs, outputs: the arrays of its arguments and results, in order.
    problems: what does not lower.
    unused_keys: keys of random numbers among the arguments that no result needs, which are left out.
    """

    graph: Graph | None
    inputs: list[Value]
    outputs: list[Value]
    problems: list[Unlowered]
    unused_keys: list[str] = field(default_factory=list)

    def remarks(self) -> list[str]:
        return [f"the key {name} is left out: no result needs it" for name in self.unused_keys]


@dataclass(frozen=True)
class Traced:
    """A function as JAX sees it.

    jaxpr: of the function of the state's arrays and the arguments' ones, in this order; it returns the
        results and the state's arrays.
    inputs, outputs: the arrays of the function's arguments and results, in order.
    """

    jaxpr: Any
    state: State
    inputs: list[Value]
    outputs: list[Value]


class Arguments(NamedTuple):
    """The example arguments of a function: arrays, `jax.ShapeDtypeStruct`, and trees of them."""

    positional: tuple[Any, ...]
    keywords: Mapping[str, Any]


def lower_function(
    function: Callable[..., Any],
    arguments: Arguments,
    names: Sequence[str] | None = None,
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    has_full_paths: bool = False,
    names_of_results: Sequence[str] | None = None,
    walk: Walk | None = None,
    state: State | None = None,
) -> Lowered:
    """Lower a function. state: of a module that is not one of flax.nnx."""
    traced = trace(function, arguments, names, shapes, state)
    for port, name in zip(traced.outputs, names_of_results or (), strict=bool(names_of_results)):
        port.name = name
    walk = Walk(has_full_paths) if walk is None else walk
    # Constants are computed in the memory that programs are written from.
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        graph = _program(walk, traced)
    inputs, keys = _without_keys(traced.inputs)
    return Lowered(graph, inputs, traced.outputs, walk.problems, keys)


def trace(
    function: Callable[..., Any],
    arguments: Arguments,
    names: Sequence[str] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    state: State | None = None,
) -> Traced:
    given = list(names) if names is not None else _parameter_names(function, arguments.positional)
    # JAX orders the arrays of keywords by name.
    arguments = arguments._replace(keywords=dict(sorted(arguments.keywords.items())))
    state = state_of(function) if state is None else state
    pure_function, arguments = _bind_fixed(state.function, arguments)
    trees = [*arguments.positional, *arguments.keywords.values()]
    flat = [
        name
        for prefix, tree in zip([*given, *arguments.keywords], trees, strict=True)
        for name in _tree_names(prefix, tree)
    ]
    if shapes:
        arguments = _with_shapes(arguments, flat, shapes)
    _refuse_symbols(flat, arguments)
    closed, results = jax.make_jaxpr(pure_function, return_shape=True)(
        state.tree, *arguments.positional, **arguments.keywords
    )
    refuse_changed_arguments(
        partial(pure_function, state.tree), arguments.positional, arguments.keywords, flat
    )
    names_of_results = list(_result_names(results[0]))
    inputs = _values(flat, closed.in_avals[len(state.names) :])
    outputs = _values(names_of_results, closed.out_avals[: len(names_of_results)])
    return Traced(closed, state, inputs, outputs)


def example_arrays(arguments: Arguments) -> list[Any]:
    """Return the arguments' leaves that are inputs: opaque bytes of other types, None without data."""
    found: list[Any] = []
    leaves = jax.tree.leaves(tuple(arguments))
    for leaf, is_fixed in zip(leaves, _fixed(tuple(arguments)), strict=True):
        if is_fixed or is_key(leaf):
            continue
        if isinstance(leaf, jax.ShapeDtypeStruct):
            found.append(None)
            continue
        array = np.asarray(leaf, jax.numpy.result_type(leaf))
        is_plain = array.dtype.kind in "biuf" and array.dtype.isbuiltin == 1
        found.append(array if is_plain else array.view(f"V{array.dtype.itemsize}"))
    return found


def use_cpu() -> None:
    """Have JAX run on the CPU in this process, unless the environment says otherwise."""
    if "JAX_PLATFORMS" not in os.environ:
        jax.config.update("jax_platforms", "cpu")


def _refuse_symbols(names: Sequence[str], arguments: Arguments) -> None:
    """Raise TosaConvertError for a size that `jax.export.symbolic_shape` made."""
    for name, leaf in zip(names, jax.tree.leaves(tuple(arguments)), strict=True):
        shape = getattr(leaf, "shape", ())
        if not all(isinstance(size, (int, np.integer)) for size in shape):
            sizes = [size if isinstance(size, (int, np.integer)) else 1 for size in shape]
            message = f"the example argument {name} has a symbolic size: {shape}"
            hint = f"give it numbers, or --input-shape {name}={'x'.join(map(str, sizes))}"
            raise fail("frontend-failed", "jax", message, hint)


def _is_array(leaf: Any, numbers: tuple[type, ...] = _NUMBERS) -> bool:
    return hasattr(leaf, "dtype") or isinstance(leaf, numbers)


def _fixed(tree: Any) -> list[bool]:
    """Return which leaves become part of the program: texts, functions, numbers of equinox's modules."""
    equinox = sys.modules.get("equinox")
    kind = equinox.Module if equinox is not None else ()
    found = []
    for node in jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, kind)):
        numbers = () if isinstance(node, kind) else _NUMBERS
        found += [not _is_array(leaf, numbers) for leaf in jax.tree.leaves(node)]
    return found


def _bind_fixed(
    function: Callable[..., Any], arguments: Arguments
) -> tuple[Callable[..., Any], Arguments]:
    """Bind the example arguments that are not arrays to a function of a state, and put None for them."""
    leaves, tree = jax.tree.flatten(tuple(arguments))
    fixed = _fixed(tuple(arguments))
    if not any(fixed):
        return function, arguments

    def bound(state: Any, *args: Any, **kwargs: Any) -> Any:
        arrays = iter(jax.tree.leaves((args, kwargs)))
        held = [
            leaf if is_fixed else next(arrays) for leaf, is_fixed in zip(leaves, fixed, strict=True)
        ]
        args, kwargs = jax.tree.unflatten(tree, held)
        # A module among the results has its functions, too.
        result, after = function(state, *args, **kwargs)
        return jax.tree.map(lambda leaf: leaf if _is_array(leaf) else None, result), after

    shown = [None if is_fixed else leaf for leaf, is_fixed in zip(leaves, fixed, strict=True)]
    return bound, Arguments(*jax.tree.unflatten(tree, shown))


def _with_shapes(
    arguments: Arguments, names: Sequence[str], shapes: Mapping[str, tuple[int, ...]]
) -> Arguments:
    """Give arguments other shapes. An array goes by its name, or its position as in `arg0`."""
    leaves, tree = jax.tree.flatten(tuple(arguments))
    for position, sizes in by_position([([name], None) for name in names], shapes).items():
        leaf = leaves[position]
        leaves[position] = jax.ShapeDtypeStruct(sizes, jax.numpy.result_type(leaf))
    return Arguments(*jax.tree.unflatten(tree, leaves))


def _program(walk: Walk, traced: Traced) -> Graph | None:
    closed, inputs, outputs = traced.jaxpr, traced.inputs, traced.outputs
    builder = Builder("main")
    scope = Scope(builder)
    variables = Variables(scope, traced.state, closed.jaxpr)
    arguments: list[Array] = []
    for port, aval in zip(inputs, closed.in_avals[variables.count :], strict=True):
        arguments.append(Array(aval.dtype, tuple(aval.shape)))
        if is_key(aval):
            continue  # A key that no result needs, as in inference, is not an input of the program.
        try:
            kind = carrier(aval.dtype)
            refuse_empty(aval.shape)
            value = builder.input(f"argument {len(arguments) - 1}", kind, aval.shape)
            arguments[-1].value = value
        except NotLowered as problem:
            walk.refuse(f"argument {port.name}", problem)
    found = walk.run(scope, closed, [*variables.arrays, *arguments])
    results = found[: len(outputs)]
    for port, result in zip(outputs, results, strict=True):
        try:
            carrier(result.dtype)
            refuse_empty(result.shape)
            if not result.is_lowered and not walk.problems:
                raise NotLowered("it depends on a key or a counter of random draws", RANDOM_ADVICE)
        except NotLowered as problem:
            walk.refuse(f"result {port.name}", problem)
    if walk.problems:
        for port in filter(is_key, inputs):
            refusal = NotLowered(f"TOSA does not have the element type {port.dtype}", RANDOM_ADVICE)
            walk.refuse(f"argument {port.name}", refusal)
        return None
    variables.write(found)
    builder.output(*map(scope.whole, results))
    names = [port.name for port in _without_keys(inputs)[0]], [port.name for port in outputs]
    return rename_in_order(with_own_outputs(builder.graph()), *names)


def _without_keys(inputs: Sequence[Value]) -> tuple[list[Value], list[str]]:
    """Return the inputs that are not random keys, and the names of those that are."""
    return [port for port in inputs if not is_key(port)], [
        port.name for port in inputs if is_key(port)
    ]


# -- names ---------------------------------------------------------------------------------------


def _parameter_names(function: Callable[..., Any], args: Sequence[Any]) -> list[str]:
    """Return the names of the parameters that get the positional arguments."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    named = [row.name for row in parameters if row.kind in _POSITIONAL]
    rest = next((row.name for row in parameters if row.kind is row.VAR_POSITIONAL), "")
    more = len(args) - len(named)
    named += [f"{rest}_{index}" if rest else f"arg{len(named) + index}" for index in range(more)]
    return named[: len(args)]


def _tree_names(prefix: str, tree: Any) -> Iterator[str]:
    """Iterate over the names of a tree's leaves: their paths, with dots."""
    for path, _ in tree_flatten_with_path(tree)[0]:
        yield ".".join([prefix, *(keystr((key,), simple=True) for key in path)])


def _result_names(tree: Any) -> Iterator[str]:
    """Iterate over the names of results: their keys; positions and a single one are "output"."""
    for path, _ in tree_flatten_with_path(tree)[0]:
        words = [keystr((key,), simple=True) for key in path]
        if not path:
            words = ["output"]
        elif isinstance(path[0], SequenceKey):
            words[0] = f"output_{words[0]}"
        yield ".".join(words)


def _values(names: Iterable[str], avals: Sequence[Any]) -> list[Value]:
    return [
        Value(name=name, dtype=str(aval.dtype), shape=tuple(aval.shape))
        for name, aval in zip(names, avals, strict=True)
    ]
