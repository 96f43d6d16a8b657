"""Random changes of a block, one class of change a function.

Each takes a graph, one of its blocks and a source of random numbers, and changes the block in place. It
returns False, and has changed nothing, where the block has nothing of that class to change. The result
need not be a program that TOSA allows.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from enum import IntEnum

from tosa_convert.graph import Block, Constant, Graph, Operator, Tensor, operator

Mutation = Callable[[Graph, Block, random.Random], bool]


def attribute(made: Graph, block: Block, rng: random.Random) -> bool:
    """Another value of an attribute."""
    found = [
        (row, name)
        for row in block.operators
        for name, value in row.attributes.items()
        if (isinstance(value, (int, bytes)) and not isinstance(value, IntEnum) and value != b"")
        or (isinstance(value, tuple) and value)
    ]
    if not found:
        return False
    row, name = rng.choice(found)
    value = row.attributes[name]
    if isinstance(value, bool):
        row.attributes[name] = not value
    elif isinstance(value, int):
        row.attributes[name] = value + 1
    elif isinstance(value, bytes):
        row.attributes[name] = bytes([value[0] ^ 1]) + value[1:]
    elif isinstance(value, tuple):
        row.attributes[name] = (value[0] + 1, *value[1:])
    return True


def data(made: Graph, block: Block, rng: random.Random) -> bool:
    """Return a flipped bit of a constant."""
    results = {name for row in block.operators for name in row.outputs}
    found = [t for t in block.tensors.values() if t.name in results and t.data and t.data.count]
    if not found:
        return False
    chosen = rng.choice(found)
    assert chosen.data is not None
    raw = bytearray(chosen.data.packed())
    raw[rng.randrange(max(1, len(raw) - 1))] ^= 1
    chosen.data = Constant(chosen.dtype, chosen.data.count, bytes(raw))
    return True


def inserted(made: Graph, block: Block, rng: random.Random) -> bool:
    """Return a new operator between a value and some of its uses."""
    at = rng.randrange(len(block.operators) + 1)
    defined = [*block.inputs, *(n for row in block.operators[:at] for n in row.outputs)]
    usable = [n for n in defined if n in block.tensors and not block.tensors[n].variable]
    if not usable:
        return False
    name = rng.choice(usable)
    source = block.tensors[name]
    block.tensors["new!"] = Tensor("new!", source.dtype, source.shape)
    for row in block.operators[at:]:
        row.inputs = tuple("new!" if n == name else n for n in row.inputs)
    block.operators.insert(at, Operator(operator("IDENTITY"), (name,), ("new!",)))
    return True


def removed(made: Graph, block: Block, rng: random.Random) -> bool:
    """Return an operator less; what it took replaces its result."""
    found = [
        row
        for row in block.operators
        if len(row.outputs) == 1
        and row.inputs
        and all(n in block.tensors and not block.tensors[n].variable for n in row.outputs)
        and row.inputs[0] in block.tensors
        and not block.tensors[row.inputs[0]].variable
    ]
    if not found:
        return False
    gone = rng.choice(found)
    block.operators.remove(gone)
    swap = {gone.outputs[0]: gone.inputs[0]}
    for row in block.operators:
        row.inputs = tuple(swap.get(n, n) for n in row.inputs)
    block.outputs = [swap.get(n, n) for n in block.outputs]
    return True


def operands(made: Graph, block: Block, rng: random.Random) -> bool:
    """Return the operands of an operator in another order."""
    found = [row for row in block.operators if len(set(row.inputs)) > 1]
    if not found:
        return False
    row = rng.choice(found)
    row.inputs = row.inputs[1:] + row.inputs[:1]
    return True


def moved(made: Graph, block: Block, rng: random.Random) -> bool:
    """Return an operator before one that does not depend on it."""
    found = [
        index
        for index, (one, other) in enumerate(
            zip(block.operators, block.operators[1:], strict=False)
        )
        if not set(one.outputs) & {*other.inputs, *other.outputs}
        and not set(one.inputs) & set(other.outputs)
    ]
    if not found:
        return False
    index = rng.choice(found)
    block.operators[index : index + 2] = reversed(block.operators[index : index + 2])
    return True


def outputs(made: Graph, block: Block, rng: random.Random) -> bool:
    """Return the outputs in another order, or one less."""
    if len(block.outputs) < 2:
        return False
    block.outputs = block.outputs[1:] + block.outputs[: rng.randrange(2)]
    return True


def inputs(made: Graph, block: Block, rng: random.Random) -> bool:
    """Return the inputs in another order."""
    if len(block.inputs) < 2:
        return False
    block.inputs = block.inputs[1:] + block.inputs[:1]
    return True


def shape(made: Graph, block: Block, rng: random.Random) -> bool:
    """Another shape of a tensor."""
    mentioned = {n for row in block.operators for n in (*row.inputs, *row.outputs)}
    found = [
        t
        for t in block.tensors.values()
        if t.name in mentioned and t.shape is not None and t.data is None
    ]
    if not found:
        return False
    chosen = rng.choice(found)
    assert chosen.shape is not None
    chosen.shape = (*chosen.shape, 1)
    return True


def shared_constant(made: Graph, block: Block, rng: random.Random) -> bool:
    """Return a copy of a constant for one of its uses."""
    found = [row for row in block.operators if row.spec.name == "CONST"]
    if not found:
        return False
    row = rng.choice(found)
    source = block.tensors[row.outputs[0]]
    block.tensors["copy!"] = Tensor("copy!", source.dtype, source.shape, source.data, source.scale)
    block.operators.insert(0, Operator(row.spec, (), ("copy!",)))
    for user in block.operators:
        if row.outputs[0] in user.inputs:
            place = user.inputs.index(row.outputs[0])
            user.inputs = (*user.inputs[:place], "copy!", *user.inputs[place + 1 :])
            break
    return True


def run_regions(made: Graph, block: Block, rng: random.Random) -> bool:
    """Return the two regions of a control-flow operator exchanged."""
    found = [row for row in block.operators if row.spec.regions]
    if not found:
        return False
    row = rng.choice(found)
    one, other = (spec.name for spec in row.spec.regions)
    if row.attributes[one] == row.attributes[other]:
        return False
    row.attributes[one], row.attributes[other] = row.attributes[other], row.attributes[one]
    return True


def region_order(made: Graph, block: Block, rng: random.Random) -> bool:
    """Return the regions in another order."""
    if len(made.regions) < 3:
        return False
    made.regions[1:] = made.regions[:0:-1]
    return True


def symbol(made: Graph, block: Block, rng: random.Random) -> bool:
    """Another symbol of a variable."""
    found = [t for t in block.tensors.values() if t.variable]
    if not found:
        return False
    rng.choice(found).variable_name = "other symbol"
    return True


MUTATIONS: dict[str, Mutation] = {
    made.__name__: made
    for made in (
        attribute,
        data,
        inserted,
        removed,
        operands,
        moved,
        outputs,
        inputs,
        shape,
        shared_constant,
        run_regions,
        region_order,
        symbol,
    )
}
