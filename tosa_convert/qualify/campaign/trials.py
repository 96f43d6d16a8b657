"""The programs of a campaign: each follows from the campaign's seed and its number."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.npz import SCALE_SUFFIX
from tosa_convert.golden.edges.edge_inputs import find_edge_inputs
from tosa_convert.golden.running.programs import as_graph, input_arrays
from tosa_convert.graph.derived import extract_from
from tosa_convert.graph.model import Graph
from tosa_convert.graph.opset import CONST, CONST_SHAPE
from tosa_convert.qualify.campaign.detours import exchanged, with_detour, with_fixed_inputs
from tosa_convert.qualify.campaign.restructure import RESTRUCTURES
from tosa_convert.qualify.random_graphs.generate import RULES, generate
from tosa_convert.records import dataclass
from tosa_convert.rules.public import find_violations

#: Operators of a generated program: small ones say most for their time.
_SIZES: Final = (1, 1, 1, 2, 2, 3, 5, 8, 13, 21)
#: How many kinds of operators a program of few kinds has: they take what one another computed.
_FEW: Final = (1, 2, 3, 4)
#: Edits of a program, at most.
_EDITS: Final = 3
#: How often the structure of a program is changed as well.
_RESTRUCTURED: Final = 0.3
#: Operators of a part of a model, at most.
_PART: Final = 12


@dataclass(frozen=True, slots=True)
class Source:
    """Where the programs of a campaign come from.

    seed: of the campaign. size: the most operators of a generated program.
    kinds, profile, types, level, scaled: as for `generate`.
    like: models whose parts are programs, too.
    """

    seed: int = 0
    size: int = 21
    kinds: tuple[str, ...] | None = None
    profile: str | None = None
    types: tuple[str, ...] | None = None
    level: str = "8k"
    scaled: bool = False
    like: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trial:
    """A program with its inputs, and how it was made.

    plain: the program without the edits that keep its meaning; the same one if there are none.
    """

    graph: Graph
    inputs: dict[str, Array]
    made: str
    plain: Graph
    plain_inputs: dict[str, Array]


def make_trial(source: Source, number: int) -> Trial:
    """Return the program with this number.

    Raises TosaConvertError if TOSA does not define what it computes of random inputs.
    """
    choose = random.Random(f"campaign {source.seed} {number}")
    if source.like and choose.random() < 0.5:
        path = choose.choice(source.like)
        graph, made = part_of_model(_model(path), choose), f"a part of {path}"
    else:
        size = min(choose.choice(_SIZES), source.size)
        seed = choose.randrange(1 << 31)
        graph, made = _generated(source, seed, size, choose)
    seed = choose.randrange(1 << 31)
    if choose.random() < 0.5:
        inputs, made = find_edge_inputs(graph, seed, {}).arrays, f"{made}, edge inputs"
    else:
        inputs = input_arrays(graph, None, random=seed)
    plain, plain_inputs = graph, inputs
    for _ in range(choose.randrange(_EDITS + 1)):
        changed = _edited(graph, inputs, choose)
        if changed is not None and _is_within(changed[0], source):
            graph, made = changed[0], f"{made}, {changed[1]}"
            kept = graph.main.inputs
            inputs = {key: inputs[key] for key in inputs if key.removesuffix(SCALE_SUFFIX) in kept}
    # The choices above stay as they are without this one.
    choose = random.Random(f"structure {source.seed} {number}")
    if choose.random() < _RESTRUCTURED:
        edited = choose.choice(RESTRUCTURES)(graph, choose)
        if edited is not None and _is_within(edited[0], source):
            graph, made = edited[0], f"{made}, {edited[1]}"
            inputs = input_arrays(graph, {**inputs, **edited[2]})
    return Trial(graph, inputs, made, plain, plain_inputs)


def _generated(source: Source, seed: int, size: int, choose: random.Random) -> tuple[Graph, str]:
    """Return a random program, half of them of few kinds of operators, and how it was made."""

    def made(size: int, kinds: Sequence[str] | None) -> Graph:
        return generate(
            seed,
            size,
            kinds=kinds,
            profile=source.profile,
            types=source.types,
            level=source.level,
            scaled=source.scaled,
        )

    if choose.random() < 0.5:
        known = sorted(RULES) if source.kinds is None else source.kinds
        few = choose.sample(known, min(choose.choice(_FEW), len(known)))
        larger = min(2 * size + 4, source.size)
        try:
            command = f"generate --seed {seed} --size {larger} --only {','.join(few)}"
            return made(larger, few), command
        except TosaConvertError:
            pass  # the target has none of them, or they find no operands
    return made(size, source.kinds), f"generate --seed {seed} --size {size}"


def _is_within(graph: Graph, source: Source) -> bool:
    """Return whether an edited program is valid, and has no operators that were not asked for."""
    used = {op.spec.name for op in graph.main.operators} - {CONST.name, CONST_SHAPE.name}
    if source.kinds is not None and not used <= set(source.kinds):
        return False
    return not find_violations(graph, profile=source.profile, level=source.level)


def _edited(
    graph: Graph, inputs: Mapping[str, Array], choose: random.Random
) -> tuple[Graph, str] | None:
    """Return the program with one edit that keeps its meaning, and what it is."""
    kind = choose.random()
    if kind < 0.15:
        return exchanged(graph, choose)
    if kind < 0.35:
        return with_fixed_inputs(graph, inputs, choose)
    return with_detour(graph, choose)


@lru_cache(maxsize=8)
def _model(path: str) -> Graph:
    return as_graph(path)


def program_like(path: str, seed: int, most: int) -> Graph:
    """Return a random part of a model, with edits that keep its meaning: `most` operators before them.

    Raises TosaConvertError if the model cannot be read, or has no operator.
    """
    choose = random.Random(f"like {seed}")
    graph = part_of_model(_model(path), choose, most)
    for _ in range(choose.randrange(_EDITS + 1)):
        changed = choose.choice((with_detour, exchanged))(graph, choose)
        if changed is not None and not find_violations(changed[0]):
            graph = changed[0]
    return graph


def part_of_model(graph: Graph, choose: random.Random, most: int = _PART) -> Graph:
    """Return a random part of a model: the last results of neighbouring operators, from what they use.

    Raises TosaConvertError if the model has no operator.
    """
    operators = graph.main.operators
    places = [i for i, op in enumerate(operators) if op.spec not in (CONST, CONST_SHAPE)]
    last = choose.choice(places) if places else 0
    first = max(0, last - choose.randrange(most))
    inside = {name for op in operators[first : last + 1] for name in op.outputs}
    cuts = [
        name
        for op in operators[first : last + 1]
        for name in op.inputs
        if name not in inside
        and name in graph.main.tensors
        and not graph.main.tensors[name].variable
        and graph.main.tensors[name].data is None
    ]
    outputs = list(operators[last].outputs) if places else []
    try:
        return extract_from(graph, outputs, dict.fromkeys(cuts))
    except TosaConvertError:
        return graph
