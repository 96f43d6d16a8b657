"""Derive the shapes of official programs anew, and compare them with the declared ones and with MLIR's.

    python tests/oracle/official_suite.py DIR            # makes the suite
    python tests/oracle/compare_inference.py DIR         # compares all of it; --every 50 for a sample
    python tests/oracle/compare_inference.py DIR --state FILE    # the same command resumes it

The sizes of all values but arguments, constants and variables are removed. `spec.infer` derives them
from the arguments, and so does MLIR's pass tosa-infer-shapes on torch-mlir's module. Prints a table by
operator. Exit code 1 if a shape of ours differs from the declared one or from MLIR's, or if
nothing was compared.
"""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

# Tests import one another by their folders' names; as a script, only its own folder is on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oracle import comparison_main

import tosa_convert as tc
from tosa_convert.formats.bindings.modules import read, write
from tosa_convert.formats.bindings.packages import Bindings, default_bindings
from tosa_convert.graph import Block, Graph, Tensor
from tosa_convert.graph.model import DYNAMIC
from tosa_convert.rules.infer import infer

#: Operators whose results have any shape, which only the declaration says.
UNDERIVED: Final = frozenset({"CUSTOM"})
_PASS: Final = "builtin.module(func.func(tosa-infer-shapes))"


class Comparison(NamedTuple):
    """One result of an operator. ours, mlir: the shapes inferred; mlir: None if MLIR fails."""

    program: str
    operator: str
    declared: tuple[int, ...] | None
    ours: tuple[int, ...] | None
    mlir: tuple[int, ...] | None

    @property
    def is_equal(self) -> bool:
        """Return whether ours is the declared shape."""
        return self.ours == self.declared

    @property
    def mlir_infers(self) -> bool:
        """Return whether MLIR infers all sizes."""
        return self.mlir is not None and DYNAMIC not in self.mlir

    @property
    def agrees(self) -> bool:
        """Return whether MLIR infers nothing else than we do."""
        return self.mlir is None or self.ours is None or (
            len(self.mlir) == len(self.ours)
            and all(size in (DYNAMIC, own) for size, own in zip(self.mlir, self.ours, strict=True))
        )  # fmt: skip


def without_shapes(graph: Graph) -> Graph:
    """Return the program without the shapes that follow from its arguments.

    The rank is kept: MLIR needs it.
    """
    regions = [
        replace(
            region,
            blocks=[
                _erased(block, keep_inputs=region is graph.regions[0]) for block in region.blocks
            ],
        )
        for region in graph.regions
    ]
    return replace(graph, regions=regions)


def _erased(block: Block, *, keep_inputs: bool) -> Block:
    kept = set(block.inputs) if keep_inputs else set()
    kept |= {
        name
        for operator in block.operators
        if operator.spec.name in UNDERIVED
        for name in operator.outputs
    }

    def erased(tensor: Tensor) -> Tensor:
        if tensor.name in kept or tensor.data is not None or tensor.variable:
            return tensor
        return replace(tensor, shape=(DYNAMIC,) * len(tensor.shape or ()))

    return replace(block, tensors={name: erased(value) for name, value in block.tensors.items()})


def inferred_by_mlir(graph: Graph, bindings: Bindings) -> Graph | None:
    """Return the program after MLIR's pass; None if MLIR refuses the module without shapes."""
    context = bindings.new_context()
    try:
        module = write(graph, bindings, context)
        with context, bindings.ir.Location.unknown():
            passes = importlib.import_module(f"{bindings.package}.passmanager")
            passes.PassManager.parse(_PASS).run(module.operation)
            for function in module.body.operations:
                if function.operation.name == "func.func":
                    _return_inferred_types(bindings.ir, function)
        return read(module)
    except (tc.TosaConvertError, bindings.ir.MLIRError):
        return None


def _return_inferred_types(ir: Any, function: Any) -> None:
    """Remove the casts by which the pass returns the types that were declared."""
    block = function.regions[0].blocks[0]
    returned = block.operations[len(block.operations) - 1].operation
    for index, value in enumerate(list(returned.operands)):
        owner = value.owner
        owner = getattr(owner, "operation", owner)
        if isinstance(owner, ir.Operation) and owner.name == "tensor.cast":
            returned.operands[index] = owner.operands[0]
            if not list(value.uses):
                owner.erase()
    types = [[value.type for value in values] for values in (block.arguments, returned.operands)]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))


def compare_file(file: Path, bindings: Bindings | None) -> Iterator[Comparison]:
    """Iterate over the results of the main block's operators."""
    graph = tc.load(file)
    if not graph.main.operators:
        return
    bare = without_shapes(graph)
    try:
        ours = infer(bare, {}).main.tensors
    except tc.TosaConvertError as error:
        yield Comparison(f"{file}: {error}", "refused", (), None, None)
        return
    other = inferred_by_mlir(bare, bindings) if bindings is not None else None
    names = other.main.tensors if other is not None else {}
    for operator in graph.main.operators:
        if operator.spec.name in UNDERIVED or not operator.inputs:
            continue
        for name in operator.outputs:
            if name in ours:
                declared, shape = graph.main.tensors[name].shape, ours[name].shape
                mlir = names[name].shape if name in names else None
                yield Comparison(str(file), operator.spec.name, declared, shape, mlir)


def compare_files(files: Sequence[Path]) -> list[Comparison]:
    """Return the comparisons of some programs, in this process."""
    bindings = default_bindings("torch_mlir")
    return [found for file in files for found in compare_file(file, bindings)]


class Tally:
    """Counts of many comparisons, by operator."""

    def __init__(self) -> None:
        self.results: Counter[str] = Counter()
        self.equal: Counter[str] = Counter()
        self.mlir_infers: Counter[str] = Counter()
        self.wrong: list[Comparison] = []

    def add(self, found: Comparison) -> None:
        """Count one."""
        self.results[found.operator] += 1
        self.equal[found.operator] += found.is_equal
        self.mlir_infers[found.operator] += found.mlir_infers
        if not (found.is_equal and found.agrees):
            self.wrong.append(found)

    @property
    def passed(self) -> bool:
        """Return whether there were results, some of MLIR too, and all are right."""
        return self.results.total() > 0 and self.mlir_infers.total() > 0 and not self.wrong

    def lines(self) -> Iterator[str]:
        """Iterate over the table, to be read."""
        yield "operator                 | results | derived as declared | MLIR infers all sizes, too"
        for name in sorted(self.results):
            yield (
                f"{name:24} | {self.results[name]:7} | {self.equal[name]:19} | "
                f"{self.mlir_infers[name]:7}"
            )
        yield (
            f"{'all':24} | {self.results.total():7} | {self.equal.total():19} | "
            f"{self.mlir_infers.total():7}"
        )
        for found in self.wrong:
            yield (
                f"{found.program}: {found.operator}: declared {found.declared}, ours {found.ours}, "
                f"MLIR's {found.mlir}"
            )


def main(arguments: list[str] | None = None) -> int:
    """Compare a suite and print the table."""
    parser = comparison_main.parser("Compare inferred shapes with declared ones.")
    return comparison_main.run(parser.parse_args(arguments), compare_files, Tally())


if __name__ == "__main__":
    sys.exit(main())
