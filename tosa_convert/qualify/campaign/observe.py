"""Observe what a consumer does with a program, and what failures of one cause have in common."""

from __future__ import annotations

import random
import re
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.accuracy.comparison import Comparison
from tosa_convert.golden.arrays import SCALE_SUFFIX, Array, Arrays
from tosa_convert.golden.backends.isolated import REFERENCE_MODEL
from tosa_convert.golden.backends.process import KeptWorkers, Machine
from tosa_convert.golden.backends.runners import Backend, backend_on
from tosa_convert.golden.checking.check import Reference, backend_outputs
from tosa_convert.golden.edges.edge_inputs import find_edge_inputs
from tosa_convert.golden.running.programs import as_graph, input_arrays
from tosa_convert.golden.running.run_options import Engine, RunOptions
from tosa_convert.graph.derived import extract_from
from tosa_convert.graph.model import Block, Graph, Operator
from tosa_convert.graph.opset import CONST, CONST_SHAPE
from tosa_convert.qualify.campaign.edits import (
    RESTRUCTURES,
    exchanged,
    with_detour,
    with_fixed_inputs,
)
from tosa_convert.qualify.random_graphs.generate import GENERATED, generate
from tosa_convert.qualify.suite.answers import Answer, Status
from tosa_convert.rules.public import find_violations

# -- the programs of a campaign: each follows from the campaign's seed and its number --------------

#: Operators of a generated program: small ones say most for their time.
_SIZES: Final = (1, 1, 1, 2, 2, 3, 5, 8, 13, 21)
#: How many kinds of operators a program of few kinds has: they take what one another computed.
_FEW: Final = (1, 2, 3, 4)
_EDITS: Final = 3
_RESTRUCTURED: Final = 0.3
_PART: Final = 12


@dataclass(frozen=True, slots=True)
class Source:
    """Say where the programs of a campaign come from.

    seed: of the campaign. size: the most operators of a generated program. like: models whose parts are
        programs, too; the others as for `generate`.
    """

    seed: int = 0
    size: int = 21
    kinds: tuple[str, ...] | None = None
    profile: str | None = None
    types: tuple[str, ...] | None = None
    level: Literal["8k", "none"] = "8k"
    scaled: bool = False
    like: tuple[str, ...] = ()

    def program(self, seed: int, size: int, kinds: Sequence[str] | None) -> Graph:
        given = {"profile": self.profile, "types": self.types}
        return generate(seed, size, kinds=kinds, level=self.level, scaled=self.scaled, **given)


@dataclass(frozen=True, slots=True)
class Trial:
    """Hold a program with its inputs, and how it was made."""

    graph: Graph
    inputs: dict[str, Array]
    made: str


def make_trial(source: Source, number: int) -> Trial:
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
    return Trial(graph, inputs, made)


def _generated(source: Source, seed: int, size: int, choose: random.Random) -> tuple[Graph, str]:
    """Return a random program, half of them of few kinds of operators, and how it was made."""
    if choose.random() < 0.5:
        known = GENERATED if source.kinds is None else source.kinds
        few = choose.sample(known, min(choose.choice(_FEW), len(known)))
        larger = min(2 * size + 4, source.size)
        try:
            command = f"generate --seed {seed} --size {larger} --only {','.join(few)}"
            return source.program(seed, larger, few), command
        except TosaConvertError:
            pass  # the target has none of them, or they find no operands
    return source.program(seed, size, source.kinds), f"generate --seed {seed} --size {size}"


def _is_within(graph: Graph, source: Source) -> bool:
    """Return whether an edited program is valid, and has no operators that were not asked for."""
    used = {op.spec.name for op in graph.main.operators} - {CONST.name, CONST_SHAPE.name}
    if source.kinds is not None and not used <= set(source.kinds):
        return False
    return not find_violations(graph, profile=source.profile, level=source.level)


def _edited(graph: Graph, inputs: Arrays, choose: random.Random) -> tuple[Graph, str] | None:
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
    """Return a random part of a model, of `most` operators, with edits that keep its meaning."""
    choose = random.Random(f"like {seed}")
    graph = part_of_model(_model(path), choose, most)
    for _ in range(choose.randrange(_EDITS + 1)):
        changed = choose.choice((with_detour, exchanged))(graph, choose)
        if changed is not None and not find_violations(changed[0]):
            graph = changed[0]
    return graph


def part_of_model(graph: Graph, choose: random.Random, most: int = _PART) -> Graph:
    """Return a random part of a model: results of neighbouring operators, from what they use."""
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


#: The codes of a consumer's failures -> the status of the trial.
_STATUS: Final[dict[str, Status]] = {"backend-failed": "crashed", "backend-refused": "refused"}
#: ... of the reference model where it is the consumer, and another engine computes the reference.
_STATUS_OF_MODEL: Final[dict[str, Status]] = {
    "refmodel-failed": "crashed",
    "refmodel-refused": "refused",
}
#: What a compiler says whose own verifier refuses what it made of a program: no refusal.
#: What SPIR-V refuses, the levels, profiles and extensions of TOSA, such as variables and operands that
#: are no constants, may be limits of the target.
_INVALID_IR: Final = re.compile(
    r"error: (?:\S+:\d+:\d+: )?(internal error|"
    r"'(?!spirv\.|tosa\.variable)[\w.]+' op (?!illegal|unsupported|'|failed to emulate|"
    r"expected compile))"
)
#: What differs between messages of one cause: names in quotes, files, values of MLIR, numbers.
_VARIABLE: Final = (
    (re.compile(r"0x[0-9a-fA-F]+"), "N"),
    (re.compile(r"(?:/[\w.@+-]+)+"), "FILE"),
    (re.compile(r"%[\w#.$-]+"), "%"),
    (re.compile(r"tensor<[^>]*>"), "TENSOR"),
    (re.compile(r"dense(?:_resource)?<[^>]*>"), "DENSE"),
    (re.compile(r"\b(?:b?f|[us]?i)\d+(?:E\d+M\d+\w*)?\b"), "TYPE"),
    (re.compile(r"(?<=__hoisted_tensor)\w+"), ""),
    (re.compile(r"\d+"), "N"),
    (re.compile(r"\bN (input|output|file)s\b"), r"N \1"),
    # Of the reference model: further assertions, and operands.
    (re.compile(r"(ASSERTION AT [^/;]*[^/; ]) ?[/;].*"), r"\1"),
)
#: What stands for them.
_PLACE: Final = re.compile(r"N|\b(?:FILE|TENSOR|DENSE|TYPE)\b|%")
#: In the line of a message that says what is wrong.
_TELLING: Final = re.compile(r"[Ee]rror: |Assertion|LLVM ERROR|UNREACHABLE")
#: A message that only names the signal.
_SILENT: Final = re.compile(
    r"ended with (?:SIG\w+(?:, and wrote nothing to stderr|: no message)|the code -N)"
)
#: What LLVM's programs say of every crash.
_NOISE: Final = re.compile(
    r"Stack dump:|Program arguments:|Please report issues|Diagnostics:$|Error code: "
)
_GROUP_CHARACTERS: Final = 300
#: The processes of this one that have imported a consumer's packages.
_KEPT: Final = KeptWorkers()


@dataclass(frozen=True, slots=True)
class Observation(Answer):
    """Hold the outcome of a trial, what failures of one cause have in common, and how it was made."""

    group: str = ""
    made: str = ""


@dataclass(frozen=True, slots=True)
class Consumer:
    """Name what is tried. against: as for `check`."""

    against: str
    timeout: float
    engine: Engine = "auto"


def run_trial(name: str, source: Source, consumer: Consumer, key: str = "") -> Observation:
    """Return what the consumer, whose fingerprint is `key`, does with the program of a number."""
    start = time.monotonic()
    try:
        trial = make_trial(source, int(name))
    except TosaConvertError as error:
        return Observation(name, "not-run", str(error))
    except Exception as error:  # a defect of this package: the campaign goes on
        status, message, group = _own_error(error)
        return Observation(name, status, message, key=key, group=group)
    status, message, group = observe(trial, consumer)
    seconds = round(time.monotonic() - start, 4)
    return Observation(name, status, message, seconds, key=key, group=group, made=trial.made)


def observe(trial: Trial, consumer: Consumer) -> tuple[Status, str, str]:
    """Return the verdict on a program, the text, and the group of its failure.

    What the reference refuses to compute is "not-run". "error": this package failed, not the consumer.
    """
    try:
        options = RunOptions(timeout=consumer.timeout, engine=consumer.engine)
        found = Reference(trial.graph, trial.inputs, options).check(_backend(trial, consumer))
    except TosaConvertError as error:
        codes = _STATUS
        if (consumer.against, consumer.engine) == (REFERENCE_MODEL, "numpy"):
            codes = _STATUS | _STATUS_OF_MODEL
        status = codes.get(error.code, "not-run")
        said = str(error)
        if status == "refused" and _INVALID_IR.search(said):
            status = "crashed"
        return status, said, f"{status}: {_essence(error)}" if status != "not-run" else ""
    except Exception as error:  # of this package: a backend's are TosaConvertErrors
        return _own_error(error)
    if found.ok:
        return "pass", "", ""
    return "wrong", str(found), f"wrong: {_wrong_operators(trial.graph, found)}"


def _own_error(error: Exception) -> tuple[Status, str, str]:
    """Return an exception that this package should not raise, as `observe` returns a failure."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{type(error).__name__} in {last.name} of {Path(last.filename).name}"
    return "error", "".join(traceback.format_exception(error)), f"error: {place}"


def _backend(trial: Trial, consumer: Consumer) -> Backend:
    machine = Machine(sys.executable, consumer.timeout, _KEPT)
    return backend_on(machine, consumer.against, trial.graph, trial.inputs)


def computed(trial: Trial, consumer: Consumer, folder: Path) -> dict[str, Array]:
    return dict(backend_outputs(trial.graph, trial.inputs, _backend(trial, consumer), folder))


def _essence(error: TosaConvertError) -> str:
    """Return a consumer's message without what differs from program to program."""
    said = error.findings[0].message.splitlines()
    lines = [line for line in said if not _NOISE.search(line)]
    telling = (line for line in lines if _TELLING.search(line) and "raise " not in line)
    text = next(telling, lines[-1] if lines else "")
    for pattern, replacement in _VARIABLE:
        text = pattern.sub(replacement, text)
    return " ".join(text.split())[:_GROUP_CHARACTERS]


def says_nothing(group: str) -> bool:
    """Return whether a consumer died without a word: its other defects end in the same way.

    Example:
        >>> says_nothing("crashed: it ended with SIGSEGV, and wrote nothing to stderr")
        True
    """
    return bool(_SILENT.search(group))


def telling_part(group: str) -> str:
    """Return the longest part of a group's message that is the same in all programs.

    Example:
        >>> telling_part("crashed: Assertion failed at N: rank < N")
        'Assertion failed at '
        >>> telling_part("crashed: it takes INTN where the program takes INTN")
        ' where the program takes I'
    """
    return max(_PLACE.split(group.partition(": ")[2]), key=len)


def _wrong_operators(graph: Graph, found: Comparison) -> str:
    """Return the operators whose results are wrong, with their element types."""
    names = {row.name for row in found.tensors if not row.ok}
    producers = [op for op in graph.main.operators if names & set(op.outputs)]
    return described(graph.main, producers) or ", ".join(sorted(names))


def described(block: Block, operators: list[Operator]) -> str:
    """Return operators with the element types of their first operands and results, without constants."""
    texts = set()
    for op in operators:
        if op.spec not in (CONST, CONST_SHAPE):
            types = [
                tensor.dtype.name
                for name in (*op.inputs[:1], *op.outputs[:1])
                if (tensor := block.tensors.get(name)) is not None
            ]
            texts.add(f"{op.spec.name} {' to '.join(dict.fromkeys(types))}".strip())
    return ", ".join(sorted(texts))
