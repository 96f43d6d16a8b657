"""Compare what our definitions in numpy compute with what the reference model computes.

    python tests/oracle/official_suite.py DIR        # makes the suite
    python tests/oracle/compare_reference.py DIR [--programs N] [--edges N] [--state FILE]

There are two kinds of cases:

- random programs of `golden.generate`, seeds 0 to N - 1, of 1 to 16 operators, with random inputs; for
  one with an operator that the reference model lacks, that of a further seed;
- each small program of the official suite, at most N of them, with inputs at the edges of their types,
  in three variants (`edge_inputs.py`). So all operators are compared in all types that they take.

Many cases are merged into one program, so that a process of the model computes all of them. Each
operator is judged by itself, with the operands that the model computed: integers, BOOL and what is
exact bit for bit, other floating point by TOSA's accuracy rule for the operator, against the model's
results in FP64 and its bounds. Our results in FP64 and our bounds are compared with the model's, too,
and whole programs where they are exact. What one of the two refuses, the other has to refuse.

Prints each kind of difference with its count, and why it is there (`reference_differences.py`). Exit
code 1 if a kind has no explanation. `--publish` notes the counts in tests/oracle/reference.json, from
which docs/computation.md has its tables. `--state FILE` continues a run that was stopped.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pickle
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

# Tests import one another by their folders' names; as a script, only its own folder is on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from golden.model_programs import generate_for_model
from oracle import official_suite
from oracle.comparison_main import BATCH, HERE, PACKAGE, digest_of
from oracle.edge_inputs import VARIANTS, edge_inputs
from oracle.merged_programs import RESULT, computed, detach, merge, merged_arrays
from oracle.reference_differences import explanation

import tosa_convert as tc
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.accuracy.error_bounds import EXACT, Rule, rules
from tosa_convert.golden.arrays import SCALE_SUFFIX, Array
from tosa_convert.golden.running.programs import Program, input_arrays, input_slots
from tosa_convert.golden.running.run_graph import Result, run_program
from tosa_convert.golden.running.run_options import RunOptions
from tosa_convert.graph.derived import extract, with_main
from tosa_convert.graph.model import Graph, Operator
from tosa_convert.rules.costs import multiply_accumulates

#: What the last run that was published found.
RESULTS: Final = Path(__file__).with_name("reference.json")
EXPLANATIONS: Final = "reference_differences.py"
PARTS: Final = ("random programs", "edge values")
#: The most operators of a random program, elements of a tensor of an official one, and its products.
_MOST_OPERATORS, _MOST_ELEMENTS, _MOST_PRODUCTS = 16, 1 << 13, 1 << 22
#: Official programs that edge values do not suit: a loop may run 2^31 times.
_NO_EDGES: Final = ("while_loop",)
#: Difference of FP64 results, as a part of the result or of its bound; the order of sums differs.
_FP64_ERROR: Final = 1e-11
#: Difference of results for which TOSA has no rule: of several inexact operators.
_UNRULED: Final = {"FP32": 1e-4, "FP16": 1e-2, "BF16": 3e-2}
MODEL: Final = RunOptions(engine="reference-model", timeout=120)
NUMPY: Final = RunOptions(engine="numpy", timeout=120)

#: A case: its part, and a seed or the path of a program; the variant of its inputs.
Case = tuple[str, str, str]


class Found(NamedTuple):
    """What was found of a batch: counts by outcome, differences with the case, elements compared."""

    part: str
    counts: Counter[str]
    differences: list[tuple[str, str]]


class Loaded(NamedTuple):
    """A case that can be run."""

    case: Case
    graph: Graph
    inputs: dict[str, Array]


def load(case: Case) -> Loaded | None:
    """Make the program and the inputs of a case; None if the program is too large."""
    part, name, variant = case
    if part == PARTS[0]:
        seed = int(name)
        count = random.Random(f"operators {seed}").randint(1, _MOST_OPERATORS)
        graph = generate_for_model(seed, count)
        return Loaded(case, graph, input_arrays(graph, None, seed))
    graph = tc.load(name)
    main = graph.main
    sizes = [tensor.element_count() for tensor in main.tensors.values()]
    if any(size is None or size > _MOST_ELEMENTS for size in sizes):
        return None
    for op in main.operators:
        amount = multiply_accumulates(op, main)
        if amount is not None and amount.value > _MOST_PRODUCTS:
            return None
    return Loaded(case, graph, edge_inputs(graph, variant, 1))


def compare_cases(cases: Sequence[Case]) -> Found:
    """Compare the cases of a batch, all of one part."""
    all_loaded = [loaded for case in cases if (loaded := load(case)) is not None]
    found = Found(cases[0][0], Counter(), [])
    if found.part == PARTS[0]:
        try:  # Valid programs with inputs that fit: numpy computes them together.
            _compare_accepted(all_loaded, found)
        except TosaConvertError:
            found = Found(cases[0][0], Counter(), [])
        else:
            found.counts["cases"] += len(all_loaded)
            return found
    accepted: list[Loaded] = []
    for loaded in all_loaded:
        found.counts["cases"] += 1
        try:
            run_program(Program(loaded.graph), loaded.inputs, NUMPY)
        except TosaConvertError as error:
            _compare_refused(loaded, error, found)
        else:
            accepted.append(loaded)
    _compare_accepted(accepted, found)
    return found


def _compare_refused(loaded: Loaded, ours: TosaConvertError, found: Found) -> None:
    """Compare a case that numpy refuses."""
    try:
        run_program(Program(loaded.graph), loaded.inputs, MODEL)
    except TosaConvertError as error:
        found.counts["both refuse"] += 1
        if error.code == "refmodel-failed":
            _differ(found, loaded, f"{_types(loaded)}: the model ends: {plain(error)}")
    else:
        found.counts["one refuses"] += 1
        _differ(found, loaded, f"{_types(loaded)}: only numpy refuses: {plain(ours)}")


def _compare_accepted(cases: Sequence[Loaded], found: Found) -> None:
    """Compare cases that numpy computes; if the model refuses them together, it gets fewer."""
    if not cases:
        return
    graph = merge([loaded.graph for loaded in cases])
    inputs = merged_arrays([loaded.inputs for loaded in cases])
    outputs = list(dict.fromkeys([*computed(graph), *graph.main.outputs]))
    wanted = with_main(graph, replace(graph.main, outputs=outputs))
    try:
        model = run_program(Program(wanted), inputs, MODEL)
    except TosaConvertError as error:
        if len(cases) > 1:
            middle = len(cases) // 2
            _compare_accepted(cases[:middle], found)
            _compare_accepted(cases[middle:], found)
            return
        found.counts["one refuses"] += 1
        _differ(found, cases[0], f"{_types(cases[0])}: only the model refuses: {plain(error)}")
        return
    comparison = _Comparison(cases, found, wanted, inputs, model)
    comparison.whole()
    comparison.operators()


class _Comparison:
    """Compares the results of a merged program."""

    def __init__(
        self,
        cases: Sequence[Loaded],
        found: Found,
        graph: Graph,
        inputs: Mapping[str, Array],
        model: Result,
    ) -> None:
        self.cases, self.found, self.graph, self.inputs = cases, found, graph, inputs
        self.model = model
        self.producers = computed(graph)

    def whole(self) -> None:
        """Compare whole programs where everything before a result is exact, and states of variables."""
        ours = run_program(Program(self.graph), self.inputs, NUMPY)
        exact = rules(self.graph)
        for key, right in self.model.outputs.items():
            name = key if key in self.producers else key.removesuffix(SCALE_SUFFIX)
            if exact.get(name) == EXACT and name in self.producers:
                self._exact(key, name, ours.outputs[key], right, "in its program")
        variables = {t.variable_name: name for name, t in self.graph.main.tensors.items()}
        for key, right in self.model.variables.items():
            left = ours.variables[key]
            if exact.get(variables[key]) == EXACT and not np.array_equal(left, right):
                self._differ(key, f"the state of a variable of {right.dtype} differs")

    def operators(self) -> None:
        """Compare each operator with the operands that the model computed."""
        graph = detach(self.graph)
        given = {**self.inputs}
        for name in graph.main.inputs:
            for key in (name, name + SCALE_SUFFIX):
                if key in self.model.outputs:
                    given[key] = self.model.outputs[key]
        ours = run_program(Program(graph), given, NUMPY)
        inexact: dict[str, Rule | None] = {}
        rule_of = rules(graph)
        for key, left in ours.outputs.items():
            result = key.removesuffix(SCALE_SUFFIX)
            name = result.removesuffix(RESULT)
            right = self.model.outputs[key.replace(RESULT, "")]
            rule = rule_of.get(result)
            self.found.counts["results"] += 1
            self.found.counts["elements"] += left.size
            if key == result and (rule is None or rule.kind not in ("exact", "steps")):
                inexact[result] = rule
                continue
            self._exact(key, name, left, right, "", EXACT if rule is None else rule)
        for name in computed(graph):
            if name in graph.main.shapes:
                self.found.counts["results"] += 1
        self._inexact(graph, given, inexact, ours.outputs)

    def _exact(
        self, key: str, name: str, left: Array, right: Array, where: str, rule: Rule = EXACT
    ) -> None:
        """Compare results bit for bit; NaN of any bits are equal. rule: how far integers may differ."""
        what = f"{self._operator(name)}{where and ' ' + where}"
        if (left.dtype, left.shape) != (right.dtype, right.shape):
            self._differ(key, f"{what}: {left.dtype}{left.shape} and {right.dtype}{right.shape}")
            return
        a, b = _numbers(left), _numbers(right)
        same = (a == b) | ((a != a) & (b != b))
        if rule != EXACT and not same.all():
            wide = b.astype(np.int64)
            same = np.abs(a.astype(np.int64) - wide) <= rule.amount + rule.base * np.abs(wide)
        if not same.all():
            index = tuple(np.argwhere(~same)[0])
            kind = "other results" if rule == EXACT else "other results of INEXACT_ROUND"
            self._differ(key, f"{what}: {kind}", f"{left[index]} and {right[index]}")
            return
        if a.dtype.kind == "f" and (np.signbit(a) != np.signbit(b))[a == 0].any():
            self._differ(key, f"{what}: a zero of the other sign")
        self.found.counts["equal"] += not where

    def _inexact(
        self,
        graph: Graph,
        given: Mapping[str, Array],
        inexact: Mapping[str, Rule | None],
        ours: Mapping[str, Array],
    ) -> None:
        """Compare results that have a rule, or none, with those of the model in FP64."""
        for part, inputs, model in self._precise(graph, list(inexact), given):
            own = run_program(Program(part), inputs, replace(NUMPY, bounds=True))
            for name, exact in model.outputs.items():
                if name not in inexact:
                    continue
                bounds = model.bounds[name]
                rule = inexact[name]
                if rule is not None and rule.kind == "max-relative":
                    rule = replace(rule, largest=self._largest_operand(name, inputs))
                self._judge(name, rule, ours[name], exact, bounds)
                self._fp64(name, rule, (own.outputs[name], own.bounds[name]), (exact, bounds))

    def _precise(
        self, graph: Graph, names: list[str], given: Mapping[str, Array]
    ) -> Iterator[tuple[Graph, dict[str, Array], Result]]:
        """Run the operators of some results in FP64; if the model refuses them together, in parts."""
        if not names:
            return
        part = extract(graph, names)
        inputs = {slot.key: given[slot.key] for slot in input_slots(part)}
        try:
            yield part, inputs, run_program(Program(part), inputs, replace(MODEL, bounds=True))
        except TosaConvertError as error:
            if len(names) > 1:
                middle = len(names) // 2
                yield from self._precise(graph, names[:middle], given)
                yield from self._precise(graph, names[middle:], given)
                return
            what = self._operator(_source(names[0]))
            self._differ(names[0], f"{what}: the model refuses FP64: {plain(error)}")

    def _judge(
        self, name: str, rule: Rule | None, ours: Array, exact: Array, bounds: Array
    ) -> None:
        """Judge our result, and the model's own, in the type of the result."""
        what = self._operator(_source(name))
        model = self.model.outputs[_source(name)]
        dtype = self.graph.main.tensors[_source(name)].dtype
        if (ours.dtype, ours.shape) != (model.dtype, model.shape):
            self._differ(name, f"{what}: {ours.dtype}{ours.shape} and {model.dtype}{model.shape}")
            return
        if rule is None:
            relative = _UNRULED.get(dtype.name, 0.0)
            near = _is_near(_numbers(ours), _numbers(model), relative, _largest(model))
            if near.all():
                self.found.counts["near, no rule"] += 1
            else:
                index = tuple(np.argwhere(~near)[0])
                values = f"{ours[index]} and {model[index]}"
                self._differ(name, f"{what}: no rule, and the results are not near", values)
            return
        good = {
            "numpy": rule.accepts(ours, exact, bounds, dtype),
            "the model": rule.accepts(model, exact, bounds, dtype),
        }
        both = ~good["numpy"] & ~good["the model"]
        good["both"] = ~both
        for who in ("both", "numpy", "the model"):
            wrong = ~good[who] & (~both if who != "both" else True)
            if wrong.any():
                index = tuple(np.argwhere(wrong)[0])
                values = f"{ours[index]} and {model[index]}, exact {exact[index]}"
                kind = f"{what}: {rule.kind} broken by {who}"
                self._differ(name, kind, f"{values}, bound {bounds[index]}")
        if good["numpy"].all():
            self.found.counts["within the rule"] += 1

    def _fp64(
        self,
        name: str,
        rule: Rule | None,
        ours: tuple[Array, Array],
        model: tuple[Array, Array],
    ) -> None:
        """Compare results and bounds in FP64."""
        what = self._operator(_source(name))
        scale: Array | float | None = None
        if rule is not None and rule.kind == "dot-product":
            scale = np.nan_to_num(np.abs(model[1]), nan=0.0, posinf=0.0)
        elif rule is not None and rule.kind == "max-relative":
            scale = rule.largest
        for which, left, right in zip(("the result", "the bound"), ours, model, strict=True):
            if which == "the bound" and (rule is None or not rule.needs_bounds):
                continue
            near = _is_near(left, right, _FP64_ERROR, scale)
            if rule is not None and rule.needs_bounds:
                # A bound that is not finite allows every result.
                near |= ~np.isfinite(model[1]) & (~np.isfinite(left) | (which == "the result"))
            if near.all():
                continue
            index = tuple(np.argwhere(~near)[0])
            values = f"{left[index]} and {right[index]}"
            self._differ(name, f"{what}: {which} differs in FP64", values)
            return
        self.found.counts["equal in FP64"] += 1

    def _largest_operand(self, name: str, inputs: Mapping[str, Array]) -> float:
        """Return the largest absolute value of the first operand of an operator."""
        operand = self.producers[_source(name)].inputs[0]
        data = self.graph.main.tensors[operand].data
        return _largest(inputs[operand] if data is None else data.numpy())

    def _operator(self, name: str) -> str:
        return signature(self.producers[name], self.graph)

    def _differ(self, name: str, kind: str, values: str = "") -> None:
        index = int(re.sub(r"\D.*", "", name[1:]))
        _differ(self.found, self.cases[index], kind, f"{_source(name)}: {values}")


def _source(name: str) -> str:
    """Return the tensor whose value a detached operator computes."""
    return name.removesuffix(RESULT)


def _largest(array: Array) -> float:
    size = np.abs(array.astype(np.float64))
    return float(size.max(initial=0.0, where=np.isfinite(size)))


def _numbers(array: Array) -> Array:
    """Return elements in a type of numpy that holds them."""
    return array if array.dtype.kind in "biuf" else array.astype(np.float64)


def _is_near(
    left: Array, right: Array, relative: float, scale: Array | float | None = None
) -> npt.NDArray[np.bool_]:
    """Return whether numbers differ by a part of the largest of them, or of a scale."""
    a, b = left.astype(np.float64), right.astype(np.float64)
    with np.errstate(all="ignore"):
        size = np.abs(b) if scale is None else np.maximum(np.abs(b), scale)
        near = np.abs(a - b) <= relative * size
    return np.asarray((a == b) | (np.isnan(a) & np.isnan(b)) | near)


def signature(operator: Operator, graph: Graph) -> str:
    """Return the name of an operator with the types of its operands and results."""
    block = graph.main

    def types(names: Sequence[str]) -> str:
        found = [str(block.tensors[n].dtype) if n in block.tensors else "shape" for n in names]
        return " ".join(dict.fromkeys(found))

    return f"{operator.spec.name} {types(operator.inputs)} -> {types(operator.outputs)}"


def _types(loaded: Loaded) -> str:
    """Return the operators of a small program, or of a large one nothing."""
    operators = list(computed(loaded.graph).values())
    return signature(operators[0], loaded.graph) if len(operators) == 1 else "a program"


def plain(error: TosaConvertError) -> str:
    """Return what an error says, without what differs from case to case."""
    message = error.findings[0].message.partition("; (")[0]
    hint = error.findings[0].hint.partition(" (")[0]
    return re.sub(r"-?\d+", "_", f"{message} [{hint}]" if hint.startswith("rule") else message)[
        :200
    ]


def _differ(found: Found, loaded: Loaded, kind: str, values: str = "") -> None:
    _, name, variant = loaded.case
    found.differences.append((kind, f"{name} {variant} {values}".strip()))


@dataclass
class Tally:
    """Counts of many cases, by part; kinds of differences with an example of each."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, found: Found) -> None:
        """Count what was found of a batch."""
        self.counts.setdefault(found.part, Counter()).update(found.counts)
        for kind, example in found.differences:
            self.kinds[found.part, kind] += 1
            self.examples.setdefault(kind, example)

    def unexplained(self) -> list[str]:
        """Return the kinds of differences without an explanation."""
        return sorted({kind for _, kind in self.kinds if explanation(kind) is None})

    def lines(self) -> Iterator[str]:
        """Iterate over the counts and the kinds of differences."""
        for part, counts in self.counts.items():
            yield f"{part}: " + ", ".join(f"{name} {count}" for name, count in counts.items())
        for (part, kind), count in self.kinds.most_common():
            row = explanation(kind)
            yield f"{count:6} {part}: {kind}"
            yield f"       {row.who}: {row.why}" if row else "       NOT EXPLAINED"
            if row is None:
                yield f"       {self.examples[kind]}"

    def published(self) -> dict[str, Any]:
        """Return the counts from which the document has its tables."""
        rows: dict[str, Counter[str]] = {}
        for (part, kind), count in self.kinds.items():
            row = explanation(kind)
            rows.setdefault(row.what if row else kind, Counter())[part] += count
        model = {"tosa-tools": version("tosa-tools"), "numpy": version("numpy")}
        return {"releases": model, "counts": self.counts, "differences": dict(sorted(rows.items()))}


def all_cases(suite: Path, programs: int, edges: int) -> list[Case]:
    """List the cases: so many random programs, and official ones with each variant of inputs."""
    cases = [(PARTS[0], str(seed), "") for seed in range(programs)]
    official = [c for c in official_suite.cases(suite) if c.operator not in _NO_EDGES]
    step = max(1, math.ceil(len(official) / edges)) if edges else 1
    files = [str(case.tosa) for case in official[::step]]
    return cases + [(PARTS[1], file, name) for file in files for name in VARIANTS if edges]


def compare(cases: Sequence[Case], key: object, jobs: int, state: Path | None) -> Tally:
    """Compare cases in processes. key: what the outcomes depend on. state: a file to continue from."""
    batches = [
        of_part[start : start + BATCH]
        for part in PARTS
        for of_part in [[case for case in cases if case[0] == part]]
        for start in range(0, len(of_part), BATCH)
    ]
    tally, done = Tally(), 0
    if state is not None and state.exists():
        found, tally, done = pickle.loads(state.read_bytes())
        if found != key:
            raise SystemExit(f"{state} is of other options or other code; remove it to begin again")
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        for outcome in pool.map(compare_cases, batches[done:]):
            tally.add(outcome)
            done += 1
            if state is not None:
                beside = state.with_suffix(".part")
                beside.write_bytes(pickle.dumps((key, tally, done)))
                beside.replace(state)
            if done % 20 == 0:
                print(f"{done} of {len(batches)} batches", file=sys.stderr)
    return tally


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare numpy with the reference model and print where they differ."""
    parser = argparse.ArgumentParser(description="Compare numpy with the reference model.")
    parser.add_argument("directory", type=Path, help="made by official_suite.py")
    parser.add_argument("--programs", type=int, default=20000, metavar="N", help="random programs")
    parser.add_argument("--edges", type=int, default=12000, metavar="N", help="official programs")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes")
    parser.add_argument("--state", type=Path, metavar="FILE", help="continue from this file")
    parser.add_argument("--publish", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args(arguments)
    cases = all_cases(options.directory, options.programs, options.edges)
    # What explains a difference does not change what is counted.
    compared = [file for file in sorted(HERE.glob("*.py")) if file.name != EXPLANATIONS]
    key = options.programs, options.edges, digest_of(PACKAGE, *compared)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # The arrays are small: more threads would wait.
    tally = compare(cases, key, options.jobs, options.state)
    print("\n".join(tally.lines()))
    if options.publish and not tally.unexplained():
        RESULTS.write_text(json.dumps(tally.published(), indent=1) + "\n", encoding="utf-8")
    return 1 if tally.unexplained() or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
