"""Changes of a lowered program's main block: outputs of their own, and states as variables.

Converters return an argument, or one value twice, where a framework has several outputs with one value.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tosa_convert.errors import fail
from tosa_convert.frontends.process.interface import STATE_FILE, Interface, State
from tosa_convert.graph.constant import Constant, constant_of
from tosa_convert.graph.derived import unused_name
from tosa_convert.graph.model import Block, Graph, Operator, Tensor
from tosa_convert.graph.opset import IDENTITY, VARIABLE_READ, VARIABLE_WRITE
from tosa_convert.records import replace


def with_main(graph: Graph, block: Block) -> Graph:
    """Return the graph with another main block."""
    first, *others = graph.regions
    return replace(graph, regions=[replace(first, blocks=[block, *first.blocks[1:]]), *others])


def with_own_outputs(graph: Graph, kept: Collection[int] = ()) -> Graph:
    """Add an IDENTITY for each result that is an argument or an earlier result.

    Example:
        >>> from tosa_convert.builder import Builder
        >>> b = Builder()
        >>> x = b.input("x", "fp32", (4,))
        >>> b.output(x)
        >>> print(with_own_outputs(b.graph()).main)
        block "main": (x: FP32 [4]) -> (x_output: FP32 [4])
          x_output = IDENTITY(x) : FP32 [4]
    """
    main = graph.main
    taken = set(main.inputs)
    outputs: list[str] = []
    copies: list[Operator] = []
    tensors = dict(main.tensors)
    places = {name: one.location for one in main.operators for name in one.outputs}
    for position, name in enumerate(main.outputs):
        if name in taken and position not in kept and name in tensors:
            copy = unused_name(f"{name}_output", {*tensors, *main.shapes})
            tensors[copy] = Tensor(copy, tensors[name].dtype, tensors[name].shape)
            copies.append(Operator(IDENTITY, (name,), (copy,), {}, places.get(name, "")))
            name = copy
        taken.add(name)
        outputs.append(name)
    if not copies:
        return graph
    block = replace(main, outputs=outputs, operators=[*main.operators, *copies], tensors=tensors)
    return with_main(graph, block)


def with_states(graph: Graph, interface: Interface, folder: Path) -> Graph:
    """Make each state of a converter a variable, in place of argument and result."""
    arrays = _arrays(folder / STATE_FILE)
    main = graph.main
    block = replace(main, operators=list(main.operators), tensors=dict(main.tensors))
    reads: list[Operator] = []
    for state in interface.states:
        argument, result = _value(main.inputs, state.argument), _value(main.outputs, state.result)
        if argument is None and result is None:
            raise fail("frontend-failed", state.name, "the program neither reads nor writes it")
        like = main.tensors[str(argument if argument is not None else result)]
        name = unused_name(state.name, {*block.tensors, *block.shapes})
        block.tensors[name] = Tensor(
            name,
            like.dtype,
            like.shape,
            _initial(arrays, state, like),
            variable=True,
            variable_name=state.name,
        )
        if argument is not None:
            reads.append(Operator(VARIABLE_READ, (name,), (argument,)))
        if result is not None:
            block.operators.append(Operator(VARIABLE_WRITE, (result,), (name,)))
    block.operators[:0] = reads
    gone = {state.argument for state in interface.states}, {s.result for s in interface.states}
    block.inputs = [name for index, name in enumerate(main.inputs) if index not in gone[0]]
    block.outputs = [name for index, name in enumerate(main.outputs) if index not in gone[1]]
    return with_main(graph, block)


def _value(names: list[str], position: int | None) -> str | None:
    return None if position is None else names[position]


def _arrays(path: Path) -> Mapping[str, Any]:
    import zipfile

    try:
        with np.load(path, allow_pickle=False) as stored:
            return dict(stored)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        message = f"the initial values of its states cannot be read: {error}"
        raise fail("frontend-failed", STATE_FILE, message, "please report it") from None


def _initial(arrays: Mapping[str, Any], state: State, like: Tensor) -> Constant:
    """Return the value of a state before the first call."""
    array = arrays.get(state.array)
    if array is None or array.shape != like.shape:
        found = "no value" if array is None else f"a value of the shape {list(array.shape)}"
        message = f"the state has {found}, the program has {like.type_text()}"
        raise fail("frontend-failed", state.name, message, "please report it")
    if array.dtype.kind == "V" and array.dtype.itemsize == like.dtype.numpy.itemsize:
        array = array.view(like.dtype.numpy)
    try:
        return constant_of(array, like.dtype)
    except ValueError as error:
        message = f"the state has {array.dtype} values: {error}"
        raise fail("value-out-of-range", state.name, message) from None
