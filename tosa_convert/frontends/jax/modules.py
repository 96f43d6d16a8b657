"""Modules of flax.nnx: what a call of one changes, such as a cache, becomes variables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
import numpy as np

from tosa_convert.builder.values import Variable
from tosa_convert.errors import fail
from tosa_convert.frontends.lowering.scope import Array, Data, Scope
from tosa_convert.frontends.lowering.types import carrier

#: The changed arrays that a message lists.
_MOST_NAMES: Final = 4


@dataclass(frozen=True)
class State:
    """The state of a module, as the first argument and the last result of a pure function.

    function: takes the state before the module's arguments; returns the module's result, and the state.
    tree: the state before the first call.
    names: the paths of its arrays.
    is_random: whether each is the state of a random number generator.
    """

    function: Callable[..., Any]
    tree: Any
    names: Sequence[str]
    is_random: Sequence[bool]


def state_of(function: Callable[..., Any]) -> State:
    """Return the state of an nnx module. Other functions have none: their state is an empty tuple."""
    nnx = sys.modules.get("flax.nnx")
    if nnx is None or not isinstance(function, nnx.Module):
        return State(lambda state, *args, **kwargs: (function(*args, **kwargs), ()), (), (), ())
    structure, tree = nnx.split(function)

    def pure(state: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        module = nnx.merge(structure, state)
        result = module(*args, **kwargs)
        return result, nnx.state(module)

    rows = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda v: isinstance(v, nnx.Variable))
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in rows[0]]
    return State(pure, tree, names, [isinstance(row, nnx.RngState) for _, row in rows[0]])


def refuse_changed_arguments(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    names: Sequence[str],
) -> None:
    """Refuse a function that changes nnx modules among its arguments, which would be lost."""
    nnx = sys.modules.get("flax.nnx")
    if nnx is None:
        return
    nodes = jax.tree.leaves((args, kwargs), is_leaf=lambda node: isinstance(node, nnx.Variable))
    kept = [
        isinstance(node, nnx.Variable) and not isinstance(node, nnx.RngState)
        for node in nodes
        for _ in jax.tree.leaves(node)
    ]
    if not any(kept):
        return

    def after(*args: Any, **kwargs: Any) -> Any:
        function(*args, **kwargs)
        return jax.tree.leaves((args, kwargs))

    jaxpr = jax.make_jaxpr(after)(*args, **kwargs).jaxpr
    pairs = zip(names, kept, jaxpr.invars, jaxpr.outvars, strict=True)
    changed = [
        name.removesuffix(".value")
        for name, is_kept, old, new in pairs
        if is_kept and _source(jaxpr, new) is not old
    ]
    if changed:
        more = ", ..." if len(changed) > _MOST_NAMES else ""
        message = f"a call changes its arguments: {', '.join(changed[:_MOST_NAMES])}{more}"
        hint = (
            "return what changes, or give one module as the function: its state becomes variables"
        )
        raise fail("frontend-failed", "jax", message, hint)


def _source(jaxpr: Any, variable: Any) -> Any:
    """Return the argument that a variable is, if calls of `jax.jit` only pass it through."""
    for equation in jaxpr.eqns:
        if variable in equation.outvars and equation.primitive.name in ("jit", "pjit"):
            inner = equation.params["jaxpr"].jaxpr
            found = _source(inner, inner.outvars[equation.outvars.index(variable)])
            if found in inner.invars:
                return _source(jaxpr, equation.invars[inner.invars.index(found)])
    return variable


def name_of(state: State, index: int) -> str:
    return state.names[index].removesuffix(".value")


def changes(state: State, jaxpr: Any) -> list[bool]:
    """Return whether a call changes each array of a module's state."""
    count = len(state.names)
    after = jaxpr.outvars[len(jaxpr.outvars) - count :]
    if len(after) != count or len(jax.tree.leaves(state.tree)) != count:
        message = "a call of the module makes state that it did not have before"
        raise fail("frontend-failed", "jax", message, "call the module once before")
    return [old is not new for old, new in zip(jaxpr.invars[:count], after, strict=True)]


class Variables:
    """Hold a module's state in a program: constants, or variables if a call changes them."""

    def __init__(self, scope: Scope, state: State, jaxpr: Any) -> None:
        self.scope = scope
        self.declared: dict[int, Variable] = {}
        self.count = len(state.names)
        self.arrays: list[Array] = []
        leaves = jax.tree.leaves(state.tree)
        for index, (leaf, is_changed) in enumerate(zip(leaves, changes(state, jaxpr), strict=True)):
            self.arrays.append(self._array(index, state, leaf, is_changed=is_changed))

    def _array(self, index: int, state: State, leaf: Any, is_changed: bool) -> Array:
        if not is_changed:
            is_key = str(leaf.dtype).startswith("key<")
            return Array(leaf.dtype, tuple(leaf.shape), leaf if is_key else np.asarray(leaf))
        if state.is_random[index]:
            # A counter of draws. What depends on it is refused by name.
            return Array(leaf.dtype, tuple(leaf.shape))
        data: Data = np.asarray(leaf)
        kind = carrier(data.dtype)
        name = name_of(state, index)
        variable = self.scope.builder.variable(name, kind, data.shape, data.view(kind))
        self.declared[index] = variable
        return self.scope.array(self.scope.builder.read(variable), data.dtype)

    def write(self, results: Sequence[Array]) -> None:
        """Write the new state, which is the last of the results."""
        after = results[len(results) - self.count :]
        for index, variable in self.declared.items():
            self.scope.builder.write(variable, self.scope.whole(after[index]))
