"""Count which type rows of the rules generated programs reach, and how fast programs are made.

    python tests/measure/generator_rows.py --programs 3000 [--branches]

A row has element types that an operator takes together. Programs of one operator or of all are made in
turn, and validated. `--branches` needs coverage.py: it also says how much of the operators' rules ran,
without what only a program that is not valid reaches (`refusing_lines.py`).
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure.refusing_lines import refusing_lines

import tosa_convert as tc
from tosa_convert.builder import Builder
from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.graph import Graph
from tosa_convert.graph.dtypes import V1_0
from tosa_convert.graph.model import DYNAMIC, Region
from tosa_convert.graph.opset import OPERATORS, AttributeValue, OperatorSpec, operator
from tosa_convert.qualify.campaign.edits import with_block, with_computed_shape, with_free_constants
from tosa_convert.qualify.random_graphs.generate import NOT_GENERATED, RULES, generate
from tosa_convert.records import replace
from tosa_convert.rules.infer import infer
from tosa_convert.rules.public import find_violations, needs
from tosa_convert.rules.types import TypeRow, element_text, match, rows
from tosa_convert.rules.validate import element_of
from tosa_convert.rules.values import TypeTable

#: Operators of a program.
_SIZE: Final = 2
#: ... that has any operators.
_LARGE: Final = 20
_RULES: Final = Path(__file__).resolve().parents[2] / "tosa_convert" / "rules"


@dataclass(frozen=True, slots=True)
class Reachable:
    """A row of an operator."""

    spec: OperatorSpec
    row: TypeRow

    @property
    def is_plain(self) -> bool:
        """Return whether none of its tensors is block-scaled, with the scales inside of it."""
        return not any(isinstance(one, tuple) for one in (*self.row.operands, *self.row.results))

    @property
    def refused(self) -> bool:
        """Return whether a rule refuses what the table has: scale32 of RESCALE with INT48."""
        is_wide = self.row.attribute == ("scale32", "True")
        return self.spec.name == "RESCALE" and is_wide and str(self.row.operands[0]) == "INT48"

    def __str__(self) -> str:
        operands, results = (
            ", ".join(map(element_text, side)) for side in (self.row.operands, self.row.results)
        )
        attribute = " with {}={}".format(*self.row.attribute) if self.row.attribute else ""
        return f"{self.spec.name} {operands} to {results}{attribute}"


def all_rows() -> set[Reachable]:
    """Return the rows of the operators that are generated, without those that a rule refuses."""
    every = {
        Reachable(spec, row)
        for spec in OPERATORS
        if spec.name not in NOT_GENERATED
        for row in rows(spec)
    }
    return {row for row in every if not row.refused}


def reached(graph: Graph) -> Iterator[Reachable]:
    """Yield the rows that the operators of a program have."""
    for _, block in graph.blocks():
        types = TypeTable().of_block(block)
        for op in block.operators:
            inputs, outputs = (
                [element_of(types[name]) for name in names] for names in (op.inputs, op.outputs)
            )
            row = match(op.spec, inputs, outputs, op.attributes)
            if row is not None:
                yield Reachable(op.spec, row)


def is_sound(graph: Graph) -> bool:
    """Return whether all rules allow a program and its variants, and its sizes are inferred.

    The variants are programs that say less: sizes or ranks are unknown, constants are inputs, shapes are
    computed, sizes are -1, branches return nothing, an operator is of another domain, a loop has no
    state, and equal elements of constants are written once.
    """
    shapes = {name: graph.main.tensors[name].shape or () for name in graph.main.inputs}
    least = needs(graph)
    assert least is not None
    target = ",".join((*least.profiles, *least.extensions)) or None
    unsized, open_sizes = without_sizes(graph), without_sizes(with_open_sizes(graph))
    variants = [
        unsized,
        without_sizes(graph, keeps_ranks=False),
        without_sizes(graph, sized=graph.main.inputs[1::2]),
        without_sizes(graph, keeps_ranks=False, sized=graph.main.inputs[1::2]),
        open_sizes,
        without_sizes(with_open_slices(graph), sized=graph.main.inputs),
        without_results(graph),
        with_a_foreign_operator(graph),
        with_a_loop_without_state(graph),
        tc.load(tc.dumps(graph, "mlir")),
    ]
    for edit in (partial(with_free_constants, most=1000), with_computed_shape):
        if changed := edit(graph, random.Random(str(graph))):
            some = changed[0].main.inputs[1::2]
            variants += [changed[0], without_sizes(changed[0])]
            variants.append(without_sizes(changed[0], keeps_ranks=False, sized=some))
    return (
        not find_violations(graph, level="8k", profile=target)
        and not any(find_violations(variant) for variant in variants)
        and all(
            tensor.shape == inferred.main.tensors[name].shape
            for inferred in (infer(unsized, shapes), infer(open_sizes, shapes))
            for name, tensor in graph.main.tensors.items()
        )
    )


def with_open_sizes(graph: Graph) -> Graph:
    """Return a program whose RESHAPE operators have a last size of -1.

    Not those of constants and block-scaled tensors, whose sizes are known.
    """
    block = graph.main
    edit = BlockEditor(block)
    known = {op.outputs[0] for op in block.operators if not op.inputs}
    for op in edit.visit():
        if op.spec.name != "RESHAPE" or op.inputs[0] in known:
            continue
        if block.tensors[op.inputs[0]].scale is None:
            *sizes, _ = block.shapes[op.inputs[1]].values() or (0,)
            if sizes:
                edit.add(replace(op, inputs=(op.inputs[0], edit.const_shape((*sizes, -1)))))
                edit.remove(op)
    return with_block(graph, block, edit.finish())


def with_open_slices(graph: Graph) -> Graph:
    """Return a program in which slices have the size -1 where they end with what they are of."""
    block = graph.main
    edit = BlockEditor(block)
    for op in edit.visit():
        if op.spec.name == "SLICE" and block.tensors[op.inputs[0]].scale is None:
            shape = block.tensors[op.inputs[0]].shape or ()
            start, sizes = (block.shapes[name].values() for name in op.inputs[1:])
            if start and sizes:
                rows = zip(shape, start, sizes, strict=True)
                left = [-1 if first + size == whole else size for whole, first, size in rows]
                edit.add(replace(op, inputs=(*op.inputs[:2], edit.const_shape(left))))
                edit.remove(op)
    return with_block(graph, block, edit.finish())


def without_results(graph: Graph) -> Graph:
    """Return a program in which a COND_IF returns nothing, if no operator takes its result."""
    block = graph.main
    used = {name for op in block.operators for name in op.inputs}
    for op in block.operators:
        if op.spec.name == "COND_IF" and not used & {*op.outputs}:
            outputs = [name for name in block.outputs if name not in op.outputs]
            if not outputs:
                continue
            regions = {str(op.attributes[row.name]) for row in op.spec.regions}
            operators = [replace(one, outputs=()) if one is op else one for one in block.operators]
            kept = {name: row for name, row in block.tensors.items() if name not in op.outputs}
            main = replace(block, outputs=outputs, operators=operators, tensors=kept)
            made = [
                Region(region.name, [replace(own, outputs=[]) for own in region.blocks])
                if region.name in regions
                else Region(region.name, [main if own is block else own for own in region.blocks])
                for region in graph.regions
            ]
            return Graph(graph.version, made, graph.producer, graph.target)
    return graph


def with_a_foreign_operator(graph: Graph) -> Graph:
    """Return a program in which operators of other domains stand for IDENTITY."""
    block = graph.main
    edit = BlockEditor(block)
    for op in edit.visit():
        if op.spec.name == "IDENTITY":
            words: dict[str, AttributeValue] = {
                "operator_name": "same",
                "domain_name": "tests",
                "implementation_attrs": b"",
            }
            edit.add(replace(op, spec=operator("CUSTOM"), attributes=words))
            edit.remove(op)
    return with_block(graph, block, edit.finish())


def with_a_loop_without_state(graph: Graph) -> Graph:
    """Return a program with a loop that takes and returns nothing, if it has a loop."""
    if all(op.spec.name != "WHILE_LOOP" for op in graph.main.operators):
        return graph
    build = Builder("main")
    build.output(build.const([0], "INT32"))
    build.while_loop([], lambda inner: inner.const([False], "BOOL"), lambda inner: ())
    made, main = build.graph(), graph.main
    loop = made.main.operators[-1]
    regions = [replace(one, name=f"bare {one.name}") for one in made.regions[1:]]
    names: dict[str, AttributeValue] = {
        row.name: one.name for row, one in zip(loop.spec.regions, regions, strict=True)
    }
    bare = replace(main, operators=[*main.operators, replace(loop, attributes=names)])
    changed = with_block(graph, main, bare)
    return Graph(graph.version, [*changed.regions, *regions], graph.producer, graph.target)


def without_sizes(graph: Graph, *, keeps_ranks: bool = True, sized: Collection[str] = ()) -> Graph:
    """Return a program whose inputs have unknown sizes, or ranks, and results unknown ranks.

    The last size of a block-scaled tensor is known: it has whole blocks. sized: inputs that keep theirs.
    """
    block, constants = graph.main, {op.outputs[0] for op in graph.main.operators if not op.inputs}
    tensors = dict(block.tensors)
    for name, tensor in tensors.items():
        if tensor.scale is not None or name in sized:
            continue
        if name in block.inputs and tensor.shape is not None:
            sizes = (DYNAMIC,) * len(tensor.shape)
            tensors[name] = replace(tensor, shape=sizes if keeps_ranks else None)
        elif name not in constants and not tensor.variable:
            tensors[name] = replace(tensor, shape=None)
    main = replace(block, tensors=tensors)
    regions = [
        Region(region.name, [main if own is block else own for own in region.blocks])
        for region in graph.regions
    ]
    return Graph(graph.version, regions, graph.producer, graph.target)


def measure(programs: int) -> tuple[set[Reachable], float]:
    """Return the rows that programs reach, and how many are made in a second of processor time.

    Raises TosaConvertError if a program cannot be made, and AssertionError if one is not valid.
    """
    seen: set[Reachable] = set()
    kinds = [None, *([name] for name in sorted(RULES))]
    seconds = 0.0
    for number in range(programs):
        turn, place = divmod(number, len(kinds))
        size = _SIZE if kinds[place] else _LARGE
        begin = time.process_time()
        graph = generate(turn, size, kinds=kinds[place])
        seconds += time.process_time() - begin
        assert is_sound(graph), f"{kinds[place]} {turn}"
        seen.update(reached(graph))
    return seen & all_rows(), programs / seconds


def reach_others(seen: set[Reachable], programs: int) -> None:
    """Add the rows that programs of one operator reach, until all are, or so many are made of each.

    Half of them have tensors that hold their scales, if the operator takes them.
    """
    for kind in sorted(RULES):
        missing = {row for row in all_rows() if row.spec.name == kind} - seen
        for turn in range(programs):
            if not missing:
                break
            graph = generate(turn, _LARGE, kinds=[kind], scaled=turn % 2 == 0)
            assert is_sound(graph), f"{kind} {turn}"
            missing.difference_update(reached(graph))
            seen.update(reached(graph))


def print_branches(programs: int) -> None:
    """Print how much of the rules programs reach. A new process measures the imports, too."""
    with tempfile.TemporaryDirectory() as folder:
        settings, report = Path(folder, "coveragerc"), Path(folder, "report.json")
        settings.write_text(
            f"[run]\nbranch = true\ndata_file = {folder}/data\ninclude = {_RULES}/families/*\n",
            encoding="utf-8",
        )
        coverage = [sys.executable, "-m", "coverage"]
        words = [__file__, "--programs", str(programs)]
        quiet = subprocess.DEVNULL
        subprocess.run([*coverage, "run", f"--rcfile={settings}", *words], check=True, stdout=quiet)
        words = [f"--rcfile={settings}", "-o", str(report)]
        subprocess.run([*coverage, "json", *words], check=True, stdout=quiet)
        files = json.loads(report.read_text(encoding="utf-8"))["files"]
    refusing, counts = refusing_lines(_RULES), Counter[str]()
    for name, found in sorted(files.items()):
        excluded = refusing[Path(name).resolve()]
        missing = [line for line in found["missing_lines"] if line not in excluded]
        arcs = {
            kind: [arc for arc in found[f"{kind}_branches"] if not excluded & set(arc)]
            for kind in ("executed", "missing")
        }
        counts["lines"] += sum(line not in excluded for line in found["executed_lines"])
        counts["missing lines"] += len(missing)
        counts["branches"] += len(arcs["executed"])
        counts["missing branches"] += len(arcs["missing"])
        left = [f"{one} to {other}" for one, other in arcs["missing"] if one not in missing]
        if missing or left:
            places = ", ".join([*map(str, missing), *left])
            print(f"{Path(name).name}: not reached: {places}")
    for what in ("lines", "branches"):
        every = counts[what] + counts[f"missing {what}"]
        share = 100 * counts[what] / every
        print(f"{what} of the rules: {counts[what]} of {every} ({share:.1f} %)")


def main() -> None:
    """Measure, and print what was not reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=3000)
    parser.add_argument("--branches", action="store_true")
    options = parser.parse_args()
    if options.branches:
        print_branches(options.programs)
    seen, speed = measure(options.programs)
    reach_others(seen, options.programs)
    parts = defaultdict[str, set[Reachable]](set)
    for row in all_rows():
        name = "TOSA 1.0" if row.row.since <= V1_0 else "further ones of 1.1"
        parts[name if row.is_plain else "with block-scaled tensors"].add(row)
    for name, every in sorted(parts.items()):
        if row_names := sorted(str(row) for row in every - seen):
            print(*row_names[:20], *["..."] * (len(row_names) > 20), sep="\n")
        share = 100 * len(every & seen) / len(every)
        print(f"{name}: {len(every & seen)} of {len(every)} rows ({share:.1f} %)")
    print(f"{speed:.0f} programs a second")


if __name__ == "__main__":
    main()
