"""Other names for a program's arguments and results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from tosa_convert.errors import Findings
from tosa_convert.graph.model import (
    Block,
    Graph,
    Operator,
    ShapeValue,
    Tensor,
    in_usual_order,
    quoted,
    require_graphs,
)
from tosa_convert.graph.names import unused_name
from tosa_convert.records import replace

Value = TypeVar("Value", Tensor, ShapeValue)


def rename(
    graph: Graph,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> Graph:
    """Return the graph with new names for all its arguments, all its results, or both.

    Args:
        graph: the program, which is not changed. Everything but the names is shared with the result.
        input_names: a name for each argument of the main block, in order; None keeps them.
        output_names: a name for each result of the main block, in order; None keeps them.

    Returns:
        The renamed program.

    Raises:
        TosaConvertError: "option-conflict" if there are too many or too few names, if two values would
            get one name, or if one value would get two.

    Example:
        >>> from tosa_convert.graph import Block, Graph, Region, Tensor, Version, dtype
        >>> block = Block("main", ["x"], ["x"], tensors={"x": Tensor("x", dtype("FP32"), (2,))})
        >>> graph = Graph(Version(1, 0), [Region("main", [block])])
        >>> rename(graph, input_names=["image"]).main.outputs
        ['image']
    """
    require_graphs(graph)
    main = graph.main
    renamed: dict[str, str] = {}
    findings = Findings()
    for option, what, new, old in (
        ("input_names", "arguments", input_names, main.inputs),
        ("output_names", "results", output_names, main.outputs),
    ):
        if new is not None:
            for problem in _pair(what, new, old, renamed):
                findings.add("option-conflict", option, *problem)
    findings.raise_if_any()
    for clash in _clashes(main, renamed):
        findings.add("option-conflict", "names", clash, "choose another name")
    findings.raise_if_any()
    if not renamed:
        return graph
    return _with_main(graph, _renamed_block(main, renamed))


def rename_in_order(graph: Graph, input_names: Sequence[str], output_names: Sequence[str]) -> Graph:
    """`rename` for names that need not fit: those of frameworks.

    A value that would get two names keeps the first, two values of one name are told apart by a number,
    and a value between inputs and outputs that has one of the names gets another one.

    Example:
        >>> import tosa_convert as tc
        >>> graph = tc.load("digits_cnn.tosa")
        >>> rename_in_order(graph, ["x"], ["x"]).main.outputs
        ['x_1']
    """
    main = graph.main
    renamed: dict[str, str] = {}
    taken: set[str] = set()
    wanted = zip((*main.inputs, *main.outputs), (*input_names, *output_names), strict=True)
    for before, after in wanted:
        if before not in renamed:
            renamed[before] = unused_name(after or before, taken)
            taken.add(renamed[before])
    taken.update((*main.tensors, *main.shapes))
    for inner in [name for name in (*main.tensors, *main.shapes) if name not in renamed]:
        if inner in renamed.values():
            renamed[inner] = unused_name(inner, taken)
            taken.add(renamed[inner])
    return _with_main(graph, _renamed_block(main, renamed))


def _with_main(graph: Graph, main: Block) -> Graph:
    first, *others = graph.regions
    return replace(graph, regions=[replace(first, blocks=[main, *first.blocks[1:]]), *others])


def _pair(
    what: str, new: Sequence[str], old: Sequence[str], renamed: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """Add old name -> new name for each value; iterate over what is wrong, and what to do."""
    if isinstance(new, str):
        yield f"found the text {new!r}, expected a list of names", ""
    elif len(new) != len(old):
        message = f"found {len(new)} names for {len(old)} {what}: {', '.join(map(quoted, old))}"
        yield message, "give a name for each"
    else:
        for before, after in zip(old, new, strict=True):
            if not isinstance(after, str) or not after:
                yield f"found {after!r}, expected a name", ""
            elif renamed.setdefault(before, after) != after:
                found = f"{renamed[before]!r} and {after!r}"
                hint = "one value is returned twice, or an argument is returned; give it one name"
                yield f"{quoted(before)} would get two names: {found}", hint


def _clashes(main: Block, renamed: dict[str, str]) -> Iterator[str]:
    taken = {name: name for name in (*main.tensors, *main.shapes) if name not in renamed}
    for before, after in renamed.items():
        if after in taken:
            yield f"{quoted(taken[after])} and {quoted(before)} would both be called {after!r}"
        taken[after] = before


def _renamed_block(block: Block, renamed: dict[str, str]) -> Block:
    def new(names: Sequence[str]) -> list[str]:
        return [renamed.get(name, name) for name in names]

    def with_names(op: Operator) -> Operator:
        if renamed.keys().isdisjoint((*op.inputs, *op.outputs)):
            return op
        return replace(op, inputs=tuple(new(op.inputs)), outputs=tuple(new(op.outputs)))

    return replace(
        block,
        inputs=new(block.inputs),
        outputs=new(block.outputs),
        operators=list(map(with_names, block.operators)),
        tensors=in_usual_order(_renamed_values(block.tensors, renamed)),
        shapes=dict(sorted(_renamed_values(block.shapes, renamed).items())),
    )


def _renamed_values(values: Mapping[str, Value], renamed: Mapping[str, str]) -> dict[str, Value]:
    rows = [
        replace(row, name=renamed[row.name]) if row.name in renamed else row
        for row in values.values()
    ]
    return {row.name: row for row in rows}
