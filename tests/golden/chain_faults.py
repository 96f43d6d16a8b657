"""Plant faults in the links of chains, and count which of them `chain` names.

    PYTHONPATH=tests:. python tests/golden/chain_faults.py --faults 100 --honest 200

A chain has a network of the zoo in torch, the same quantised by pt2e (in half of the chains), its
program, the program after rewrites, and a backend. A fault is of a random kind, in a random link and
operator, and counts if it changes the outputs clearly: by more than the step itself does. It needs torch
and ExecuTorch.
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import os
import random
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

ROOT: Final = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "zoo"), str(ROOT)]

import torch  # noqa: E402
from golden.correct_backends import CorrectBackend  # noqa: E402

import tosa_convert as tc  # noqa: E402
from tosa_convert.errors import TosaConvertError  # noqa: E402
from tosa_convert.golden.arrays import Array  # noqa: E402
from tosa_convert.golden.backends import worker  # noqa: E402
from tosa_convert.golden.backends.recorded_tensors import (  # noqa: E402
    Source,
    recorded,
    same_tensors,
    steps_of_model,
    tensors_of,
    with_results,
)
from tosa_convert.golden.running.run import run  # noqa: E402
from tosa_convert.graph import Block, Graph, Operator, Region  # noqa: E402
from tosa_convert.graph.constant import constant_of  # noqa: E402
from tosa_convert.graph.opset import CONST, CONST_SHAPE  # noqa: E402
from tosa_convert.graph.opset import operator as row_of  # noqa: E402
from tosa_convert.qualify.chain.chain import Chain, chain  # noqa: E402
from tosa_convert.rewrites.public import apply  # noqa: E402

#: Networks of the zoo that run in a second, by file.
NETWORKS: Final = {
    "classifiers": "lenet resnet_basic squeezenet",
    "mobile": "shufflenet_v2",
    "attention": "vit bert mlp_mixer",
    "sequences": "tcn mamba",
}
KINDS: Final = ("scale", "zero point", "weight", "rounding", "order", "precision")
#: How much of the outputs a fault in floating point changes at least.
_LEAST: Final = 1e-4
#: ... a fault of a quantised network, as a multiple of what its quantisation changes.
_TIMES: Final = 2.0


# -- networks, and their forms that do not change --------------------------------------------------


@dataclass
class Network:
    """A network of the zoo: what runs once."""

    name: str
    module: Any
    arguments: tuple[Any, ...]
    inputs: dict[str, Array]
    float: Source
    outputs: list[Array]
    graph: Graph
    quantised: Any = None
    of_quantised: Quantised | None = None


@dataclass
class Quantised:
    """Hold what runs once of a network that is quantised without a fault."""

    graph: Graph
    float: Source
    fakequant: Source
    outputs: list[Array]


def steps(
    module: Any, arguments: tuple[Any, ...], keys: Sequence[str]
) -> tuple[Source, list[Array]]:
    """Run a module of torch as `worker.py` does, and return its tensors and its outputs."""
    own = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        os.chdir(folder)
        try:
            watched = module
            if not isinstance(module, torch.fx.GraphModule):
                watched = torch.export.export(module, arguments).module()
            rows: list[Any] = []
            found: list[Array] = []
            worker._watched(torch, watched, rows, found)(*arguments)
            worker._describe(rows)
            made = steps_of_model(Path(folder), [partial(np.asarray, array) for array in found])
        finally:
            os.chdir(own)
        results = torch.utils._pytree.tree_leaves(module(*arguments))
    outputs = [row.detach().numpy() for row in results]
    pairs = zip(keys, outputs, strict=True)
    results = [recorded(key, partial(np.asarray, array)) for key, array in pairs]
    return Source("", with_results(made, results)), outputs


def lowered(module: Any, arguments: tuple[Any, ...]) -> Graph:
    return tc.frontends.from_torch(module, arguments, {}, narrow="i64")


def networks(names: Sequence[str]) -> Iterator[Network]:
    """Iterate over the networks that lower; those that take long are left out."""
    import importlib

    for family, listed in NETWORKS.items():
        module = importlib.import_module(family)
        for name in listed.split():
            if names and name not in names:
                continue
            make = getattr(module, f"make_{name}", None)
            if make is None:
                print(f"{name}: not in the zoo", file=sys.stderr)
                continue
            try:
                yield from _network(name, make)
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)


def _network(name: str, make: Callable[[], Any]) -> Iterator[Network]:
    torch.manual_seed(0)
    module, arguments = make()
    arguments = arguments if isinstance(arguments, tuple) else (arguments,)
    graph = lowered(module, arguments)
    arrays = [row.numpy() for row in torch.utils._pytree.tree_leaves(arguments)]
    pairs = zip(graph.main.inputs, arrays, strict=True)
    inputs = {key: row.astype(graph.main.tensors[key].dtype.numpy) for key, row in pairs}
    start = time.monotonic()
    run(graph, inputs, engine="numpy")
    if time.monotonic() - start > 2:
        raise RuntimeError("it takes long")
    source, outputs = steps(module, arguments, graph.main.outputs)
    made = Network(name, module, arguments, inputs, source, outputs, graph)
    try:
        from quantised import quantised

        # Passes scale the weights of the module in place.
        made.quantised = quantised(copy.deepcopy(module), arguments)
        graph = lowered(made.quantised, arguments)
        fakequant, outputs = steps(made.quantised, arguments, graph.main.outputs)
        source, _ = steps(module, arguments, graph.main.outputs)
        made.of_quantised = Quantised(graph, source, fakequant, outputs)
    except Exception as error:
        print(f"{name}: not quantised: {str(error)[:100]}", file=sys.stderr)
        made.quantised = None
    yield made


# -- faults of programs ----------------------------------------------------------------------------


def edited(graph: Graph, kind: str, choose: random.Random) -> tuple[Graph, int] | None:
    """Return a program with a fault of a kind, and the index of the operator that has it."""
    block = graph.main
    tensors, operators = dict(block.tensors), list(block.operators)
    places = list(range(len(operators)))
    choose.shuffle(places)
    for index in places:
        op = operators[index]
        if op.spec in (CONST, CONST_SHAPE):
            continue
        changed = _changed(block, op, kind, choose)
        if changed is None:
            continue
        if isinstance(changed, Operator):
            operators[index] = changed
        elif isinstance(changed, tuple):
            # A constant of its own: others may read the same one.
            name, array = changed
            own = f"{name} of the fault"
            tensor = tensors[name]
            tensors[own] = replace(tensor, name=own, data=constant_of(array, tensor.dtype))
            operators[index] = Operator(
                op.spec,
                tuple(own if one == name else one for one in op.inputs),
                op.outputs,
                op.attributes,
                op.location,
            )
            operators.insert(index, Operator(CONST, (), (own,), {}, op.location))
            index += 1
        made = Block(block.name, block.inputs, block.outputs, operators, tensors, block.shapes)
        regions = [Region(graph.regions[0].name, [made]), *graph.regions[1:]]
        return Graph(graph.version, regions, graph.producer), index
    return None


def _changed(
    block: Block, op: Operator, kind: str, choose: random.Random
) -> Operator | tuple[str, Array] | None:
    name = op.spec.name
    constants = [
        (one, data.numpy().copy())
        for one in op.inputs
        if one in block.tensors and (data := block.tensors[one].data) is not None
    ]
    weights = [
        row
        for row in constants
        if row[1].ndim >= 2 and row[1].size >= 16 and row[1].dtype.kind == "f"
    ]
    if name in ("CONV2D", "DEPTHWISE_CONV2D", "TRANSPOSE_CONV2D", "MATMUL") and weights:
        key, array = weights[0]
        axis = array.ndim - 1 if name == "MATMUL" else 0
        if kind == "weight":
            place: list[Any] = [slice(None)] * array.ndim
            place[axis] = choose.randrange(array.shape[axis])
            array[tuple(place)] *= choose.choice([-1, 0, 2])
            return key, array
        if kind == "precision":
            bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
            return key, (bits & np.uint32(0xFFFF0000)).view(np.float32).reshape(array.shape)
        if kind == "order":
            turned = np.flip(array, axis=1 if name != "MATMUL" and array.shape[1] > 1 else axis)
            return key, np.ascontiguousarray(turned)
    small = [row for row in constants if row[1].dtype.kind == "f" and row[1].size]
    if kind == "scale" and name == "MUL" and small:
        return small[0][0], (small[0][1] * choose.choice([0.5, 0.9, 1.1, 2])).astype(np.float32)
    if kind == "zero point" and name in ("ADD", "SUB") and small and small[0][1].size == 1:
        return small[0][0], small[0][1] + np.float32(choose.choice([-4, -1, 1, 4]))
    if kind == "order" and name == "SUB":
        return Operator(op.spec, op.inputs[::-1], op.outputs, op.attributes, op.location)
    if kind == "rounding" and name == "FLOOR":
        return Operator(row_of("CEIL"), op.inputs, op.outputs, {}, op.location)
    if kind == "rounding" and name in ("AVG_POOL2D", "CLAMP", "EXP", "TANH", "SIGMOID", "ERF"):
        if block.tensors[op.outputs[0]].dtype.name == "FP32":
            return (
                Operator(row_of("CEIL"), op.inputs[:1], op.outputs, {}, op.location)
                if (block.tensors[op.inputs[0]].shape == block.tensors[op.outputs[0]].shape)
                else None
            )
    return None


class Faulty(CorrectBackend):
    """A backend with a fault in one operator."""

    def __init__(self, target: str, change: Callable[[Array], Array]) -> None:
        super().__init__()
        self.target, self.change = target, change
        self.name = self.text = "faulty"

    def changed(
        self,
        block: Block,
        operator: Operator,
        operands: Mapping[str, Any],
        results: dict[str, Any],
        states: dict[str, Array],
    ) -> dict[str, Any]:
        """Return the results with the fault."""
        if self.target not in results:
            return results
        array = np.asarray(results[self.target])
        return {**results, self.target: self.change(array).astype(array.dtype)}


def of_result(kind: str, choose: random.Random) -> Callable[[Array], Array]:
    """Return a fault of a kind in the result of an operator."""
    factor, place = choose.choice([0.98, 1.01, 1.1]), choose.random()

    def change(array: Array) -> Array:
        wide = array.astype(np.float64)
        step = 1.0 if array.dtype.kind in "iu" else 0.01 * float(np.abs(wide).max(initial=0.0))
        if array.dtype == np.bool_:
            return ~array
        if kind == "scale":
            return wide * factor
        if kind == "zero point":
            return wide + step
        if kind == "weight":
            found = wide.copy()
            if found.ndim:
                found[..., int(place * found.shape[-1])] *= -1
            return found
        if kind == "rounding":
            return np.trunc(wide / step * 8) * step / 8 if step and step != 1 else wide - 1
        if kind == "order":
            return np.roll(wide.reshape(-1), 1).reshape(wide.shape)
        with np.errstate(over="ignore"):
            return wide.astype(np.float16) if array.dtype.kind == "f" else wide // 2 * 2

    return change


def of_quantised(module: Any, kind: str, choose: random.Random) -> tuple[Any, str] | None:
    """Return a quantised module with a fault of a kind, and the name of the node that has it."""
    made = copy.deepcopy(module)
    nodes = [
        node
        for node in made.graph.nodes
        if str(node.target).startswith("quantized_decomposed.quantize_per_tensor")
    ]
    if not nodes:
        return None
    node = choose.choice(nodes)
    arguments = list(node.args)
    if kind == "scale":
        arguments[1] *= choose.choice([0.3, 3.0])
    elif kind == "zero point":
        arguments[2] = max(-128, min(127, arguments[2] + choose.choice([-40, 40])))
    elif kind == "precision":
        middle = arguments[2]
        arguments[3], arguments[4] = max(-128, middle - 8), min(127, middle + 8)
    elif kind in ("weight", "order"):
        names = [
            name
            for name, row in (*made.named_parameters(), *made.named_buffers())
            if row.dtype == torch.int8 and row.ndim >= 2
        ]
        if not names:
            return None
        name = choose.choice(names)
        row = dict((*made.named_parameters(), *made.named_buffers()))[name]
        with torch.no_grad():
            row.copy_(-row if kind == "weight" else row.flip(0))
        users = [one for one in made.graph.nodes if one.op == "get_attr" and one.target == name]
        return made, users[0].name if users else ""
    else:
        return None
    node.args = tuple(arguments)
    made.recompile()
    return made, node.name


# -- one chain -------------------------------------------------------------------------------------


@dataclass
class Planted:
    """A chain's sources, and where the fault is. place: an index, or the name of a node of torch."""

    sources: dict[str, Any]
    link: str
    kind: str
    place: int | str
    graph: Graph | None
    module: Any = None


def planted(network: Network, kind: str, link: str, choose: random.Random) -> Planted | None:
    """Return the sources of a chain with one fault, or none of it for the link ""."""
    quantised = network.quantised if choose.random() < 0.5 or link == "fakequant" else None
    sources: dict[str, Any] = {"float": network.float}
    place: int | str = -1
    graph, owner, module = network.graph, None, quantised
    if quantised is not None:
        honest = network.of_quantised
        assert honest is not None
        graph, sources = honest.graph, {"float": honest.float, "fakequant": honest.fakequant}
        if link == "fakequant":
            found = of_quantised(quantised, kind, choose)
            if found is None:
                return None
            module, place = found
            sources["fakequant"], outputs = steps(module, network.arguments, graph.main.outputs)
            least = _TIMES * distance(honest.outputs, network.outputs)
            if distance(outputs, network.outputs) < least:
                return None
            graph = lowered(module, network.arguments)
    elif link == "fakequant":
        return None
    least = _LEAST if quantised is None else _LEAST * 10

    def with_fault(graph: Graph, own: str) -> Graph | None:
        nonlocal place, owner
        if link != own:
            return graph
        found = edited(graph, kind, choose)
        if found is None or not _changes(graph, found[0], network.inputs, least):
            return None
        place, owner = found[1], found[0]
        return found[0]

    if (made := with_fault(graph, "tosa")) is None:
        return None
    sources["tosa"] = made
    after = apply(made).graph
    if (made := with_fault(after, "rewritten")) is None:
        return None
    sources["rewritten"] = made
    sources["device"] = CorrectBackend()
    if link == "device":
        computing = [
            k
            for k, op in enumerate(made.main.operators)
            if op.spec not in (CONST, CONST_SHAPE) and op.outputs[0] in made.main.tensors
        ]
        place, owner = choose.choice(computing), made
        backend = Faulty(made.main.operators[place].outputs[0], of_result(kind, choose))
        right = run(made, network.inputs, engine="numpy").outputs
        answer = backend.compute(made, made.main.outputs, network.inputs, [], Path())
        if distance([answer[k] for k in right], list(right.values())) < least:
            return None
        sources["device"] = backend
    return Planted(sources, link, kind, place, owner, module)


def _changes(graph: Graph, other: Graph, inputs: Mapping[str, Array], least: float) -> bool:
    right, found = (run(one, inputs, engine="numpy").outputs for one in (graph, other))
    return distance(list(found.values()), list(right.values())) >= least


def distance(found: Sequence[Array], right: Sequence[Array]) -> float:
    """Return the largest error of an output, by the root of the mean square."""
    worst = 0.0
    for one, other in zip(found, right, strict=True):
        a, b = one.astype(np.float64), other.astype(np.float64)
        size = float(np.sqrt(np.mean(np.square(b)))) or 1.0
        worst = max(worst, float(np.sqrt(np.mean(np.square(a - b)))) / size)
    return worst


def near(case: Planted, result: Chain) -> bool:
    """Return whether the operator with the fault, or a neighbour, is what the first bad link names."""
    first = result.first
    assert first is not None
    if isinstance(case.place, str):
        # The table has the names of the program.
        made, program = case.sources["fakequant"].tensors, case.sources["tosa"]
        rows = tensors_of(program, lambda key: np.zeros(program.main.tensors[key].shape))
        names = {rows[k].name: made[own].name for own, k in same_tensors(made, rows).items()}
        return _near_in_torch(case, names.get(first.tensor, first.tensor))
    graph = case.graph
    assert graph is not None
    operators = graph.main.operators
    named = {int(found[1]) for row in first.operators if (found := re.search(r"#(\d+) ", row))}
    if not named or len(named) > 12:
        return False
    own = operators[case.place]
    beside = {
        k
        for k, op in enumerate(operators)
        if set(op.outputs) & set(own.inputs) or set(op.inputs) & set(own.outputs)
    }
    return bool(named & {case.place, *beside})


def _near_in_torch(case: Planted, tensor: str) -> bool:
    """Return whether a tensor is one of the next ones that the float model has, or after those."""
    nodes = {node.name: node for node in case.module.graph.nodes}
    known = {row.name for row in case.sources["float"].tensors}
    outputs = {row.name for row in case.sources["fakequant"].tensors[-1:]}
    front, reached, levels = [nodes[str(case.place)]], set[str](), 0
    while front and levels < 2:
        following: list[Any] = []
        found: list[Any] = []
        for node in front:
            for user in node.users:
                (found if user.name in known or user.op == "output" else following).append(user)
        reached |= {node.name for node in found} | (
            outputs if any(n.op == "output" for n in found) else set()
        )
        if following:
            front = following
        else:
            front, levels = found, levels + 1
    return tensor in reached or tensor == case.place


def one_chain(network: Network, case: Planted) -> dict[str, Any]:
    """Run a chain; return what it names as a row."""
    start = time.monotonic()
    result = chain(case.sources, network.inputs, engine="numpy")
    first = result.first
    row = {
        "network": network.name,
        "kind": case.kind,
        "link": case.link,
        "place": case.place,
        "sources": list(case.sources),
        "named": first.after if first else "",
        "tensor": first.tensor if first else "",
        "operators": list(first.operators)[:12] if first else [],
        "reason": first.reason if first else "",
        "seconds": round(time.monotonic() - start, 2),
    }
    row["near"] = first is not None and row["named"] == case.link and near(case, result)
    if case.graph is not None and isinstance(case.place, int):
        row["operator"] = case.graph.main.operators[case.place].spec.name
    return row


def draw(known: Sequence[Network], faults: int, honest: int, seed: int) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of chains with a fault and without one, in random order."""
    choose, left = random.Random(seed), [faults, honest]
    while any(left):
        network, kind = choose.choice(known), choose.choice(KINDS)
        is_honest = choose.random() * sum(left) >= left[0]
        link = "" if is_honest else choose.choice(("fakequant", "tosa", "rewritten", "device"))
        try:
            case = planted(network, kind, link, choose)
        except TosaConvertError as error:
            print("not made:", network.name, kind, link, str(error)[:150], file=sys.stderr)
            continue
        if case is not None:
            left[link == ""] -= 1
            yield one_chain(network, case)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--honest", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="networks, separated by commas")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    known = list(networks([name for name in given.only.split(",") if name]))
    print("networks:", *(one.name + " (q)" * (one.quantised is not None) for one in known))
    rows = []
    for row in draw(known, given.faults, given.honest, given.seed):
        rows.append(row)
        print(json.dumps(row), flush=True)
    faults, honest = ([row for row in rows if bool(row["link"]) is own] for own in (True, False))
    print(f"links named: {sum(row['named'] == row['link'] for row in faults)} of {len(faults)}")
    print(f"operators or neighbours: {sum(row['near'] for row in faults)} of {len(faults)}")
    print(f"accused without a fault: {sum(bool(row['named']) for row in honest)} of {len(honest)}")


if __name__ == "__main__":
    main()
